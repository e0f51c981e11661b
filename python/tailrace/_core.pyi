"""The engine. Tables cross as Arrow streams (PyCapsule protocol), which Polars and any Arrow library read."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

class ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any: ...

__version__: str

def decode(
    paths: list[str],
    out: str,
    options: str,
    progress: Callable[[int, int], None] | None = None,
) -> str:
    """Decode captures ("-" is standard input) into `out`/{visits,requests,events}.parquet; returns a JSON report.

    `options` and the report are documented in crates/core/src/capture/decode.rs. `progress(bytes_read, bytes_total)`
    is called a few times a second with the interpreter lock held; an exception it raises stops the work.
    """

def export(
    run: str,
    folder: str,
    options: str,
    progress: Callable[[int, int], None] | None = None,
) -> str:
    """Write `folder`/capture.pcap: the packets of the visits in the run folder `run`; returns a JSON report.

    `options` and the report are documented in crates/core/src/export/. `progress(rows done, rows in all)` is called a
    few times a second with the interpreter lock held; an exception it raises stops the work.
    """

class LineTable(ArrowStream):
    def __len__(self) -> int: ...

class LineCutter:
    """Cuts lines into columns. `plan` is documented in crates/core/src/lines/mod.rs. ValueError: it cannot be
    followed."""

    def __init__(self, plan: str) -> None: ...
    def cut(self, block: bytes, names: Names, end: int = ...) -> LineTable:
        """The lines of a block, up to `end`, that have a layout of the plan: `line`, counted from 0, and the columns of
        its layouts. Texts are numbers."""

    def texts(self, column: str, first: int) -> list[str]:
        """The texts of a column by their numbers, from this number on; number 0 is for none."""

    @property
    def lines(self) -> int:
        """How many lines the last block had."""

class LineHalves:
    """Puts the names of requests into the lines of their ends (crates/core/src/lines/halves.rs)."""

    def __init__(self) -> None: ...
    def join(self, block: bytes) -> bytes:
        """The lines of a block; each end of a request has its name. Blocks follow each other."""

    @property
    def counts(self) -> tuple[int, int]:
        """How many ends got a name, and how many did not."""

Taken = tuple[
    list[tuple[str, int]], int, int, bool, bool, list[tuple[int, int]], list[tuple[int, int]], LineTable | None
]
"""Columns and numbers of which the meanings are unknown; without them, how many visits were added, how many lines have
no duration, whether all stamps are whole seconds, whether some are no whole milliseconds, how many calls each server
got, how many lines have each text of flags, and of a local clock `end` and `number` of the requests in the order of
their lines."""

class LineVisits:
    """Turns columns of lines into visits (crates/core/src/lines/visits.rs). `times` are the nanoseconds per unit of
    stamps and durations, of how many parts of such a unit durations are, whether a stamp is the end of its request, and
    whether it is of a local clock; `bounds`, in ns, the earliest and the latest time, the first duration of a line that
    is unusual, and the longest visit. Lines without one of the `needed` columns are unusual. `named` are the
    nanoseconds per unit of the time of a call, if addresses name the calls. ValueError: no parts."""

    def __init__(
        self,
        times: tuple[int, int, int, bool, bool],
        bounds: tuple[int, int, int, int],
        needed: list[str],
        named: int | None,
    ) -> None: ...
    def serve(self, server: int) -> None:
        """The server's own name has this number."""

    def unasked(self, status: int) -> None:
        """After a line with a status of this number, it may be that no request came."""

    def mean(self, column: str, number: int, meaning: int | None) -> None:
        """A number in a column has this meaning: the number of a text, or whether a method is one; None: it is
        unusual."""

    def take(self, table: LineTable, rows: tuple[int, int], number: int, store: StayStore) -> Taken | None:
        """Add the visits of these rows, with numbers from `number` on; None: a row is unusual. None are added then, nor
        if meanings are unknown."""

