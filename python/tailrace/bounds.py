"""The most that Tailrace takes of each thing that somebody else made: docs/reference/limits.md says them all.

A bound is far above what an honest input needs, and low enough that what is beyond it ends with a sentence and within
2 GB. The engine's are in crates/core/src/bounds.rs.
"""

from __future__ import annotations

MIB = 1 << 20

TEXT_BYTES = 16 * MIB
"""Of a text that is read as a whole: an experiment, a topology, rules, a table of paths, a manifest."""
EXPERIMENT_FILES = 100
"""Files that extend each other."""
LOAD_WORKERS = 64
"""Processes of a load, of some 30 MB each, or two for each CPU where these are more."""
LOAD_PATHS = 10_000
"""Rows of a table of paths: as many as interactions that a recording keeps apart (crates/core/src/capture/names.rs)."""
ZSTD_WINDOW_LOG = 29
"""The largest window of a zstd frame, as a power of two: 512 MiB, which `zstd --long=29` makes and which unpacking
takes in memory. This and the expansion are the engine's, too."""
EXPANSION_FREE, EXPANSION = 32 * MIB, 128
"""What a compressed file may expand to: so many bytes, and so many times its length besides. Samples of an idle host,
the same value twenty times a second, come to 127 times under `zstd -19`; a bomb comes to ten thousand."""
LINE = MIB
"""Bytes of a line of a log or a table: a row of collectl has 60 kB on a machine of 1,000 CPUs."""
SAMPLES = 50_000_000
"""Of one file, where memory has room for them: thirty series at 20 Hz over a day."""
SAMPLE_NAME = 1_000
"""Bytes of the name of a place or a metric in a table of samples."""
SAMPLE_INTERVAL_NS = 86_400 * 10**9
"""Of a sample: what lasts longer than a day says nothing of a request."""
GAP_NS = 366 * 86_400 * 10**9
"""Between the rows of a file: what lies farther from the rest is damage."""
GC_LINE = 64 * 1024
"""Characters of a line of a JVM's log. The longest, a worker's times of 1,000 threads, or a collection with
PrintReferenceGC, has some 10,000."""
GC_RECORD_DEPTH = 64
"""Brackets that are open at once in a record of a JVM's log; a remark with a scavenge in it has five."""
GC_BEGUN = 64
"""Pauses of a JVM's log that have begun and not ended; a collection in a collection makes two."""
GC_NAMES = 10_000
"""Different names of stops in a JVM's log; a collector has some hundred."""
FIRST_LINE = 120
"""Characters of the first line of a file that no reader knows, in the sentence about it."""
