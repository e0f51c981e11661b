"""What the ledger infers about disks, and about pools that are polled."""

from __future__ import annotations

import numpy as np
import pytest

from tailrace.diagnosis.ledger.losses.disk import _had_gathered
from tailrace.diagnosis.ledger.waits import LOOKS_NS, _looked_again
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
    begin = np.array([1005, 1005, 1020, 900]) * MILLISECOND
    sent = begin + np.array([LOOKS_NS, 3 * LOOKS_NS, LOOKS_NS, LOOKS_NS // 2])
    assert _looked_again(full, begin, sent).tolist() == [True, False, False, False]
    assert not _looked_again(full[:0], begin, sent).any()