class StayStore:
    """Visits of logs (crates/core/src/stays). `path` gives new paths for files; some `most` visits stay in memory.
    `kept` are how many pairs of names and how many requests are kept; `waits` are the shortest long time to connect in
    ns, and how many long and short ones are kept."""

    def __init__(
        self, path: Callable[[], Path], most: int, kept: tuple[int, int], waits: tuple[int, int, int]
    ) -> None: ...
    def add(self, tables: Sequence[Any]) -> None:
        """Add the rows of tables, in the order of their numbers. OSError: a file cannot be written."""

    def tables(self, kind: Literal["visits", "requests"], windows: Sequence[tuple[int, int]]) -> Iterator[ArrowStream]:
        """All visits, or requests, in the order of their ends. `windows` are times to connect in ns that show 1, 2 …
        lost attempts. OSError: a file cannot be read."""

    def shift(self, ranges: Sequence[tuple[int, int]], by: int) -> None:
        """Move the times of visits from a number to before another by some ns."""

    def pairs(self) -> tuple[list[tuple[int, int, int]], int]:
        """Servers, interactions and how many visits they have together; and how many visits have others."""

    def waits(self) -> tuple[int, ArrowStream, ArrowStream]:
        """How many times to connect are long; and those long and short ones that are kept (`wait`)."""

    def sample(self) -> ArrowStream:
        """The first requests: what they and their longest calls `took`, in ns, and numbers of their `interaction`."""

class Names:
    """Names of interactions; the same name for requests that do the same work (crates/core/src/capture/names.rs)."""

    def of_request(self, method: str, target: str) -> str:
        """The name of a request by its method and the path or URL that it asked for."""

    def listed(self, first: int) -> list[str]:
        """The names by their numbers, from this number on."""

    def of_statement(self, sql: str) -> str:
        """The name of a statement of SQL: its command and first table."""

def waits_for_a_job(name: str) -> bool:
    """Whether a command of this name waits until another client adds something, such as a job for a worker."""

def folded_word(word: str) -> str:
    """A plain word as it is, `{id}` for an identifier, `{}` for anything else."""

def without_rare_words(counted: list[tuple[str, str, int]]) -> list[tuple[str, str]]:
    """What names with a path become, by server, name and how many requests have it: a word that fewer than three
    requests of each server share is folded."""

class SpanCutter:
    """Reads a file of traces in blocks. `form` is `otlp`, `jaeger`, `zipkin`, `frames` or `message`, and `plan` lists
    the attributes that matter (crates/core/src/spans). `size` is that of the file, which bounds what its messages may
    expand to. ValueError: the plan cannot be followed."""

    def __init__(self, form: str, plan: str, size: int) -> None: ...
    def feed(self, block: bytes, last: bool) -> tuple[ArrowStream, list[str], int, int, str | None, bool]:
        """The spans of the next block of the file; `last` after the last one.

        They are a table, and the texts that its numbers mean; then follow how many spans lack an id, a time or a
        service, how many elements are damaged, why reading ended, and whether this block has more spans, which the
        next call gives.
        """

def span_keys(trace: str, id: str, parent: str | None) -> tuple[int, int, int | None]:
    """The key of a trace; and those by which its spans name each other: a span's own, and its parent's."""

def span_texts(table: ArrowStream, texts: int) -> list[list[int]]:
    """Of what a `SpanCutter` gave: for each of the columns `service`, `label`, `outcome`, `peer` and `host`, the
    numbers that rows have, in order. There are so many texts."""

class SpanRows:
    """Spans of whole traces (crates/core/src/spans/store.rs)."""

    def __init__(self) -> None: ...
    def __len__(self) -> int: ...
    def link(self) -> LinkedSpans:
        """The spans with what is above each; none are left here."""

class SpanStore:
    """All spans before they are linked: in memory, and in a file from the first `distribute` on, in 256 parts by eight
    bits of the key of their trace, of which the lowest is the bit `shift`."""

    def __init__(self, shift: int) -> None: ...
    def add(self, table: ArrowStream, codes: list[list[int]]) -> tuple[int, tuple[float, float] | None]:
        """Add rows like those of a `SpanCutter`. `codes` are the numbers that its texts have here, for each column of
        `span_texts`; without them numbers stay what they are. Returns how many end before they begin, which are left
        out, and the range of the shares of traces that samplers kept. ValueError: a column is missing."""

    def add_spans(self, spans: SpanRows) -> None: ...
    @property
    def held(self) -> int:
        """Spans that are in memory."""

    @property
    def has_many_hosts(self) -> bool: ...
    def distribute(self, path: Path) -> None:
        """Put what is in memory into the file, which is made at `path` the first time. OSError: it cannot be
        written."""

    def parts(self) -> list[tuple[int, bool]]:
        """How many spans each part in the file has, and whether they are of one trace."""

    def take(self) -> SpanRows:
        """The spans in memory; none are left here."""

    def read(self, part: int, first: int, most: int, into: SpanRows) -> None:
        """Add the spans of a part in the file, from one on, at most so many. OSError: the file cannot be read."""

