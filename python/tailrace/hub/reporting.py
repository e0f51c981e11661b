"""The side of a watch: reports what it notices to a hub, and sends the minutes that the hub asks for.

A thread does it, which asks the hub every two seconds. If the hub is gone, notices wait, with links to the segments of
their minutes, and the watch explains its incidents as always.
"""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import polars as pl

from tailrace import foreign, untrusted
from tailrace.dataset import scan
from tailrace.dataset.tables import FAULTS
from tailrace.errors import TailraceError, UsageError
from tailrace.hub import wire
from tailrace.hub.wire import POLL_S, SEGMENT, SILENT_S, Message, Wanted
from tailrace.recorder import STATE, discard, recording_of
from tailrace.watch import incidents
from tailrace.watch.serving import is_loopback, shown

NOTICES_MAX = 4
"""Notices that wait for the hub; the oldest is given up for a further one."""
NOTICE_S = 3_600
"""So long a notice waits."""
SENT_MAX = 100
AT_END_S = 20
PREFIX = "hub-"
ANSWER_BYTES = 1 << 20
NEVER = (400, 404, 405, 411, 413)
"""Answers about what was sent. Others, such as 401 and 503, may change with the hub."""


@dataclass(frozen=True)
class Address:
    host: str
    port: int
    tls: ssl.SSLContext | None

    @property
    def shown(self) -> str:
        return shown(self.host, self.port, tls=self.tls is not None)


def address(url: str, authority: Path | None) -> Address:
    """Raises UsageError. Without TLS everybody on the way could read the token, so it is for loopback only."""
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = -1
    if parts.scheme not in ("http", "https") or not parts.hostname or port == -1 or parts.path.strip("/"):
        raise UsageError(f"--report-to {url}: expected https://HOST:PORT")
    if parts.scheme == "http":
        if not is_loopback(parts.hostname):
            raise UsageError(
                f"--report-to {url}: the token would cross the network unencrypted",
                advice="give the hub a certificate (--certificate, --key) and use https://",
            )
        return Address(parts.hostname, port or 80, None)
    try:
        context = ssl.create_default_context(cafile=authority)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"--hub-ca {authority}: {error}", advice="name a file of PEM certificates") from error
    return Address(parts.hostname, port or 443, context)


@dataclass
class _Notice:
    kept: Path
    heard: Message
    at: float
    peers: tuple[str, ...] | None = None
    """Of its minutes; None: not read yet."""


class GoneError(Exception):
    """The hub does not want this recording any more."""


class BusyError(ValueError):
    """The hub takes no more at present."""


class RefusedError(Exception):
    """The hub will never take this, however often it is sent."""


