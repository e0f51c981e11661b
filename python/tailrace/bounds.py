"""The largest inputs that Tailrace accepts; docs/reference/limits.md lists them all.

Each bound is far above what honest input needs, and low enough that input beyond it ends with an error within 2 GB. The
engine's bounds are in crates/core/src/bounds.rs.
"""

from __future__ import annotations

MIB = 1 << 20

TEXT_BYTES = 16 * MIB
"""Size of a file that is read as a whole: an experiment, a topology, rules, a table of paths, a manifest."""
PIPE_SECONDS = 10
"""Silence of a pipe or a terminal that is named where a file is expected."""
MANIFEST_ENTRIES, MANIFEST_CHARACTERS = 10_000, 10_000
"""Notes, losses or checksums of a manifest, and characters in each of its texts: a note for each of many captures."""
TRACE_BYTES = 64 * MIB
"""Size of a file of arrivals: some three million arrivals."""
NAME_CHARACTERS = 1_000
"""Characters of a name in a file or a table; recordings cut theirs at 200 bytes (crates/core/src/capture/names.rs)."""
PATH_CHARACTERS = 4_096
"""Characters in the path of a file; Linux has the same bound."""
NAME_BYTES = 4 * NAME_CHARACTERS
"""Bytes of a name in a table, in UTF-8."""
TRACE_SPANS = 500_000
"""Spans of one trace."""
SPAN_TEXTS = 1 << 18
"""Different texts of all spans that are read together: services, interactions, statuses, peers and hosts."""
NAMES_CHARACTERS = 32 * MIB
"""Characters of the different texts of all spans, or of the different names of a file: 128 for each of so many."""
NAMES = 20_000
"""Different names in a column of a table."""
CALLERS = 1_000_000
"""Different hosts and servers that call."""
INTERACTIONS = 2_000_000
"""Different interactions of a table: addresses that hold a number or a word of the user are as many as the requests. A
recording has at most 10,000."""
PLACES = 100_000
"""Different places of samples or events: a server and its node, and a disk or a control group of each."""
TEXT_BYTES_OF_ROW = 64 << 10
"""Bytes in the detail of an event."""
YEAR_NS = 366 * 24 * 3600 * 10**9
"""A row whose time is this far from the middle of its table, or from the rest of its file, is damaged."""
EARLIEST_NS, LATEST_NS = 10**8 * 10**9, 7_258_118_400 * 10**9
"""The years 1973 to 2200, for times in files of others. A smaller "Unix time" is a time since some start."""
VALUE_MAX = float(2**63)
"""The largest value of a sample: no count, size or share is beyond 64 bits."""
SERVERS = 20_000
"""Servers of a topology, and its nodes, pools and balancers."""
CALLS = 100_000
"""Pairs of servers that call each other, and places that mean one."""
PAIRS = 1_000_000
"""Pairs of servers that the calls of a topology mean, and as many each for its pools and balancers. A call between two
groups means each pair of their servers."""
EXPORT_BYTES = 16 << 30
"""Of all messages in a capture that is written."""
SCORED_BYTES, SCORED_TIMES = 256 * MIB, 2
"""Of the tables of a system that `score` simulates: some ten million visits, or so many times the run's own, if that is
more. A run that is there fits on this machine, and without a trouble its system serves a little more."""
SCORED_LONGER, SCORED_LONGER_NS = 10, 60 * 10**9
"""How much longer than a run the experiment may last that made it: so many times, and so much besides. A run lacks the
ramp of its experiment."""
EXPERIMENT_FILES = 100
"""Experiment files that extend each other."""
LOAD_WORKERS = 64
"""Processes of a load generator, of some 30 MB each; or two for each CPU if these are more."""
LOAD_GROUPS, LOAD_TEXTS = 1_000, 64 * MIB
"""Groups, scenarios or assertions of one record of Gatling's binary log, and characters of its different texts."""
LOAD_PATHS = 10_000
"""Rows of a table of paths: as many as a recording has interactions (crates/core/src/capture/names.rs)."""
ZSTD_WINDOW_LOG = 29
"""The largest window of a zstd frame, as a power of two: 512 MiB, which `zstd --long=29` makes and which unpacking
needs in memory. The engine has the same bound, and the same bounds of expansion."""
EXPANSION_FREE, EXPANSION = 256 * MIB, 128
"""The size to which a compressed file may expand: so many bytes, plus so many times its length. Very regular lines take
almost no byte each, so the first part counts: three million lines, which are read in some seconds. Samples of an idle
host, the same value twenty times a second, reach a factor of 127 with `zstd -19`; a decompression bomb reaches ten
thousand."""
LINE = MIB
"""Bytes in a line of a log or a table; a row of collectl has 60 kB on a machine with 1,000 CPUs."""
SAMPLES = 50_000_000
"""Samples of one file, if they fit into memory: thirty series at 20 Hz over a day."""
SAMPLE_NAME = 1_000
"""Bytes in the name of a place or a metric in a table of samples."""
JSON_ELEMENT = 16 * MIB
"""Characters of one element (such as the metrics of one moment) in a long JSON file."""
JSON_DAMAGED = 1_000
"""Damaged elements of a JSON file after which reading ends: each may take as long as the largest element."""
JSON_IN_VAIN = 8 * JSON_ELEMENT
"""Characters of damaged elements that may be parsed besides as many as the file has: eight of the largest elements."""
SAMPLE_INTERVAL_NS = 86_400 * 10**9
"""The interval of a sample: a value over more than a day says nothing about a request."""
GC_LINE = 64 * 1024
"""Characters in a line of a JVM's log. The longest lines (the times of 1,000 workers, or a collection with
PrintReferenceGC) have some 10,000."""
GC_RECORD_DEPTH = 64
"""Brackets that are open at once in a record of a JVM's log; a remark that contains a scavenge has five."""
GC_BEGUN = 64
"""Pauses of a JVM's log that have begun and not ended; a collection inside a collection makes two."""
GC_NAMES = 10_000
"""Different names of stops in a JVM's log; a collector has about a hundred."""
FIRST_LINE = 120
"""Characters that an error shows of the first line of an unknown file."""
OTLP_MESSAGE = 64 * MIB
"""A message of OTLP, as a Collector writes it: sixteen times the largest that its receivers accept by default."""
ANSWER_BYTES = 256 * MIB
"""An answer of Prometheus: some ten million values, a day of a hundred hosts at 15 s."""
UNDATED_NS = 946_684_800 * 10**9
"""2000-01-01: what counts from a start that is unknown begins there."""