class LinkedSpans:
    """The spans of a part, the first of each id, with what is above each (crates/core/src/spans/linked.rs)."""

    @property
    def twice(self) -> int: ...
    @property
    def cycles(self) -> int: ...
    def marked(self) -> list[int]:
        """Spans that a store moved, those of traces that were chosen, and waits for a connection."""

    def calls(self) -> ArrowStream:
        """The calls between hosts: `client`, `server`, and the `least` and `largest` offset of the server's clock
        (ns)."""

    def shift(self, added: list[int]) -> None:
        """Add an offset (ns) to the times of each host, by its number."""

    def columns(self) -> ArrowStream:
        """`kind`, `begin`, `end`, `service`, `interaction`, `connection`, `above` and `container` of each span."""

    def visits(self, servers: bytes, times: tuple[int, int, int], slack: int) -> FoundVisits:
        """The possible visits: `servers` are the texts that may name one, a byte for each; `times` are the earliest and
        the latest moment and the longest duration (ns). A server may end its span `slack` ns after its client."""

class FoundVisits:
    """The visits of a part of the spans (crates/core/src/spans/visits.rs)."""

    def __len__(self) -> int: ...
    @property
    def counts(self) -> list[int]:
        """Visits left out, calls outside of their client's span, visits without the span of their caller, and visits
        whose worker is known."""

    @property
    def rooted(self) -> bool:
        """Whether a trace has its root."""

    def waits(self) -> ArrowStream:
        """`wait`: how long each visit was on its way (ns)."""

    def calls(self) -> list[tuple[int, int, int]]:
        """Callers, servers, and how often one calls the other."""

    def interactions(self) -> list[tuple[int, int, int]]:
        """Servers, interactions, and how often one is asked for the other."""

    def remote(self) -> list[int]:
        """Servers without spans of their own."""

    def of_callers(self) -> ArrowStream:
        """`caller`, `server`, `sent` and `departure` of each call."""

    def requests(self, ok: int, most: int) -> tuple[ArrowStream, int, list[tuple[int, int, int]]]:
        """The first requests of traces with a root that ended with the status `ok`, by their number: how long they
        `took`, their `longest` call (ns), `interaction` and `server`; how many succeeded; and the servers and
        interactions of those that failed, with their counts."""

class VisitRuns:
    """Visits in the order in which they ended (crates/core/src/spans/runs.rs)."""

    def __init__(self) -> None: ...
    def __len__(self) -> int: ...
    @property
    def held(self) -> int:
        """Visits that are in memory."""

    def add(self, found: FoundVisits) -> None:
        """Add visits; none are left there."""

    def spill(self, path: Path) -> None:
        """Put what is in memory into the file, which is made at `path` the first time. OSError: it cannot be
        written."""

    def reading(self, most: int) -> VisitReading:
        """A reading of all of them, with some `most` in memory at a time. OSError: the file cannot be read."""

class VisitReading:
    def next(self, runs: VisitRuns, requests: bool, least_entry: int) -> ArrowStream | None:
        """The next rows of the table of visits or of requests; None at the end. `least_entry` is what makes an
        outermost visit a request, at least. OSError: the file cannot be read."""

SAMPLING_NS: tuple[int, int]
"""The shortest and the longest time between two samples of the recorder."""

def record(options: str, folder: str, say: Callable[[str, str], bool]) -> str:
    """Record this host (Linux) into the empty directory `folder` until `say` returns False; returns the recording's
    state as JSON.

    `options` are documented in crates/core/src/host/options.rs, the state in state.rs. `say(kind, sentence)` is called
    five times a second with the interpreter lock held: kind `recording` once everything runs, `warning`, or nothing.
    ValueError: what the options name is not there or not allowed.
    """

def decode_packets() -> None:
    """Decode packets for a recorder, to which standard input leads, until it ends (crates/core/src/host/packets)."""

def give_up_rights() -> None:
    """Give up every capability, for good."""

def confine(folders: list[str], kept: list[str]) -> None:
    """Give up, for good, every capability but those named `kept` (CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE), writing
    anywhere but beneath `folders`, sockets, programs, and other processes (crates/core/src/confine)."""

def join(folder: str, out: str, together: list[list[str]]) -> str:
    """Join the closed segments of the recording `folder` into tables in `out`; returns a JSON report
    (crates/core/src/host/join.rs). `together`: lists of names that one server has at its ports."""

