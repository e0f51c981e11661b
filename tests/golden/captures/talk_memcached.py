"""The memcached session: pymemcache speaks text, python-binary-memcached the binary form; meta commands by hand."""

import contextlib
import socket

from bmemcached import Client as Binary
from bmemcached.exceptions import MemcachedException
from pymemcache.client.base import Client as Text
from pymemcache.exceptions import MemcacheClientError

SERVER = ("127.0.0.1", 11211)

text = Text(SERVER, no_delay=True)
text.set("story", b"x" * 5000, noreply=False)
text.set_many({f"key-{n}": b"value" for n in range(5)}, noreply=False)
text.get("story")
text.get_many(["story", "key-1", "nothing"])
text.gets("key-1")
text.cas("key-1", b"w", b"1", noreply=False)
text.add("key-1", b"v", noreply=False)
text.set("quiet", b"v", noreply=True)
text.incr("nothing", 1)
text.touch("key-2", 60, noreply=False)
text.delete("key-2", noreply=False)
text.stats()
text.version()
with contextlib.suppress(MemcacheClientError):
    text.incr("key-3", 1)
text.quit()

binary = Binary(["127.0.0.1:11211"])
binary.set("binary", "x" * 3000)
binary.get("binary")
binary.get("nothing")
binary.set_multi({f"many-{n}": "v" for n in range(4)})
binary.get_multi(["many-1", "many-2", "nothing"])
binary.incr("count", 1)
binary.delete("binary")
binary.stats()
with contextlib.suppress(MemcachedException):
    binary.incr("many-1", 1)
binary.disconnect_all()

with socket.create_connection(SERVER) as connection:
    for line, end in (
        (b"ms meta 2 c\r\nhi\r\n", b"\r\n"),
        (b"mg meta v q\r\nmg other v q\r\nmn\r\n", b"MN\r\n"),
        (b"mg other v\r\n", b"\r\n"),
        (b"nonsense\r\n", b"\r\n"),
        (b"get meta\r\n", b"END\r\n"),
    ):
        connection.sendall(line)
        seen = b""
        while not seen.endswith(end):
            seen += connection.recv(65536)
