"""The LDAP session: ldap3 binds, adds, searches, compares, changes and deletes; a refused bind; by hand, searches
at once."""

import socket

from ldap3 import MODIFY_REPLACE, NONE, SUBTREE, Connection, Server

BASE = "dc=example,dc=org"
BOSS, WORD = f"cn=boss,{BASE}", "secret"
server = Server("127.0.0.1", port=389, get_info=NONE)

with Connection(server, BOSS, WORD) as boss:
    boss.add(BASE, ["dcObject", "organization"], {"o": "Example", "dc": "example"})
    for number in range(20):
        name = f"user{number}"
        boss.add(f"cn={name},{BASE}", "person", {"sn": name, "description": "x" * 50})
    boss.add(f"cn=user1,{BASE}", "person", {"sn": "again"})
    boss.search(BASE, "(objectClass=person)", SUBTREE, attributes=["*"])
    boss.search(BASE, "(cn=nobody)", SUBTREE)
    boss.search("dc=elsewhere", "(cn=nobody)", SUBTREE)
    boss.compare(f"cn=user1,{BASE}", "sn", "user1")
    boss.modify(f"cn=user1,{BASE}", {"sn": [(MODIFY_REPLACE, ["other"])]})
    boss.modify_dn(f"cn=user2,{BASE}", "cn=renamed")
    boss.delete(f"cn=user3,{BASE}")
    print(boss.extend.standard.who_am_i())

refused = Connection(server, BOSS, "wrong")
print(refused.bind(), refused.result["description"])
refused.unbind()


def message(number: int, tag: int, content: bytes) -> bytes:
    inside = bytes([2, 1, number, tag, len(content)]) + content
    return bytes([0x30, len(inside)]) + inside


base = BASE.encode()
search = (
    b"\x04"
    + bytes([len(base)])
    + base
    + b"\x0a\x01\x02\x0a\x01\x00\x02\x01\x00\x02\x01\x00\x01\x01\x00\x87\x0bobjectClass0\x00"
)
with socket.create_connection(("127.0.0.1", 389)) as connection:
    connection.sendall(message(1, 0x60, b"\x02\x01\x03\x04\x00\x80\x00"))
    print(len(connection.recv(65536)), "bytes")
    connection.sendall(b"".join(message(number, 0x63, search) for number in (2, 3, 4)))
    seen = b""
    while seen.count(b"\x65\x07\x0a\x01\x00") < 3:
        seen += connection.recv(65536)
    print(len(seen), "bytes")
