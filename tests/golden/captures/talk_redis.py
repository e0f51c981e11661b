"""The Redis session, written out: RESP2, pipelining, a transaction, errors; RESP3 with pushes; a subscription."""

import socket
import time


def command(*words: str) -> bytes:
    return f"*{len(words)}\r\n".encode() + b"".join(f"${len(w)}\r\n{w}\r\n".encode() for w in words)


def talk(*pieces: bytes) -> None:
    with socket.create_connection(("127.0.0.1", 6379)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            connection.sendall(piece)
            time.sleep(0.05)
            connection.recv(1 << 20)


talk(
    command("SET", "k", "v"),
    command("GET", "k") + command("GET", "nothing") + command("LPUSH", "k", "x"),
    command("SET", "large", "x" * 5000),
    command("GET", "large"),
    command("MULTI") + command("INCR", "n") + command("LPUSH", "l", "a", "b") + command("EXEC"),
    command("LRANGE", "l", "0", "-1"),
    b"PING\r\n",
    command("NONSENSE"),
    command("EVAL", "return {1,{2,{}},redis.status_reply('x')}", "0"),
)
talk(
    command("HELLO", "3"),
    command("CLIENT", "TRACKING", "ON"),
    command("GET", "k"),
    command("SET", "k", "w"),
    command("HGETALL", "h"),
)
talk(command("PING"), command("SUBSCRIBE", "news"))
