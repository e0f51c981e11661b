"""The examiner: is a diagnosis right? Only this package compares a diagnosis with what really happened
(docs/reference/score.md).

There is one measure: a cause is right for as many very slow requests as its removal removes. `removing` removes one
trouble from a system, and `without` simulates the system again. The stalls of a recording cannot be removed; there,
`covering` finds the stall of `truth.toml` (`stalls`) that covers a request. `judging` chooses between the two,
`figures` counts, and `stated` compares servers.

`drawing`, `graphs` and `papers` make random systems with `troubles`. `thinning` makes their recordings as poor as real
ones. `sweep` examines many of them.
"""

from __future__ import annotations

from tailrace.score.figures import Score
from tailrace.score.judging import score
from tailrace.score.stalls import read
from tailrace.score.told import read as read_diagnosis

__all__ = ["Score", "read", "read_diagnosis", "score"]