class Reporter:
    def __init__(self, to: Address, token: str, host: str) -> None:
        self._to = to
        self._token = token
        self._host = host
        self._recording = Path()
        self._connection: http.client.HTTPConnection | None = None
        self._notices: deque[_Notice] = deque()
        self._sent: deque[str] = deque(maxlen=SENT_MAX)
        self._said: deque[str] = deque(maxlen=SENT_MAX)
        self._addresses: tuple[str, ...] = ()
        self._reached: bool | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def begin(self, recording: Path) -> None:
        """The recording has begun; copies for the hub that a killed watch left are removed."""
        self._recording = recording
        for left in recording.parent.glob(f"{PREFIX}*.recording"):
            discard(left)
        self._addresses = _addresses(recording)
        self._thread.start()

    def noticed(self, begin: int, end: int, reasons: list[str]) -> None:
        """Keep these minutes for the hub."""
        kept = self._kept(f"notice-{end}")
        heard = replace(self._message(), begin=begin, end=end, reasons=tuple(reasons))
        while len(self._notices) >= NOTICES_MAX:
            self._give_up(self._notices.popleft(), f"{NOTICES_MAX} later ones wait")
        self._notices.append(_Notice(kept, heard, time.monotonic()))

    def failures(self) -> list[str]:
        """What there is to say since the last call."""
        found = []
        with suppress(IndexError):
            while True:
                found.append(self._said.popleft())
        return found

    def close(self) -> None:
        """Wait a bounded time for what the hub still wants."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(AT_END_S)
        if self._thread.is_alive():
            self._said.append(f"{self._to.shown}: the watch ends before everything was sent")

    def _run(self) -> None:
        while True:
            try:
                open_ = self._round()
                if self._reached is False:
                    self._said.append(f"{self._to.shown}: the hub is reached again")
                self._reached = True
            except (OSError, http.client.HTTPException, ValueError) as error:
                self._drop()
                if self._reached is not False:
                    self._said.append(f"{self._to.shown}: {str(error) or type(error).__name__}; the watch goes on")
                self._reached = False
                open_ = False
            if self._stop.wait(0 if open_ else POLL_S) and not open_:
                return

    def _round(self) -> bool:
        """One conversation; whether there may be more to send at once."""
        while self._notices:
            first = self._notices[0]
            if time.monotonic() - first.at > NOTICE_S:
                self._give_up(self._notices.popleft(), "the hub was gone for too long")
                continue
            try:
                self._report(first)
            except BusyError:
                break
            with suppress(ValueError):  # `noticed` may have given it up meanwhile
                self._notices.remove(first)
            discard(first.kept)
        answer = self._asked("POST", "/v1/poll", self._message())
        wanted = [one for one in wire.wanted(answer) if one.incident not in self._sent]
        for one in wanted:
            self._answer(one)
        return bool(wanted)

    def _report(self, notice: _Notice) -> None:
        if notice.peers is None:
            notice.peers = _peers(notice.kept)
        heard = replace(notice.heard, now=time.time_ns(), peers=notice.peers)
        try:
            incident = self._asked("POST", "/v1/notice", heard).get("incident")
        except RefusedError as refused:
            self._said.append(f"{self._to.shown}: an incident is not reported: {refused}")
            return
        if isinstance(incident, str) and wire.HOST.fullmatch(incident):
            self._send(incident, notice.kept)

    def _answer(self, one: Wanted) -> None:
        kept = None
        try:
            kept = self._kept(one.incident)
            self._send(one.incident, kept)
        except TailraceError as error:
            self._finish(one.incident, replace(self._message(), failed=str(error)))
        finally:
            if kept is not None:
                discard(kept)

    def _send(self, incident: str, kept: Path) -> None:
        try:
            for path in sorted(kept.iterdir()):
                if SEGMENT.fullmatch(path.name):
                    self._put(f"/v1/recordings/{incident}/{self._host}/{path.name}", path)
            self._finish(incident, replace(self._message(), peers=_peers(kept)))
        except GoneError:
            self._sent.append(incident)
        except RefusedError as refused:
            self._said.append(f"{self._to.shown}: {incident}: the recording is not taken: {refused}")
            self._finish(incident, replace(self._message(), failed=str(refused)))

    def _finish(self, incident: str, heard: Message) -> None:
        with suppress(GoneError, RefusedError):
            self._asked("POST", f"/v1/done/{incident}/{self._host}", heard)
        self._sent.append(incident)

    def _kept(self, name: str) -> Path:
        kept = recording_of(self._recording.with_name(f"{PREFIX}{name}"))
        if kept.exists():
            discard(kept)
        incidents.keep(self._recording, kept)
        return kept

    def _give_up(self, notice: _Notice, why: str) -> None:
        self._said.append(f"{self._to.shown}: an incident is not reported: {why}")
        discard(notice.kept)

    def _message(self) -> Message:
        return Message(self._host, time.time_ns(), self._addresses)

    def _put(self, path: str, file: Path) -> None:
        with file.open("rb") as content:
            self._exchange("PUT", path, content, file.stat().st_size)

    def _asked(self, method: str, path: str, heard: Message) -> dict[str, Any]:
        body = json.dumps(asdict(heard)).encode()
        answer = untrusted.parse_json(self._exchange(method, path, body, len(body)).decode(), self._to.shown)
        return answer if isinstance(answer, dict) else {}

    def _exchange(self, method: str, path: str, body: Any, length: int) -> bytes:
        connection = self._connection or self._connected()
        headers = {"Authorization": f"Bearer {self._token}", "Content-Length": str(length)}
        # A hub that refuses closes the connection without reading the body, and has answered before.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.request(method, path, body, headers)
        answer = connection.getresponse()
        content = answer.read(ANSWER_BYTES)
        if answer.will_close:
            self._drop()
        if answer.status == 410:
            raise GoneError
        if answer.status in NEVER:
            raise RefusedError(f"the hub answers {answer.status} {foreign.sentence(answer.reason)}")
        if answer.status not in (200, 201):
            kind = BusyError if answer.status == 503 else ValueError
            raise kind(f"the hub answers {answer.status} {answer.reason}")
        return content

    def _connected(self) -> http.client.HTTPConnection:
        to = self._to
        if to.tls is None:
            self._connection = http.client.HTTPConnection(to.host, to.port, timeout=SILENT_S)
        else:
            self._connection = http.client.HTTPSConnection(to.host, to.port, timeout=SILENT_S, context=to.tls)
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def _addresses(recording: Path) -> tuple[str, ...]:
    """Of this host and of the nodes on it."""
    state = json.loads((recording / STATE).read_text(encoding="utf-8"))
    of_nodes = [address for node in state["nodes"] for address in node["addresses"]]
    return wire.addresses([*of_nodes, *state.get("same_host", [])])


def _peers(kept: Path) -> tuple[str, ...]:
    """Addresses at both ends of the visits in a recording."""
    found: set[str] = set()
    for segment in kept.glob("*.stays.parquet"):
        with suppress(OSError, *FAULTS):
            ends = scan(segment).select(pl.col("server_host", "caller").cast(pl.String)).collect()
            found.update(text for column in ends for text in column.unique() if text)
    return wire.addresses(sorted(found))
