"""The testbed: an experiment on real servers of this machine, each in a namespace and a control group of its own.

`ledger` and `undoing` are about what is to be undone; `net`, `cgroup`, `program`, `clock` and `disk` are what nodes are
made of; `nodes` and `system` bring nodes and servers up; `servers/` and `stalls/` have one sort of each a file;
`running` is a whole run; `refusals` says what cannot be done.
"""

from tailrace.testbed.outcome import Outcome
from tailrace.testbed.running import run, serving
from tailrace.testbed.site import Site

__all__ = ["Outcome", "Site", "run", "serving"]
