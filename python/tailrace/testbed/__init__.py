"""The testbed runs an experiment on real servers of this machine, each in its own namespace and control group.

`ledger` and `undoing` handle what must be undone. `net`, `cgroup`, `program`, `clock`, `disk`, `swap` and `lossy` are
the parts of a node. `nodes` and `system` start nodes and servers. In `servers/` and `stalls/` each kind has a file.
`running` is a whole run, `playing` fits experiments of the simulator to real servers, and `refusals` lists what cannot
be done.
"""

from tailrace.testbed.outcome import Outcome
from tailrace.testbed.playing import played
from tailrace.testbed.running import run, serving
from tailrace.testbed.site import Site

__all__ = ["Outcome", "Site", "played", "run", "serving"]
