"""The page from plain values: its text, its safety, and equal bytes for equal input."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise

import numpy as np

from fixtures_outline import outline
from fixtures_report import BEGIN, SECOND, diagnosis, episode, quiet, recording
from tailrace.diagnosis.finding import Diagnosis, Finding, Mode
from tailrace.report import charts, ledgers, page
from tailrace.report.histogram import histogram, rebin
from tailrace.report.payload import payload, script_json
from tailrace.report.recording import Axis, Line, Recording
from tailrace.report.series import COARSE_MAX, VALUES_MAX, thin

HOSTILE = {
    "web": "<script>alert(1)</script>",
    "app": '"><img src=x onerror=alert(1)>',
    "db": "</script><!--",
    "neighbour": "{{7*7}}\u202egnp.\x00",
}


def numbers(text: str) -> dict[str, object]:
    found = re.search(r'id="numbers">(.*?)</script>', text, re.S)
    assert found
    return dict(json.loads(found[1]))


def test_equal_input_gives_equal_bytes() -> None:
    assert page.html(recording(), diagnosis()) == page.html(recording(), diagnosis())


def test_nothing_is_fetched() -> None:
    text = page.html(recording(), diagnosis())
    for attribute in re.findall(r'(?:src|href|action)="([^"]*)"', text):
        assert attribute.startswith("#") or attribute == "data:,"
    assert "@import" not in text
    assert not re.search(r"url\((?!data:)", text)


def test_names_from_captures_cannot_become_markup() -> None:
    text = page.html(recording(names=HOSTILE), diagnosis(names=HOSTILE))
    tags = outline(text).tags
    assert "img" not in tags
    assert text.count("<script") == 4, "the numbers and our three scripts"
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "{{7*7}}" in text, "names are no templates either"
    assert "\u202e" not in text
    assert "\\u202e" in text
    assert numbers(text)


def test_policy_names_every_script_by_hash() -> None:
    text = page.html(recording(), diagnosis())
    scripts = re.findall(r"<script>(.*?)</script>", text, re.S)
    policy = re.search(r"script-src ([^\"]*)\"", text)
    assert policy
    assert policy[1].replace("&#39;", "'").split() == [page._hash(s) for s in scripts]


def test_no_vlrt_claims_nothing() -> None:
    found = "\n".join(outline(page.html(*quiet())).lines)
    assert "nothing to explain" in found
    for claim in ("id=episodes", "id=summary", "Dropped", "Cause", "Millibottleneck", "Explained"):
        assert claim not in found


def test_every_finding_gives_its_verdict_and_the_missing_datum() -> None:
    whole = diagnosis()
    first = whole.episodes[0]
    unknown = Finding("millibottleneck", "unknown", "No samples.", "app", missing="`cpu_busy` of app")
    changed = replace(first, findings=(*first.findings[:3], unknown, replace(unknown, step="cause")), cause="unknown")
    text = page.html(recording(), replace(whole, episodes=(changed,)))
    assert text.count('class="finding unknown"') == 2
    assert "Would settle it: <code>cpu_busy</code> of app" in text


def test_recording_without_samples_shows_no_empty_axes() -> None:
    whole = recording()
    bare = replace(whole, lines=tuple(x for x in whole.lines if x.axis == 0), spans=())
    group = charts.episode(bare, diagnosis(), 0)
    assert [c.step for c in group.charts] == [1, 2, 3]
    assert page.NO_DATA["cause"] in page.html(bare, diagnosis())


def test_events_without_samples_are_drawn_above_their_effect() -> None:
    whole = recording()
    bare = replace(whole, lines=tuple(x for x in whole.lines if x.axis == 0))
    last = charts.episode(bare, diagnosis(), 0).charts[-1]
    assert (last.step, last.unit) == (5, "count")
    assert [m.label for m in last.marks] == ["burst · neighbour"]


def test_many_episodes_stay_a_list() -> None:
    many = replace(diagnosis(), episodes=tuple(episode(BEGIN + i * SECOND // 10, 3) for i in range(600)))
    text = page.html(recording(), many)
    assert len(re.findall(r'<details class="episode"[^>]* open', text)) == page.OPEN_EPISODES
    assert text.count('<details class="episode"') == 600
    assert text.count('data-group="e') == 600
    assert "Charts are drawn for the first" in text


def test_an_empty_recording_has_a_page() -> None:
    empty = Recording(0, 1, 50_000_000, (), (), ())
    nothing = Diagnosis(0, 0, SECOND, "the default", 1.0, None, None, 50_000_000, ("No request.",), (), (), (), (), ())
    assert "No request." in page.html(empty, nothing)


def test_charts_follow_the_steps() -> None:
    group = charts.episode(recording(), diagnosis(), 0)
    assert [(c.step, c.title) for c in group.charts] == [
        (1, "VLRT requests sent per 50 ms"),
        (2, "Lost attempts per 50 ms"),
        (3, "Queue length, longest in each 50 ms"),
        (4, "Resources of app"),
        (4, "Dirty pages of host"),
        (5, "Evidence for neighbour"),
    ]
    assert {x.value for x in group.charts[2].limits} == {150, 278}
    assert group.charts[3].flat == ("app · I/O wait",)
    assert [b.step for b in group.bands] == [1, 2, 3, 4, 5]
    assert group.begin < min(b.begin for b in group.bands)
    assert group.end > max(b.end for b in group.bands)


def test_charts_of_many_servers_show_those_beside_the_path() -> None:
    """Their names say nothing about where they are."""
    whole = recording()
    queue = next(line for line in whole.lines if (line.place, line.metric) == ("web", "queue_length"))
    others = [f"aside-{n:05}" for n in range(200)]
    near = ["zebra", "yak"]
    lines = (*whole.lines, *(replace(queue, place=place) for place in (*others, *near)))
    calls = (("web", "app"), ("app", "db"), ("zebra", "web"), ("db", "yak"), *pairwise(others))
    servers = (*others, *whole.servers, *near)
    many = replace(whole, servers=servers, lines=lines, calls=calls)
    drawn = [curve.label for curve in charts.episode(many, diagnosis(), 0).charts[2].curves]
    assert len(drawn) == charts.CURVES_MAX
    assert {"web", "app", "db", *near} <= set(drawn)


def test_the_ledger_follows_the_steps() -> None:
    whole = ledgers.with_columns(recording(), diagnosis(), 500)
    before = charts.episode(whole, diagnosis(), 0)
    group = ledgers.beside(before, whole, diagnosis(), 0)
    assert group.charts[: len(before.charts)] == before.charts
    capacity, queue = group.charts[len(before.charts) :]
    assert (capacity.title, capacity.shape) == ("Capacity of app", "stack")
    assert [c.label for c in capacity.curves] == ["idle", "nothing recorded accounts for it", "neighbour", "done"]
    stacked = sum(whole.lines[c.line].values for c in capacity.curves)
    np.testing.assert_allclose(stacked, 1.0)
    assert len({c.slot for c in capacity.curves}) == 4
    assert capacity.summary.startswith("done: 44 %; neighbour: 24 %; ")
    assert [(c.label, c.dash) for c in queue.curves] == [("recorded", 0), ("replayed", 1)]
    told = payload(whole, {"e1": group})
    assert [c["shape"] for c in told["groups"]["e1"]["charts"]][-2:] == ["stack", "lines"]


def test_the_effect_of_each_cause_is_a_table() -> None:
    lines = outline(page.html(recording(), diagnosis())).lines
    at = next(i for i, line in enumerate(lines) if "The effect of each cause" in line)
    said = [line.strip() for line in lines[at : at + 60] if not line.strip().startswith("<")]
    assert said[6:11] == ["neighbour", "app", "neighbour", "97 %", "316 of 325"]
    assert said[11:13] == ["nothing recorded accounts for it", "app"]
    assert said[14:16] == ["3 %", "12 of 325"]


def test_an_episode_that_is_not_reproduced_has_no_shares() -> None:
    first = episode(BEGIN, 3)
    assert first.ledger is not None
    ledger = replace(first.ledger, reproduced=False, lines=(), sentence="It is no model of this episode.")
    text = page.html(recording(), replace(diagnosis(), episodes=(replace(first, ledger=ledger),)))
    assert "It is no model of this episode." in text
    assert "The effect of each cause" not in text
    without = page.html(recording(), replace(diagnosis(), episodes=(replace(first, ledger=None),)))
    assert "Ledger" not in outline(without).lines


def test_numbers_survive_the_page() -> None:
    whole = recording()
    group = charts.episode(whole, diagnosis(), 0)
    told = json.loads(script_json(payload(whole, {"e1": group})))
    curve = told["groups"]["e1"]["charts"][2]["curves"][0]
    line = told["lines"][curve["line"]]
    drawn = np.cumsum(line["moves"]) / line["scale"]
    at = whole.line("web", "queue_length")
    assert at is not None
    np.testing.assert_allclose(drawn, whole.lines[at].values)


def test_holes_stay_holes() -> None:
    axis = Axis(BEGIN + np.arange(4, dtype=np.int64) * SECOND, SECOND)
    holed = Line(0, "web", "vlrt", np.array([1.0, np.nan, 0.0, 5.0]))
    whole = Recording(BEGIN, BEGIN + 4 * SECOND, SECOND, ("web",), (axis,), (holed,))
    told = payload(whole, {"overview": charts.overview(whole, diagnosis())})
    assert told["lines"][0]["holes"] == [1]


def test_thinning_keeps_every_peak_and_the_episodes_whole() -> None:
    count = VALUES_MAX + 7
    values = np.zeros(count)
    values[[3, count // 2, count - 1]] = 100
    axis = Axis(BEGIN + np.arange(count, dtype=np.int64) * 50_000_000, 50_000_000)
    whole = Recording(BEGIN, int(axis.times[-1]), 50_000_000, ("web",), (axis,), (Line(0, "web", "vlrt", values),))
    thinned = thin(whole, diagnosis(), 2)
    coarse, *fine = thinned.lines
    assert len(coarse.values) <= COARSE_MAX
    assert (coarse.values == 100).sum() == 3
    assert [thinned.axes[x.axis].episode for x in fine] == [0, 1]
    assert np.diff(thinned.axes[fine[0].axis].times).max() == 50_000_000
    assert thinned.line("web", "vlrt", 1) == 2
    assert thinned.line("web", "vlrt", 2) == 0
    assert dict(thinned.provenance)["Points drawn"]


def test_histogram_keeps_every_request_and_marks_the_modes() -> None:
    answer = diagnosis()
    drawn = histogram(recording(), answer)
    assert drawn
    assert sum(b.requests for b in drawn.table) == answer.requests
    assert [f.detail for f in drawn.flags] == ["main mode", "retransmission after 1 s, 1 attempt lost"]
    assert all(0 < height <= 1 for _, _, height, _, _ in drawn.bars)
    assert [slow for *_, slow in drawn.bars] == sorted(slow for *_, slow in drawn.bars)


def test_equal_bins_are_no_narrower_than_the_widest_given() -> None:
    bars = rebin(((0, 1_000, 5), (900_000_000, 960_000_000, 2)), 960_000_000)
    assert {b.high - b.low for b in bars} == {100_000_000}
    assert [b.requests for b in bars] == [5, 2]


def test_labels_of_near_modes_do_not_overlap() -> None:
    modes = tuple(Mode(s * SECOND, 10, s * SECOND, s) for s in (1, 2, 3, 4, 5, 7, 11))
    drawn = histogram(recording(), replace(diagnosis(), modes=modes, histogram=((0, 12 * SECOND, 70),)))
    assert drawn
    rows: dict[int, list[tuple[float, float]]] = {}
    for flag in drawn.flags:
        left = flag.at - 0.34 if flag.align == "end" else flag.at
        rows.setdefault(flag.row, []).append((left, left + 0.34))
    for spans in rows.values():
        assert all(a[1] <= b[0] for a, b in pairwise(spans))
