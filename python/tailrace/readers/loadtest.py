"""Load tests: the requests of a load generator, as its clients saw them.

```text
begin ── connected ────── end          connecting took 1, 3, 7 s: lost connection attempts
```
They become requests and no visits, because they show when a request was sent and answered, but not what its server
did. All files of one call are read together, because several generators may take part in a test.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np

from tailrace import units
from tailrace.bounds import UNDATED_NS
from tailrace.dataset import INFERRED
from tailrace.errors import InputError
from tailrace.readers.loadtests import form_of
from tailrace.readers.loadtests.closed_loop import ClosedLoop, closed_loop
from tailrace.readers.loadtests.sent import Form, Sent, authority
from tailrace.readers.naming import Names, words_of
from tailrace.readers.source import Found, Source
from tailrace.readers.spills import Scratch
from tailrace.readers.stays import Stay, Stays
from tailrace.topology import Server, Topology


def sniff(name: str, head: bytes) -> bool:
    return form_of(head) is not None


def together(source: Source) -> str:
    return "load test"


class _Test:
    """The requests of all files."""

    def __init__(self, scratch: Scratch) -> None:
        self.stays = Stays(scratch)
        self.names = Names()
        self.servers: set[str] = set()
        self.whole = True
        self.connecting = False
        """A file contains how long connecting took."""

    def add(self, sent: Sent, place: str | None) -> None:
        server = place or authority(sent.url) or "server"
        connect = sent.connect if sent.connect is not None and sent.connect <= sent.duration else None
        name = self.names.of(sent.method or "GET", sent.url) if sent.url and not sent.label else words_of(sent.label)
        end = sent.begin + sent.duration
        self.whole = self.whole and 0 in (sent.begin % units.SECOND, end % units.SECOND)
        stay = Stay(
            *(server, sent.begin, sent.begin, end, sent.status, name),
            wait_ns=connect or 0, entry=True, bytes_out=sent.bytes_in,
        )  # fmt: skip
        if self.stays.add(stay) is None:
            return
        self.servers.add(server)
        self.connecting = self.connecting or connect is not None


def read(sources: Sequence[Source]) -> Found:
    found, test = Found(), _Test(Scratch(sources[0].scratch))
    for source in sources:
        form = form_of(source.head())
        if form is None:
            raise InputError(source.path, "Tailrace does not know this format of a load test", _MORE)
        loop = _read(source, found, form, test)
        found.notes += [f"{source.path.name}: {note}" for note in _notes(form, source, loop)]
    name = sources[0].path.name
    if not len(test.stays):
        raise InputError(sources[0].path, "there is no request in it that can be read", _MORE)
    test.stays.into(found, name, visits=False)
    found.topology = Topology(servers=tuple(Server(name=server) for server in sorted(test.servers)))
    found.attempts = INFERRED if test.connecting else "by response times alone"
    found.notes += [f"{name}: {note}" for note in test.stays.about_connecting("connecting took")]
    if test.whole:
        found.notes.append(
            f"{name}: its stamps are whole seconds, so response times are known and the order of requests is not"
        )
    return found


_EXAMINED = 1 << 20
"""Requests of a file that show whether its clients wait: 32 MB."""
_MORE = "docs/reference/readers.md lists what is read"


def _read(source: Source, found: Found, form: Form, test: _Test) -> ClosedLoop | None:
    if form.undated and not source.began:
        found.undated = True
        source = source.dated(UNDATED_NS)
    begins, ends, clients, numbers = array("q"), array("q"), array("q"), dict[str, int]()
    for line, sent in form.requests(source, found):
        if sent is None:
            found.damaged(source.path.name, line)
            continue
        test.add(sent, source.place)
        if len(begins) == _EXAMINED:
            continue
        begins.append(sent.begin)
        ends.append(sent.begin + sent.duration)
        clients.append(numbers.setdefault(sent.client, len(numbers)) if sent.client else -1)
    known = np.array(clients, dtype=np.int64)
    by_client = known if len(known) and known.min() >= 0 else None
    return closed_loop(np.array(begins, dtype=np.int64), np.array(ends, dtype=np.int64), by_client)


def _notes(form: Form, source: Source, loop: ClosedLoop | None) -> list[str]:
    said = []
    if form.undated and not source.began:
        said.append(
            "its times count from the start of the test, which is unknown: it is dated 2000-01-01. Pass "
            f"--began {source.place or source.path.name}=MOMENT"
        )
    if not form.connects:
        said.append(f"{form.name} does not record how long connecting took: lost attempts show in response times only")
    if loop is not None:
        pace, clients = units.format_duration(loop.pace_ns), units.format_count(loop.clients)
        of_first = f"; of the first {_EXAMINED:,} requests" if loop.requests == _EXAMINED else ""
        said.append(
            f"a closed loop of {clients} clients: each waits for its answer before it sends again, so the slow times "
            "hold fewer requests than users would have sent (coordinated omission)"
        )
        if loop.hidden:
            said.append(
                f"at the usual pace of a client, one request in {pace}, about {units.format_count(loop.hidden)} more "
                f"requests would have been sent while clients waited{of_first}"
            )
    said.append("what its servers did is not in a load test: visits and queues are unknown")
    return said
