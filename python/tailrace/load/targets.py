"""The targets of a load: URLs whose names are resolved once. A target is refused unless it is one server that may be
loaded."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from tailrace.errors import UsageError


@dataclass(frozen=True)
class Target:
    """A server that receives requests."""

    name: str | None
    """The user's name for it."""
    address: str
    """IP and port: `10.0.0.2:80`, `[::1]:80`."""
    host: str
    """The host in its requests."""
    path: str
    """The path and query of the URL; begins with a slash."""

    @property
    def prefix(self) -> str:
        """The prefix of the paths of pages."""
        return self.path.partition("?")[0].rstrip("/")


def aim(urls: Sequence[str], own: bool) -> tuple[Target, ...]:
    """Each of `urls` is `URL` or `NAME=URL`.

    Raises UsageError if it is not a URL, has no address, or its address is not that of one machine; unless `own`, also
    if it is the address of another machine.
    """
    targets = tuple(_target(url, own) for url in urls)
    names = [target.name for target in targets if target.name]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise UsageError(f"two targets have the name {twice}", advice="give each server a name of its own")
    return targets


def _target(text: str, own: bool) -> Target:
    name, url = _named(text)
    parts = _split(url)
    host, port = parts.hostname or "", parts.port or 80
    try:
        [(*_, found), *_] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise UsageError(f"the address of {host} cannot be found ({error.strerror})", where=url) from error
    ip = _plain(str(found[0]))
    if several := _not_one_server(ip):
        raise UsageError(f"{host} ({ip}) is {several}", where=url, advice="give the address of one server")
    if not own and not is_local(ip):
        raise UsageError(
            f"{host} ({ip}) is not this machine",
            where=url,
            advice="a load can bring a server down; if you may load it, pass --i-own-this-target",
        )
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    address = f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"
    return Target(name, address, parts.netloc.rpartition("@")[2], path)


def _plain(found: str) -> str:
    """An address without its scope; an IPv4 address in IPv6 form (`::ffff:10.0.0.2`) becomes IPv4."""
    address = ip_address(found.partition("%")[0])
    return str((address.version == 6 and address.ipv4_mapped) or address)


def _not_one_server(ip: str) -> str | None:
    """What the address means if it is not one server: requests would go to many machines."""
    address = ip_address(ip)
    if address.is_multicast:
        return "a multicast address"
    if address.is_unspecified:
        return "not the address of a server"
    return "a broadcast address" if _is_broadcast(ip) else None


def _is_broadcast(ip: str) -> bool:
    """Whether it is a broadcast address by the routes of this machine: the kernel connects to one only if the socket
    allows it."""
    if ":" in ip:  # IPv6 has no broadcast
        return False
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:  # connecting a UDP socket sends nothing
        try:
            probe.connect((ip, 9))
        except PermissionError:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            with suppress(OSError):
                probe.connect((ip, 9))
                return True
        except OSError:
            pass
    return False


def _named(text: str) -> tuple[str | None, str]:
    name, equals, url = text.partition("=")
    return (name, url) if equals and name and ":" not in name and "/" not in name else (None, text)


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        _ = parts.port
    except ValueError as error:
        raise UsageError(f"not a URL ({error})", where=url) from error
    if parts.scheme != "http":
        raise UsageError(f"{parts.scheme} is not supported", where=url, advice="give an http:// URL")
    if not parts.hostname or any(c.isspace() or not c.isprintable() or not c.isascii() for c in url):
        raise UsageError("not a URL such as http://127.0.0.1:8080/", where=url)
    return parts


def is_local(ip: str) -> bool:
    """Whether it is an address of this machine, in this network namespace."""
    address = ip_address(ip)
    if address.is_loopback:
        return True
    with suppress(OSError):  # if any address may be bound, binding one proves nothing
        if Path("/proc/sys/net/ipv4/ip_nonlocal_bind").read_text().strip() != "0":
            return False
    return can_bind(ip) and not address.is_unspecified


def can_bind(ip: str) -> bool:
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((ip, 0))
        except OSError:
            return False
    return True
