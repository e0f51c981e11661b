"""From a run folder to the drawn series."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import builders
from builders import T0
from fixtures_report import diagnosis as fixture
from tailrace import report, topology
from tailrace.dataset import Dataset
from tailrace.diagnosis.finding import Diagnosis
from tailrace.report import series

MS = 1_000_000
FIRST = T0 // (50 * MS) * (50 * MS)


def answer(**changed: Any) -> Diagnosis:
    """A diagnosis of one second from T0, without episodes."""
    made = Diagnosis(
        requests=3,
        vlrt=1,
        threshold_ns=500 * MS,
        threshold_reason="set by the test",
        explained=0.0,
        begin=T0,
        end=T0 + 1000 * MS,
        window_ns=50 * MS,
        answer=("One of 3 requests was slow.",),
        summary=(),
        episodes=(),
        modes=(),
        histogram=(),
        unknown=(),
    )
    return replace(made, **changed)


@pytest.fixture
def run(tmp_path: Path) -> Dataset:
    made = builders.run(
        tmp_path / "run",
        requests=builders.requests(
            {"sent": T0 + 10 * MS, "end": T0 + 12 * MS},
            {"sent": T0 + 20 * MS, "end": T0 + 24 * MS},
            {"sent": T0 + 110 * MS, "end": T0 + 800 * MS},
        ),
        visits=builders.visits(
            {"server": "app", "caller": "web", "request": 1, "arrival": T0 + 11 * MS, "departure": T0 + 12 * MS},
            {"request": 1, "sent": T0 + 10 * MS, "arrival": T0 + 10 * MS, "departure": T0 + 12 * MS},
            {
                "server": "web",
                "request": 3,
                "sent": T0 + 110 * MS,
                "arrival": T0 + 700 * MS,
                "departure": T0 + 800 * MS,
            },
        ),
        samples=builders.samples(
            {"time": T0 + 50 * MS, "value": 0.25},
            {"time": T0 + 50 * MS, "metric": "cpu_iowait", "value": 0.5},
            {"time": T0 + 60 * MS, "place": "core1", "value": 1.0},
            {"time": T0 + 100 * MS, "value": 0.75},
            {"time": T0 + 100 * MS, "metric": "cpu_iowait", "value": 0.0},
        ),
        events=builders.events(
            {"place": "web", "kind": "drop", "begin": T0 + 110 * MS, "end": T0 + 700 * MS},
            {"begin": T0 + 300 * MS, "end": T0 + 400 * MS},
        ),
    )
    known = {
        "nodes": [{"name": "one", "address": "10.0.0.1"}],
        "servers": [{"name": "web", "node": "one"}, {"name": "app"}],
        "places": {"core1": "one"},
    }
    topology.write(topology.from_table(known), made.path / "topology.toml")
    return Dataset.open(made.path)


def at(found: series.Recording, place: str, metric: str) -> dict[int, float]:
    """The values of a line that are not 0, by ms since T0 of the middle of their interval."""
    index = found.line(place, metric)
    assert index is not None, f"no {metric} of {place}"
    line = found.lines[index]
    times = (found.axes[line.axis].times - T0) // MS
    return {int(t): float(v) for t, v in zip(times, line.values, strict=True) if v}


def test_windows_cover_the_recording(run: Dataset) -> None:
    found = series.gather(run, answer())
    grid = found.axes[0]
    assert grid.times[0] == FIRST + 25 * MS
    assert np.unique(np.diff(grid.times)).tolist() == [50 * MS]
    assert grid.times[-1] + 25 * MS >= T0 + 1000 * MS


def test_queue_is_the_longest_of_each_window(run: Dataset) -> None:
    found = series.gather(run, answer())
    assert at(found, "web", "queue_length") == {25: 1.0, 725: 1.0, 775: 1.0}
    assert at(found, "app", "queue_length") == {25: 1.0}
    assert at(found, "web", "arrivals") == {25: 1.0, 725: 1.0}


def test_vlrt_stand_where_they_were_sent(run: Dataset) -> None:
    assert at(series.gather(run, answer()), "web", "vlrt") == {125: 1.0}


def test_drops_stand_where_they_were_lost(run: Dataset) -> None:
    assert at(series.gather(run, answer()), "web", "drops") == {125: 1.0}


def test_drops_come_from_visits_without_events(tmp_path: Path) -> None:
    lost = builders.visits({"sent": T0 + 60 * MS, "arrival": T0 + 90 * MS, "departure": T0 + 95 * MS, "drops": 1})
    found = series.gather(builders.run(tmp_path / "run", visits=lost), answer())
    assert at(found, "web", "drops") == {75: 1.0}


def test_samples_of_the_same_moments_share_an_axis(run: Dataset) -> None:
    found = series.gather(run, answer())
    assert at(found, "web", "cpu_busy") == {25: 0.25, 75: 0.75}
    assert at(found, "web", "cpu_iowait") == {25: 0.5}
    axes = {(line.place, line.metric): line.axis for line in found.lines}
    assert axes["web", "cpu_busy"] == axes["web", "cpu_iowait"] != axes["core1", "cpu_busy"]


def test_servers_are_ordered_by_calls_and_joined_to_places(run: Dataset) -> None:
    found = series.gather(run, answer())
    assert found.servers == ("web", "app")
    assert found.places("web") == ("core1",)
    assert found.places("app") == ()


def test_drop_events_are_no_marks(run: Dataset) -> None:
    assert [s.kind for s in series.gather(run, answer()).spans] == ["gc"]


def test_histogram_and_median_are_of_all_requests(run: Dataset) -> None:
    found = series.gather(run, answer())
    assert sum(n for _, _, n in found.responses) == 3
    assert {high - low for low, high, _ in found.responses} == {5 * MS}
    assert found.response_ns_p50 == 4 * MS


def test_traced_requests_are_vlrt_with_their_visits(run: Dataset) -> None:
    found = series.stays(run, answer())
    assert [(s.request, s.server) for s in found] == [(3, None), (3, "web")]


def test_clock_offsets_are_reported_as_applied(run: Dataset) -> None:
    clock = topology.Clock(capture="app.pcap", offset_ns=-1200, bound_ns=30_000)
    topology.write(run.topology.model_copy(update={"clocks": (clock,)}), run.path / "topology.toml")
    rows = dict(series.gather(Dataset.open(run.path), answer()).provenance)
    assert rows["Clock of app.pcap"] == "-1.2 µs was added to it, to within 30 µs"


def test_a_run_without_any_rows_is_shown_too(tmp_path: Path) -> None:
    empty = builders.run(tmp_path / "run")
    nothing = answer(requests=0, vlrt=0, begin=None, end=None, answer=("There are no requests.",))
    assert "There are no requests." in report.render_html(empty, nothing)


def test_everything_is_written_whole(run: Dataset, tmp_path: Path) -> None:
    report.write_html(run, answer(), tmp_path / "report.html")
    report.write_perfetto(run, answer(), tmp_path / "run.pftrace")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert text.endswith("</html>\n")
    assert text == report.render_html(run, answer())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["report.html", "run", "run.pftrace"]


def test_a_diagnosis_of_other_places_still_renders(run: Dataset) -> None:
    assert "<!doctype html>" in report.render_html(run, replace(fixture(), begin=T0, end=T0 + 1000 * MS))
