"""Traces: the spans of all files, and the visits that they show (crates/core/src/spans/visits.rs).

Spans come in any order and in several files, which are read together. A span whose parent is missing is a visit without
a caller. Cycles are cut, and their spans stay visits. Spans that end before they begin are counted and left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tailrace import units
from tailrace.bounds import CALLS, TRACE_SPANS
from tailrace.dataset import INFERRED
from tailrace.errors import InputError
from tailrace.readers import attempts, spans_clocks, spans_columns, spans_cut, spans_tables
from tailrace.readers.source import Found, Source, text_head
from tailrace.readers.spans_chosen import Edge
from tailrace.readers.spans_clocks import Clocks
from tailrace.readers.spans_columns import Spans
from tailrace.readers.spans_together import Visits
from tailrace.readers.spills import IN_MEMORY, Rows, Scratch
from tailrace.readers.stays import about_others
from tailrace.topology import Topology


def sniff(name: str, head: bytes) -> bool:
    return not head.startswith(b"PAR1") and _reader_by_head(head) is not None


def sniff_further(source: Source) -> bool:
    """Whether a file contains spans, which its beginning does not show: Parquet, or a table that the user mapped."""
    return spans_tables.is_mapped(source) or (source.head().startswith(b"PAR1") and spans_tables.is_parquet(source))


def _reader_of(source: Source) -> Callable[[Source, Found, Spans], None] | None:
    """What reads the spans of a file."""
    head = source.head()
    if spans_tables.is_mapped(source) and not head.startswith(b"PAR1"):
        return _csv
    return _reader_by_head(head)


def _reader_by_head(head: bytes) -> Callable[[Source, Found, Spans], None] | None:
    """What reads the spans of a file that begins so."""
    if head.startswith(b"PAR1"):
        return _parquet
    form = spans_cut.form_of(head)
    if form is not None:
        return lambda source, found, spans: spans_cut.read(source, found, form, spans)
    text = text_head(head)
    if text is not None and spans_tables.is_table(text):
        return _csv
    return None


def _csv(source: Source, found: Found, spans: Spans) -> None:
    spans.add_each(spans_tables.read_csv(source, found, spans.names), found)


def _parquet(source: Source, found: Found, spans: Spans) -> None:
    spans.add_each(spans_tables.read_parquet(source, found, spans.names), found)


def together(source: Source) -> str:
    """All traces of one call: a trace may be spread over files."""
    return "traces"


def read(sources: Sequence[Source], most: int = IN_MEMORY) -> Found:
    """What the spans of all files show; some `most` rows of each table are in memory at a time."""
    scratch = Scratch(sources[0].scratch)
    found, spans = Found(), Spans(scratch, most)
    for source in sources:
        reader = _reader_of(source)
        if reader is None:
            raise InputError(source.path, "it holds no spans", "docs/reference/readers.md lists what is read")
        reader(source, found, spans)
    name = sources[0].path.name
    visits, clocks = _visits(spans, scratch, most)
    if not len(visits):
        _count_lost(found, name, spans, visits)
        raise _without_servers(sources[0], found)
    _count_lost(found, name, spans, visits)
    tables = visits.tables(spans.names.routes)
    found.requests = tables.requests()
    cut_off = None if visits.chosen else visits.shape.edge()
    chosen = visits.chosen > 0 or cut_off is not None
    share = _same_share(spans.kept, chosen=chosen)
    # A sampler that states one share for all traces did not choose them for how they ended.
    stated = spans.kept is not None and spans.kept[0] == spans.kept[1] > 0
    found.failed_alone = 0 if chosen or stated else visits.shape.errors_alone()
    if not chosen:
        found.visits = tables.visits()
    found.attempts = INFERRED
    found.topology = _sampled(visits.topology(), share, chosen=chosen or found.failed_alone > 0)
    if not chosen and not found.failed_alone and share is None:
        visits.waits(found, sources[0])
    visits.locks.into(found)
    said = [
        *_about_gaps(visits.lost),
        *visits.locks.notes(),
        *about_others(visits.others),
        *_about_sampling(spans.kept, share),
        *_about_visits(visits),
        *_about_clocks(visits, clocks),
    ]
    said += _about_choice(cut_off, chosen=chosen)
    found.notes += [f"{name}: {note}" for note in said]
    return found


def _visits(spans: Spans, scratch: Scratch, most: int) -> tuple[Visits, Clocks]:
    """The visits of all spans, with the clocks of their hosts aligned; what they were made of is freed."""
    linked, texts = spans_columns.linked(spans.parts), spans.texts
    calls = Rows(scratch, spans_clocks.CALL, most)
    # There are no calls between hosts if there is one.
    for part in linked() if spans.parts.have_many_hosts else ():
        calls.add(part.calls())
    clocks = spans_clocks.aligned(calls, texts)
    calls.remove()
    visits = Visits(texts, spans.naming(), scratch, most)
    added = spans_columns.offsets_of(texts, clocks.offsets)
    for part in linked():
        if clocks.offsets:
            part.move(added)
        visits.add(part)
    spans.parts.remove()
    return visits, clocks


def _count_lost(found: Found, name: str, spans: Spans, visits: Visits) -> None:
    if spans.parts.left_out:
        found.stopped(name, f"a trace has more than {TRACE_SPANS:,} spans; its further ones were left out")
        found.lose("spans of traces that have too many", spans.parts.left_out)
    found.lose("spans that came twice", visits.twice)
    found.lose("spans that end before they begin", spans.backwards)
    found.lose("requests with impossible times or names", visits.damaged)
    found.lose("calls between further pairs of servers", visits.calls_left_out)


def _without_servers(source: Source, found: Found) -> InputError:
    lost = "; ".join(f"{what}: {count:,}" for what, count in found.lost.items())
    why = f", and some of it could not be read ({lost})" if lost else ""
    hint = "docs/reference/readers.md lists what is read"
    return InputError(source.path, f"there is no span of a server in it{why}", hint)


def _about_gaps(lost: int) -> list[str]:
    said = [
        "a server's span begins after its accept queue and the wait for a thread; both lie in the gap between the "
        "client's span and the server's"
    ]
    if lost:
        said.append(attempts.note("nearly all long gaps between a client's span and the server's are", lost))
    return said


def _same_share(kept: tuple[float, float] | None, *, chosen: bool) -> float | None:
    """The share that a sampler kept, if it is the same for all traces and says how many there were."""
    if kept is None or chosen:
        return None
    least, largest = kept
    return least if least == largest and 0 < least < 1 else None


def _sampled(topology: Topology, share: float | None, *, chosen: bool) -> Topology:
    """The servers with how their visits were sampled. A sample of the calls does not show how large a pool is."""
    how = {"kept": share, "chosen": chosen or None}
    servers = tuple(server.model_copy(update=how) for server in topology.servers)
    pools = topology.pools if share is None and not chosen else ()
    return topology.model_copy(update={"servers": servers, "pools": pools})


def _about_sampling(kept: tuple[float, float] | None, share: float | None) -> list[str]:
    if kept is None:
        return ["if a sampler dropped traces, queue lengths are too small by as much"]
    least, largest = kept
    if least != largest:
        return [
            f"samplers kept between {least:.3%} and {largest:.3%} of the traces: queue lengths count these alone, and "
            "no single share scales them"
        ]
    if least < 1:
        then = "are too small" if share is None else "findings scale them"
        return [f"a sampler kept {least:.3%} of the traces: queue lengths count these alone, and {then}"]
    return []


def _about_choice(cut_off: Edge | None, *, chosen: bool) -> list[str]:
    said = []
    if cut_off is not None:
        said.append(
            f"{cut_off.requests - cut_off.below} of the {cut_off.requests} requests that succeeded took "
            f"{units.format_duration(cut_off.at)} or longer, with a sharp edge there that no part of them explains: "
            "faster traces were left out"
        )
    if chosen:
        said.append(
            "these traces were kept for what happened in them (tail sampling), so they do not show how many requests a "
            "server held: there are requests and no visits"
        )
    return said


def _about_visits(visits: Visits) -> list[str]:
    said = []
    if visits.taken:
        said.append(
            f"a span `in queue` shows when a worker took the request of {visits.taken} of the {len(visits)} visits: it "
            "waited from its arrival until then"
        )
    if visits.pools.count:
        total, longest = (units.format_duration(ns) for ns in (visits.pools.total, visits.pools.longest))
        said.append(
            f"{visits.pools.count} spans are waits for a connection of a pool ({', '.join(visits.waiting[:12])}): "
            f"{total} in all, {longest} at most. They are no calls, and no server works in them; the record has how "
            "many waited at a time as pool_waiting, except if the traces are a sample"
        )
    if visits.orphans:
        become = "count as requests, because no trace has its root" if visits.orphans_enter else "belong to no request"
        said.append(f"visits whose caller's span is missing: {visits.orphans}; they {become}")
    if visits.skewed:
        said.append(f"calls that lie outside of their client's span: {visits.skewed}; when these were sent is unknown")
    if visits.cycles:
        said.append("some spans are above themselves; such a cycle is cut")
    if visits.remote:
        said.append(f"visits of {', '.join(sorted(visits.remote)[:12])} are as their callers saw them")
    return said


def _about_clocks(visits: Visits, clocks: Clocks) -> list[str]:
    said = []
    if visits.moved:
        said.append(
            f"the store of these traces moved the times of {visits.moved} spans, because it assumed that clocks "
            "differ; their true times are unknown"
        )
    if clocks.offsets:
        largest = max(clocks.offsets.items(), key=lambda item: abs(item[1]))
        said.append(
            f"the clocks of {len(clocks.offsets)} hosts were aligned, because calls lay outside of their clients' "
            f"spans; the largest offset is {units.format_duration(abs(largest[1]))} ({largest[0]}), good to "
            f"{units.format_duration(clocks.widest_ns)}"
        )
    if clocks.unknown:
        said.append(
            f"between {clocks.unknown} pairs of hosts, no offset of the clocks puts the calls inside of their clients' "
            "spans, so these clocks were not aligned"
        )
    if clocks.left_out:
        said.append(
            f"more than {CALLS:,} pairs of hosts call each other: {clocks.left_out} calls between further pairs were "
            "not used to align clocks"
        )
    return said