def table_shape(path: str) -> tuple[int, int]:
    """Rows of a Parquet file, and the bytes that it takes when it is decoded, as its end and the heads of its pages
    say. ValueError: it is none, it is damaged there, or it is beyond a bound (crates/core/src/bounds.rs)."""

def examine_table(path: str, promises: str) -> str:
    """Read every row of a Parquet file once, and say as JSON which break a promise (crates/core/src/record/examine.rs).
    ValueError: it cannot be decoded, or its names are beyond a bound."""

def write_table(table: ArrowStream, path: str) -> int:
    """Write an Arrow stream as Parquet the way a Dataset wants it (zstd, timestamps delta packed, row groups of at
    most 1 M rows). Returns the rows written."""

def write_tables(tables: Iterable[ArrowStream], path: str) -> int:
    """Write tables with the same columns as one Parquet file, one after the other and in bounded memory. Without a
    table there is no file. What the iterator raises is raised, and no file remains. Returns the rows written."""

class Windows:
    """An Arrow stream of windows, and what was read to make them."""

    rows: int
    """Rows read; row groups outside [begin, end) are not."""
    left_out: int
    """Of those, rows that could not be a visit."""
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any: ...

def reduce(
    visits: list[str],
    window_ns: int,
    *,
    by_interaction: bool = False,
    begin: int | None = None,
    end: int | None = None,
    vlrt_ns: int = 1_000_000_000,
    queue_max: bool = True,
    percentiles: bool = True,
    idle_windows: int | None = None,
    threads: int = 0,
) -> Windows:
    """The exact reduction of visits.parquet files to windows; columns in `tailrace.timeline.windows`."""

def partial(
    visits: list[str],
    window_ns: int,
    *,
    by_interaction: bool = False,
    begin: int | None = None,
    end: int | None = None,
    vlrt_ns: int = 1_000_000_000,
    threads: int = 0,
) -> Windows:
    """The sums of visits.parquet files that `finish` makes windows of (crates/core/src/window/partial.rs)."""

def finish(
    partials: list[Any],
    window_ns: int,
    *,
    by_interaction: bool = False,
    begin: int | None = None,
    end: int | None = None,
    idle_windows: int | None = None,
) -> Windows:
    """The windows of partials of one plan, in any order: Arrow streams with the columns that `partial` returns."""

def _decode_visits(visits: list[str], threads: int) -> int:
    """Decode what `reduce` reads and do nothing with it; returns the rows. The bound of benches/reduce."""

def simulate(plan: str, out: str | None = None, progress: Callable[[int, int], None] | None = None) -> str:
    """Simulate a plan (JSON; crates/core/src/sim/plan.rs) into `out`/{visits,requests,samples,events}.parquet, or into
    nothing; returns a JSON report (crates/core/src/sim/tables.rs).

    `progress(simulated_ns, duration_ns)` is called now and then with the interpreter lock held; an exception it raises
    stops the run. ValueError: the plan cannot be run. OSError: the tables could not be written.
    """

def load_worker(plan: str, log: str, tell: Callable[[str], bool]) -> str:
    """Ask as one worker's plan says (JSON; crates/core/src/load/plan.rs), and log every request; returns a JSON report
    (report.rs). `tell(progress)` is called ten times a second with the interpreter lock held; False, or an exception,
    stops it. ValueError: the plan cannot be run. OSError: the log cannot be written."""

def load_tables(logs: list[str], folder: str, progress: Callable[[int, int], None] | None = None) -> str:
    """The logs of all workers of a load as `folder`/{requests,events}.parquet; returns JSON, the rows of each."""

def rejoined(begin: object, end: object, sent: object, departure: object, parent: object) -> list[int]:
    """Give calls without a parent to visits that lack a call, of visits that make exactly one.

    All columns are int64, in nanoseconds: `begin` and `end` of the visits, `sent` and `departure` of the calls.
    `parent` is the known visit of each call, or -1. A call may go to another visit than its known one if more calls
    have a visit then. Return the visit of each call, or -1.
    ValueError: columns of unequal length.
    """

def agreement(
    policy: str, candidates: int, chosen: object, ready: object, sent: object, departure: object, bytes: object
) -> tuple[int, int, float]:
    """Compare the recorded choices of a balancer with a policy (one without settings). A choice counts if the policy
    could not choose each of the candidates.

    Of each call: `chosen` (uint32) is its candidate, `ready` is when it was chosen, `sent` and `departure` when it was
    sent and answered (int64), `bytes` (uint64) the size of the call and its answer. Return how many choices count, how
    many of them agree with the policy, and how many would agree by chance.
    ValueError: columns of unequal length, or an unknown policy.
    """

