"""The ledger of a recording: its account, and what it charges to each cause."""

from __future__ import annotations

from typing import Any

import numpy as np

from tailrace.diagnosis import ledger, tables, vlrt
from tailrace.diagnosis.ledger import account, places, recorded
from tailrace.diagnosis.ledger.losses import Seen
from tailrace.units import MILLISECOND


def drawn_up(dataset: Any) -> tuple[Seen, recorded.Recorded, account.Account]:
    """What is seen of a recording, its columns, and the account that is drawn up of them."""
    view = tables.look(dataset, 50 * MILLISECOND)
    slow = vlrt.find(view, None)
    columns = recorded.record(view, slow)
    assert columns is not None
    seen = Seen(view, slow, columns.steps)
    return seen, columns, account.draw_up(seen, columns)


def charged(dataset: Any) -> dict[str, float]:
    """Cause → the very slow requests that are charged to it, in all episodes that the replay reproduces."""
    seen = tables.look(dataset, 50 * MILLISECOND)
    found: dict[str, float] = {}
    for one in ledger.judge(seen, vlrt.find(seen, None)):
        for share in one.shares if one is not None and one.reproduced else ():
            found[share.cause] = found.get(share.cause, 0.0) + share.vlrt
    return found


def shares(dataset: Any) -> dict[str, float]:
    """Cause → its part of these requests."""
    found = charged(dataset)
    whole = sum(found.values())
    return {cause: vlrt / whole for cause, vlrt in found.items()} if whole else {}


def here(begin: np.ndarray, end: np.ndarray) -> places.Here:
    """Visits of one server that are all called the same."""
    n = len(begin)
    flag, name = np.zeros(n, dtype=bool), np.zeros(n, dtype=np.uint32)
    work = (end - begin).astype(float)
    no = dict.fromkeys(("orphan", "behind", "lost", "failed", "in_calm", "stood"), flag)
    times = {"came": begin, "begin": begin, "end": end, "work": work, "alone": work, "in_calls": 0 * work}
    return places.Here(rows=np.arange(n), name=name, labels=np.array(["page"]), known=0, **times, **no)
