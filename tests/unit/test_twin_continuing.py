"""What clients that wait for answers send after the recording: only what they would have had time for."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tailrace.twin.continuing import MOST, continued

Rows = list[tuple[float, int | None, float | None, float]]


def sent(rows: Rows, end: float) -> pl.DataFrame:
    """`rows` have a time, a client, how long it thought, and the time of the answer."""
    times, clients, thinks, answered = zip(*rows, strict=True)
    table = pl.DataFrame(
        {"time": times, "client": pl.Series(clients, dtype=pl.Int64), "think": pl.Series(thinks, dtype=pl.Float64)}
    )
    return continued(table, np.array(answered), end)


def test_a_client_thinks_for_longer_than_until_the_recording_ended() -> None:
    """It had thought for 1 s then. It waited for 3 s in all, so its further requests are those of 3 s."""
    found = sent([(0.0, 1, None, 1.0), (2.0, 1, 1.0, 2.5), (4.0, 1, 1.5, 4.5)], 5.5)
    more = found[3:]
    assert more["think"].to_list() == pytest.approx([1.5, 1.0, 1.5])
    assert more["time"].to_list() == pytest.approx([6.0, 7.0, 8.5])
    assert more["client"].to_list() == [1] * 3


def test_a_client_that_rested_for_longer_than_ever_rests_for_as_long_again() -> None:
    found = sent([(0.0, 1, None, 1.0), (1.1, 1, 0.1, 2.0)], 12.0)
    assert found["think"][2] == pytest.approx(20.0)


def test_clients_that_do_not_wait_or_come_once_send_no_more() -> None:
    rows: Rows = [(0.0, 1, None, 1.0), (0.5, 1, None, 2.0), (1.0, 2, None, 9.0), (2.0, None, None, 4.0)]
    assert len(sent(rows, 5.0)) == len(rows)


def test_a_client_without_a_pause_sends_a_bounded_number() -> None:
    rows: Rows = [(0.0, 1, None, 2.0), (2.0, 1, 0.0, 4.0)]
    assert len(sent(rows, 4.0)) == len(rows) + MOST


def test_a_client_that_was_answered_at_once_sends_only_one_more() -> None:
    rows: Rows = [(0.0, 1, None, 0.0), (1.0, 1, 1.0, 1.0), (3.0, 1, 2.0, 3.0)]
    assert sent(rows, 3.0)["think"].to_list()[3:] == [1.0]
