"""What the hub knows: its hosts, and the collections that are open.

A collection begins with a notice. It asks the hosts whose addresses the notice names, and the hosts that their answers
name. It closes when all of them have answered, and at the latest after `wait_s`. A host that is silent is not waited
for.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from threading import Lock

from tailrace import whole
from tailrace.hub.wire import HOST, POLL_S, RECORDING_BYTES, SEGMENT, SEGMENTS_MAX, Message, Wanted
from tailrace.units import SECOND, format_moment
from tailrace.watch.incidents import INCIDENT, named

HOSTS_MAX = 1_000
OPEN_MAX = 4
"""Collections at once; a host sends a further notice again later."""
WAITING_MAX = 4
"""Collections that are over and wait for their explanation, while further ones are open. All together bound the disk
space."""
ASKED_MAX = 50
DEAD_S = 15.0
"""A host asks every two seconds whether something is wanted, unless it is sending."""
ROUND_S = 2 * POLL_S
"""Each host that lives has asked within this time, also after the hub has begun."""
APART_NS = 30 * SECOND
"""Notices of minutes that are nearer belong to one incident; a host reports it 8 s to 30 s after its beginning."""
CLOSED_MAX = 100
SUFFIX = ".collecting"
STATE = "collection.json"


@dataclass
class Host:
    seen: float
    ahead_ns: int
    """How much its clock is ahead of the hub's, with the delay of the message."""
    addresses: frozenset[str]


@dataclass
class Collection:
    name: str
    begin: int
    end: int
    opened: float
    reasons: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    """Hosts, in the order in which they were asked; the first one noticed it."""
    answered: dict[str, str] = field(default_factory=dict)
    """Host → why it has nothing; empty if it has sent its recording."""
    peers: set[str] = field(default_factory=set)
    """Addresses whose hosts are asked, also if such a host appears later."""
    received: dict[str, dict[str, int]] = field(default_factory=dict)
    """Host → file → bytes. A file that is sent again counts once."""
    explained: bool = False

    def is_near(self, begin: int, end: int) -> bool:
        return begin < self.end + APART_NS and self.begin < end + APART_NS

    @property
    def awaited(self) -> list[str]:
        """Hosts that were asked and have not answered."""
        return [host for host in self.asked if host not in self.answered]

    @property
    def delivered(self) -> list[str]:
        return [host for host in self.asked if self.answered.get(host) == ""]