class Replay:
    """The visits of a recording as the network of queues that they were (crates/core/src/replay).

    Columns are objects with a buffer (NumPy arrays). Of `visits`: int64 parent (-1: none), sent, arrival, start,
    departure, ready, follows and like (the visit whose steps this one takes, because its own were not recorded; -1:
    none); uint32 server, group, pool, held and choice (the largest number: none); uint64 bytes; uint8 may_drop. Of
    `servers`: float64 cores; uint32 workers, accept and inside (0: any number); uint8 may_turn and loops (it is known
    to be an event loop). Times are nanoseconds.
    ValueError: columns that do not fit together.
    """

    def __init__(
        self,
        visits: object,
        servers: object,
        *,
        groups: int,
        begin: int,
        step: int,
        steps: int,
        schedule: list[int],
        pools: list[int],
        choices: list[list[tuple[int, int]]],
    ) -> None: ...
    def serve_as_used(self, used: object, calm: object) -> None:
        """Let each server serve at full speed as many visits as fit its utilisation in the `calm` steps (uint8): `used`
        (float64, by server) is the share that samples show, or NaN. A server has at least its cores."""

    def fit(self, prior: object, calm: object, rounds: int) -> list[list[float]]:
        """The capacities that fit best, by server and step, found from `prior` (float64, by server and step) in so many
        rounds; `calm` (uint8) are the steps in which what is usual is measured. Of the two ways in which a server may
        serve its jobs, in turn or all at once, the one is chosen that leaves less unaccounted for."""

    def serve_as(self, other: Replay) -> None:
        """Serve and accept as `other` does, a replay of the same servers."""

    def accept_in_turn(self, server: int, slice_ns: float) -> None:
        """Let the thread of this server that accepts connections wait until each running visit has had `slice_ns` of
        work, or has ended. With 0, it goes first."""

    def accept_above(self, server: int, share: float) -> None:
        """Let this server accept nothing with less than this share of its speed."""

    def take_turns(self) -> None:
        """Measure the works of servers that may be event loops, and whose visits leave in order, as served in turn."""

    def excess(
        self, server: int, prior: object, calm: object, spans: list[tuple[int, int]]
    ) -> list[tuple[float, float]]:
        """For each span of steps, of those that work at a server in it: the variance (ns²) of the sum of what they
        need, and by how much (ns) what they attain in it exceeds what they usually need. `prior` is the capacity of
        this server by step."""

    @property
    def cores(self) -> list[float]:
        """How many cores of each server can be at work."""

    @property
    def at_once(self) -> list[float]:
        """How many visits each server serves at full speed. `busy` is a share of these."""

    def busy(self, server: int) -> list[float]:
        """Nanoseconds at full speed that the visits of a server attain in each step of the recording."""

    def measure(self, capacity: object) -> None:
        """Measure what each part of a visit needed, at these capacities."""

    def works(self, before: object, whole: object) -> None:
        """Write what each visit needed by `measure` into these float64 arrays, in nanoseconds at full speed: before its
        first call, and as a whole."""

    def section(self, visits: object, first: int) -> Section:
        """Return these visits (int64 numbers, in order and each at most once), without the steps before `first`. Calls
        that are not among them do not exist in it. Later measures do not change it."""

    def whole(self) -> Section:
        """Return all visits. Later measures do not change it."""

class Section:
    """All visits of a replay, or some of them."""

    def run(
        self,
        capacity: object,
        sent: object,
        choosing: list[str],
        departure: object,
        arrival: object | None = None,
        late: object | None = None,
        pause: object | None = None,
        spare: object | None = None,
        most: object | None = None,
        apart: object | None = None,
        attempts: object | None = None,
    ) -> None:
        """Run at these capacities (by server and step), with roots sent at `sent` (int64). `choosing` is how each
        choice is made: "recorded", "turns" (candidates take turns), or by the policy of this name. `late` and `pause`
        (int64) hold up each visit before it arrives, and after a worker took it. Visits of which `spare` (uint8) is 1
        need no connection and no worker, and those of which it is 2 no core either. Each visit works for at most `most`
        (int64) nanoseconds at a time. Roots of which `apart` (uint8) is 1 are sent at their time, whatever their
        clients wait for. Writes when each visit is first sent into `sent`, when it leaves into `departure` (int64), and
        when it arrives into `arrival`, if given. The largest number is never. The lock is released."""
