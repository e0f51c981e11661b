"""The examiner: is a diagnosis right? Only here is one compared with what really happened (docs/reference/score.md).

There is one judge: a cause is right for as many very slow requests as its removal removes. `without` simulates a system
again without each of its troubles, which `removing` removes. The stalls of a recording cannot be removed; for it
`covering` says which stall of `truth.toml` (`stalls`) covers a request. `judging` chooses, `figures` counts,
`stated` compares servers.

`drawing`, `graphs` and `papers` make random systems with `troubles`, `thinning` makes their recordings as poor as real
ones, and `sweep` examines many of them.
"""

from __future__ import annotations

from tailrace.score.figures import Score
from tailrace.score.judging import score
from tailrace.score.stalls import read
from tailrace.score.told import read as read_diagnosis

__all__ = ["Score", "read", "read_diagnosis", "score"]