class Desk:
    """All methods may be called from any thread."""

    def __init__(self, folder: Path, wait_s: float, most: int) -> None:
        self.folder = folder
        self.wait_s = wait_s
        self.most = most
        self._hosts: dict[str, Host] = {}
        self._open: dict[str, Collection] = {}
        self._closed: deque[Collection] = deque(maxlen=CLOSED_MAX)
        self._said: deque[str] = deque(maxlen=CLOSED_MAX)
        self._lock = Lock()

    def path(self, collection: Collection) -> Path:
        return self.folder / f"{collection.name}{SUFFIX}"

    def said(self) -> list[str]:
        """Sentences for the user since the last call."""
        with self._lock:
            found = list(self._said)
            self._said.clear()
        return found

    def poll(self, heard: Message, now: float) -> list[Wanted] | HTTPStatus:
        """A host is there; returns what the hub wants from it."""
        with self._lock:
            host = self._seen(heard, now)
            if host is None:
                return HTTPStatus.SERVICE_UNAVAILABLE
            for one in self._open.values():
                if not one.explained and one.peers & host.addresses:
                    self._ask(one, heard.host)
            asking = [one for one in self._open.values() if heard.host in one.awaited]
            return [Wanted(one.name, one.begin + host.ahead_ns, one.end + host.ahead_ns) for one in asking]

    def notice(self, heard: Message, now: float) -> str | HTTPStatus | None:
        """The collection that a host's notice belongs to; None if that is over."""
        with self._lock:
            host = self._seen(heard, now)
            if host is None:
                return HTTPStatus.SERVICE_UNAVAILABLE
            begin, end = heard.begin - host.ahead_ns, max(heard.begin, heard.end) - host.ahead_ns
            for one in (*self._open.values(), *self._closed):
                if one.is_near(begin, end):
                    return self._joined(one, heard, now)
            if self._has_no_room():
                return HTTPStatus.SERVICE_UNAVAILABLE
            if self._is_full():
                self._said.append(f"{heard.host} noticed an incident: the folder already holds {self.most} (--most)")
                return None
            one = Collection(self._name(end), begin, end, now, list(heard.reasons))
            try:
                self.path(one).mkdir(mode=0o700)
            except OSError as error:
                self._said.append(f"{self.path(one)}: {error.strerror}")
                return HTTPStatus.INSUFFICIENT_STORAGE
            self._open[one.name] = one
            self._said.append(f"{one.name}: {heard.host} noticed: {'; '.join(heard.reasons) or 'no reason'}")
            return self._joined(one, heard, now)

    def place(self, name: str, host: str, segment: str, length: int) -> Path | HTTPStatus:
        """Where a file of a host's recording goes. It counts from now on."""
        with self._lock:
            one = self._open.get(name)
            if one is None or host not in one.awaited:
                return HTTPStatus.GONE
            if not SEGMENT.fullmatch(segment):
                return HTTPStatus.BAD_REQUEST
            received = {**one.received.get(host, {}), segment: length}
            if sum(received.values()) > RECORDING_BYTES or len(received) > SEGMENTS_MAX:
                return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            one.received[host] = received
            folder = self.path(one) / host
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError:
            return HTTPStatus.INSUFFICIENT_STORAGE
        return folder / segment

    def sends(self, host: str, now: float) -> None:
        """A part of a recording has come from a host, which asks nothing meanwhile."""
        with self._lock:
            if known := self._hosts.get(host):
                known.seen = now

    def done(self, name: str, host: str, heard: Message, now: float) -> HTTPStatus:
        """A host has sent its recording, or has none."""
        with self._lock:
            one = self._open.get(name)
            if one is None or host not in one.awaited:
                return HTTPStatus.GONE
            there = (self.path(one) / host / "recording.json").is_file()
            why_not = heard.failed or ("" if there else "it sent no recording")
            one.answered[host] = why_not
            if why_not:
                self._said.append(f"{name}: {host} has nothing: {why_not}")
            else:
                self._ask_all(one, heard.peers)
            self._keep(one)
            return HTTPStatus.OK

    def due(self, now: float) -> list[Collection]:
        """Collections to explain; they take no more."""
        with self._lock:
            found = [one for one in self._open.values() if not one.explained and self._is_over(one, now)]
            for one in found:
                one.explained = True
                for host in one.awaited:
                    one.answered[host] = "it did not answer in time"
                    self._said.append(f"{one.name}: {host} did not answer in time")
            return found

    def close(self, one: Collection) -> None:
        """It is explained, or cannot be."""
        with self._lock:
            self._open.pop(one.name, None)
            self._closed.append(one)

    def take_up(self, now: float) -> None:
        """Collections of an earlier hub; hosts that have not answered are asked again."""
        for path in sorted(self.folder.glob(f"{INCIDENT}*{SUFFIX}")):
            one = _restored(path, now)
            if one is None:
                with suppress(OSError):
                    path.rmdir()  # of a hub that was killed as soon as it had made it
                if path.exists():
                    self._said.append(f"{path}: it is left alone: its {STATE} does not show what was collected")
            else:
                self._open[one.name] = one
                self._said.append(f"{one.name}: an earlier hub was collecting it; it goes on")

    def _seen(self, heard: Message, now: float) -> Host | None:
        if heard.host not in self._hosts and len(self._hosts) == HOSTS_MAX:
            silent = [name for name, host in self._hosts.items() if now - host.seen > DEAD_S]
            if not silent:
                return None
            for name in silent:
                del self._hosts[name]
        if heard.host not in self._hosts:
            self._said.append(f"{heard.host} is there")
        host = Host(now, heard.now - time.time_ns(), frozenset(heard.addresses))
        self._hosts[heard.host] = host
        return host

    def _joined(self, one: Collection, heard: Message, now: float) -> str | None:
        if one.explained or one.name not in self._open:
            return None
        self._ask(one, heard.host)
        self._ask_all(one, heard.peers)
        self._keep(one)
        return one.name if heard.host in one.awaited else None

    def _ask_all(self, one: Collection, peers: Iterable[str]) -> None:
        one.peers.update(peers)
        for name, host in self._hosts.items():
            if one.peers & host.addresses:
                self._ask(one, name)

    def _ask(self, one: Collection, host: str) -> None:
        if host not in one.asked and len(one.asked) < ASKED_MAX:
            one.asked.append(host)

    def _is_over(self, one: Collection, now: float) -> bool:
        lasted = now - one.opened
        if lasted >= self.wait_s:
            return True
        if lasted < ROUND_S:
            return False
        awaited = one.awaited
        if not awaited:
            return bool(one.asked)
        alive = any(host in self._hosts and now - self._hosts[host].seen <= DEAD_S for host in awaited)
        return not alive and lasted >= DEAD_S

    def _has_no_room(self) -> bool:
        waiting = sum(one.explained for one in self._open.values())
        return len(self._open) - min(waiting, WAITING_MAX) >= OPEN_MAX

    def _is_full(self) -> bool:
        found = {path.name.partition(".")[0] for path in self.folder.glob(f"{INCIDENT}*")}
        return len(found) >= self.most

    def _name(self, moment: int) -> str:
        """No incident has it yet."""
        found = named(self.folder, INCIDENT, moment).name
        while any(self.folder.glob(f"{found}*")):
            moment += SECOND
            found = named(self.folder, INCIDENT, moment).name
        return found

    def _keep(self, one: Collection) -> None:
        """A hub that is killed goes on from here. On a full disk it does not."""
        state = {"begin": one.begin, "end": one.end, "asked": one.asked, "answered": one.answered}
        state["peers"] = sorted(one.peers)
        with suppress(OSError, ValueError):
            whole.write(self.path(one) / STATE, json.dumps(state).encode())


def _restored(path: Path, now: float) -> Collection | None:
    try:
        state = json.loads((path / STATE).read_text(encoding="utf-8"))
        asked = [host for host in state["asked"] if HOST.fullmatch(host)]
        answered = {host: str(state["answered"][host]) for host in asked if host in state["answered"]}
        one = Collection(
            path.name.removesuffix(SUFFIX), int(state["begin"]), int(state["end"]), now, [], asked, answered
        )
        one.peers = {str(peer) for peer in state["peers"]}
        format_moment(one.begin)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return one
