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
