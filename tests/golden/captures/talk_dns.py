"""The DNS session: queries over TCP by dnspython, and names that the resolver of the C library looks up over UDP. The
first query of one name is dropped on its way to dnsmasq, so that the resolver sends it again.

It expects dnsmasq at port 5353 and 127.0.0.1 in /etc/resolv.conf.
"""

import socket
import threading
import time

import dns.message
import dns.query

HERE, SERVER = ("127.0.0.1", 53), ("127.0.0.1", 5353)


def forward_datagrams(dropped: bytes) -> None:
    """Forwards queries and responses; the first query that holds these bytes is lost."""
    taken = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    taken.bind(HERE)
    lost = set()
    while True:
        query, sender = taken.recvfrom(65536)
        if dropped in query and query[:2] not in lost:
            lost.add(query[:2])
            continue
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asks:
            asks.sendto(query, SERVER)
            taken.sendto(asks.recv(65536), sender)


def forward_stream() -> None:
    with socket.create_server(HERE) as taken:
        while True:
            client, _ = taken.accept()
            with client, socket.create_connection(SERVER) as server:
                while query := client.recv(65536):
                    server.sendall(query)
                    client.sendall(server.recv(65536))


threading.Thread(target=forward_datagrams, args=(b"lost",), daemon=True).start()
threading.Thread(target=forward_stream, daemon=True).start()
time.sleep(0.5)

with socket.create_connection(HERE) as connection:
    for name, kind in (("www.shop.test", "A"), ("www.shop.test", "AAAA"), ("shop.test", "MX"), ("missing.test", "A")):
        dns.query.send_tcp(connection, dns.message.make_query(name, kind))
        response, _ = dns.query.receive_tcp(connection)
        print(name, kind, response.rcode())
for name in ("www.shop.test", "lost.shop.test", "missing.test"):
    began = time.monotonic()
    try:
        socket.getaddrinfo(name, 80, socket.AF_INET)
    except socket.gaierror as refused:
        print(refused)
    print(name, f"{time.monotonic() - began:.2f} s")
