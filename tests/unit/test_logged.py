"""Logs that have only slow requests, or some of them, and logs that have all."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import pytest

from tailrace import readers
from tailrace.dataset import Dataset
from tailrace.topology import Server, Topology, write
from tailrace.units import parse_moment

T = parse_moment("2026-11-20T16:49:00Z") / 1e9


def requests(seed: int, wait: float = 0.0) -> list[tuple[float, float, float, str]]:
    """End, duration, duration of the call, and path: two pages, whose own work and calls are exponential. With `wait`,
    the server holds up each request for so long."""
    rng = random.Random(seed)
    found = []
    for i in range(4000):
        call, own = rng.expovariate(1 / 0.08), rng.expovariate(1 / 0.04)
        found.append((T + i * 0.02, wait + call + own, call, f"/page{i % 2 or ''}"))
    return found


def nginx(path: Path, rows: Iterable[tuple[float, float, float, str]], *, calls: bool) -> Dataset:
    text = '10.0.0.9 - - [20/Nov/2026:16:49:00 +0000] "GET {} HTTP/1.1" 200 5 "-" "curl" msec={:.3f} rt={:.3f}{}\n'
    with path.open("w") as file:
        for end, took, call, page in rows:
            file.write(text.format(page, end, took, f' urt="{call:.3f}" ua="10.0.0.3:80"' if calls else ""))
    return readers.read(f"web={path}")


def partial(run: Dataset) -> str:
    return next((note for note in run.manifest.notes if "there are requests and no visits" in note), "")


def test_a_log_of_all_requests_is_whole(tmp_path: Path) -> None:
    for calls in (True, False):
        run = nginx(tmp_path / "access.log", requests(1), calls=calls)
        assert not partial(run)
        assert run.manifest.rows["visits"] == 8000 if calls else 4000


def test_a_log_of_slow_requests_has_no_visits_and_says_so(tmp_path: Path) -> None:
    slow = [row for row in requests(1) if row[1] >= 0.1]
    run = nginx(tmp_path / "access.log", slow, calls=True)
    run.validate()
    assert "sharp edge there that no part of them explains: faster requests were left out" in partial(run)
    assert run.manifest.rows["requests"] == len(slow)
    assert run.manifest.rows.get("visits", 0) == 0
    assert [server.chosen for server in run.topology.servers if server.name == "web"] == [True]


def test_without_calls_the_log_does_not_show_which_it_is(tmp_path: Path) -> None:
    slow = [row for row in requests(1) if row[1] >= 0.1]
    assert "either faster requests were left out, or something holds up" in partial(
        nginx(tmp_path / "slow.log", slow, calls=False)
    )
    waits = [(end, 0.1 + call, 0.0, page) for end, _, call, page in requests(2)]
    assert "either faster requests were left out, or something holds up" in partial(
        nginx(tmp_path / "waits.log", waits, calls=False)
    )
    # A number that nobody chooses as a limit is how long the program waits.
    waits = [(end, 0.137 + call, 0.0, page) for end, _, call, page in requests(2)]
    assert not partial(nginx(tmp_path / "odd.log", waits, calls=False))


def test_a_server_that_always_waits_is_whole_if_its_parts_show_it(tmp_path: Path) -> None:
    assert not partial(nginx(tmp_path / "access.log", requests(2, wait=0.1), calls=True))


def test_the_topology_may_say_that_none_are_missing(tmp_path: Path) -> None:
    slow = [row for row in requests(1) if row[1] >= 0.1]
    nginx(tmp_path / "access.log", slow, calls=True)
    write(Topology(servers=(Server(name="web", chosen=False),)), tmp_path / "topology.toml")
    run = readers.read(f"web={tmp_path / 'access.log'}", topology=tmp_path / "topology.toml")
    assert not partial(run)
    assert run.manifest.rows["visits"] == 2 * len(slow)


UWSGI = (
    "[pid: {}|app: 0|req: {}/{}] 10.0.0.9 () {{28 vars in 299 bytes}} [Fri Nov 20 16:49:0{} 2026] GET /items/17 => "
    "generated 5 bytes in {} msecs (HTTP/1.1 200) 2 headers in 79 bytes (1 switches on core 0)\n"
)


@pytest.mark.parametrize(("every", "said"), [(1, ""), (7, "50 of 344 requests were logged (14.5%)")])
def test_counters_of_uwsgi_show_what_was_left_out(tmp_path: Path, every: int, said: str) -> None:
    rows = [UWSGI.format(22 + i % 3, 5 + i, 100 + every * i, i % 9, 12 + i) for i in range(50)]
    (tmp_path / "uwsgi.log").write_text("".join(rows))
    notes = " ".join(readers.read(f"app={tmp_path / 'uwsgi.log'}").manifest.notes)
    assert said in notes
    assert ("were logged" in notes) == bool(said)


@pytest.mark.parametrize(("every", "said"), [(1, ""), (5, "100 of 460 requests were logged (21.7%)")])
def test_counters_of_nginx_show_what_was_left_out(tmp_path: Path, every: int, said: str) -> None:
    line = (
        '{{"msec": "{:.3f}", "request_time": "0.0{}2", "status": "200", "request": "GET /page HTTP/1.1", '
        '"connection": "{}", "connection_requests": "{}"}}\n'
    )
    rows = [line.format(T + i, 1 + i % 4, i % 10, 1 + i // 10 * every) for i in range(100)]
    (tmp_path / "access.json").write_text("".join(rows))
    notes = " ".join(readers.read(f"web={tmp_path / 'access.json'}").manifest.notes)
    assert said in notes
    assert ("were logged" in notes) == bool(said)
