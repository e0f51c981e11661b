"""How many incidents a hub collects at once, and how many of them may wait for their explanation meanwhile."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path

from tailrace.hub.desk import OPEN_MAX, WAITING_MAX, Desk
from tailrace.hub.wire import Message
from tailrace.units import SECOND

NOW = 1_790_000_000 * SECOND


def noticed(host: str, end: int) -> Message:
    return Message(host, NOW, ("10.0.0.1",), begin=end - SECOND, end=end)


def test_so_many_incidents_at_once_and_in_all_and_no_more(tmp_path: Path) -> None:
    desk = Desk(tmp_path, 60, OPEN_MAX + 1)
    for number in range(OPEN_MAX):
        assert isinstance(desk.notice(noticed("web", NOW + number * 100 * SECOND), 0), str)
    further = noticed("web", NOW + OPEN_MAX * 100 * SECOND)
    assert desk.notice(further, 0) is HTTPStatus.SERVICE_UNAVAILABLE
    (tmp_path / "incident-old").mkdir()
    for closed in desk.due(60):
        desk.close(closed)
    assert desk.notice(further, 61) is None
    assert any("--most" in sentence for sentence in desk.said())


def test_incidents_that_wait_for_their_explanation_leave_room_for_as_many_others(tmp_path: Path) -> None:
    desk = Desk(tmp_path, 60, 100)
    taken = 0
    for number in range(100):
        now = 61 * number // OPEN_MAX
        answer = desk.notice(noticed("web", NOW + number * 100 * SECOND), now)
        taken += isinstance(answer, str)
        desk.due(now)
    assert taken == OPEN_MAX + WAITING_MAX
