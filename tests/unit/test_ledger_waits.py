"""What the ledger infers about disks, and about pools that are polled."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tailrace._core import agreement
from tailrace.diagnosis.ledger.losses.disk import _had_gathered
from tailrace.diagnosis.ledger.recorded import NONE
from tailrace.diagnosis.ledger.steps import NEVER
from tailrace.diagnosis.ledger.waits import LOOKS_NS, Waits, _looked_again, find
from tailrace.diagnosis.series import Series
from tailrace.units import MILLISECOND, SECOND

STEP = 50 * MILLISECOND


def dirty(*points: tuple[float, float]) -> Series:
    """Dirty megabytes on straight lines between points (seconds, MB)."""
    begin = np.arange(0, 10 * SECOND, STEP)
    at, value = zip(*points, strict=True)
    return Series("host", "dirty_bytes", begin, begin + STEP, np.interp(begin / SECOND, at, value) * 1e6)


@pytest.mark.parametrize(
    ("points", "gathered"),
    [
        (((0.0, 1.0), (5.0, 9.0), (5.6, 1.0), (10.0, 8.0)), True),
        (((0.0, 1.0), (4.9, 1.0), (5.0, 13.0), (5.6, 1.0), (10.0, 1.0)), False),
        (((0.0, 1.0), (10.0, 1.0)), None),
        (((0.0, 1.0), (5.0, 11.0), (5.1, 13.0), (10.0, 25.0)), None),
    ],
    ids=["gathered pages go", "pages come at once and go", "nothing moves", "pages of others only become more"],
)
def test_dirty_pages_show_whether_they_had_gathered(
    points: tuple[tuple[float, float], ...], gathered: bool | None
) -> None:
    assert _had_gathered(dirty(*points), None, 5 * SECOND, 5 * SECOND + 600 * MILLISECOND) == gathered


def test_a_thread_that_found_no_connection_looks_again_after_a_while() -> None:
    full = np.array([[1000, 1010], [5000, 5010]]) * MILLISECOND
    begin = np.array([1005, 1005, 1020, 900, 1009, 1009]) * MILLISECOND
    work = 2 * MILLISECOND  # after the pool became free, and before the call
    sent = begin + np.array([LOOKS_NS, 3 * LOOKS_NS, LOOKS_NS, LOOKS_NS // 2, LOOKS_NS + work, 3 * LOOKS_NS + work])
    assert _looked_again(full, begin, sent).tolist() == [True, False, False, False, True, False]
    assert not _looked_again(full[:0], begin, sent).any()


def waits(calls: list[tuple[int, float, float, float]], size: tuple[int, ...], balanced: bool = False) -> Waits:
    """For each visit its pool, and when it started, and when its call was sent and answered, in milliseconds."""
    pool, start, sent, answered = (np.array(column) for column in zip(*calls, strict=True))
    count = len(calls)
    times = {
        "sent": np.concatenate((start, sent)),
        "arrival": np.concatenate((start, sent)),
        "start": np.concatenate((start, sent)),
        "departure": np.concatenate((answered, answered)),
        "back": np.concatenate((answered, answered)),
    }
    recorded = SimpleNamespace(
        parent=np.concatenate((np.full(count, -1), np.arange(count))),
        **{name: np.rint(ms * MILLISECOND).astype(np.int64) for name, ms in times.items()},
    )
    pools = SimpleNamespace(size=size, pool=np.concatenate((np.full(count, NONE), pool)))
    choice = np.concatenate((np.full(count, NONE), np.full(count, 0 if balanced else NONE)))
    candidates = [tuple((number, number) for number in range(len(size)))] if balanced else []
    choices = SimpleNamespace(candidates=candidates, choice=choice)
    return find(cast(Any, recorded), cast(Any, pools), cast(Any, choices))


def test_a_call_that_others_overtook_did_not_stand_in_line_since_the_pool_was_full_again() -> None:
    calls = [
        (0, 0.0, 0.0, 90.0),
        (0, 10.0, 110.05, 120.0),  # overtaken by the next: 80 ms before the pool was free, and 15 ms after that
        (0, 95.0, 95.0, 110.0),
        (1, 0.0, 0.0, 200.0),
        (1, 20.0, 200.05, 210.0),  # in line all the time
    ]
    found = waits(calls, (1, 1))
    assert (found.ready[5:] / MILLISECOND).tolist() == [0.0, 10.0, 95.0, 0.0, 20.0]
    assert found.held[5:].tolist() == [NONE, 0, NONE, NONE, NONE]


@pytest.mark.parametrize(("sent", "ready"), [(245.3, 45.3), (260.0, 80.0)], ids=["two pauses", "no whole number"])
def test_a_balancer_that_calls_after_whole_pauses_waited_from_its_first_look_on(sent: float, ready: float) -> None:
    """Another call took the connection only 35 ms after the visit had started."""
    found = waits([(0, 80.0, 80.0, 240.0), (0, 45.0, sent, 300.0)], (1, 1), balanced=True)
    assert found.ready[3] / MILLISECOND == pytest.approx(ready)
    assert found.held[3] == 0


def test_a_call_whose_choice_is_not_known_counts_for_the_next_choices() -> None:
    """Every third call is held and goes to the first of two candidates, and the next two make up for it."""
    chosen = np.tile(np.array([0, 1, 1, 0], dtype=np.uint32), 50)
    sent = np.arange(len(chosen), dtype=np.int64) * MILLISECOND
    sent[2::4] += MILLISECOND // 2
    ready, held = sent.copy(), sent.copy()
    held[0::4] = NEVER
    size = np.zeros(len(chosen), dtype=np.uint64)
    known = agreement("total_request", 2, chosen, held, sent, sent + 10, size)
    assert known[0] == known[1] > 0
    without = held != NEVER
    left = agreement("total_request", 2, *(column[without] for column in (chosen, ready, sent, sent + 10, size)))
    assert left[1] < left[0]
