"""Names from strangers reach terminal, report, Perfetto's trace and JSON as text that forges and hides nothing."""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from perfetto.protos.perfetto.trace import perfetto_trace_pb2
from rich.table import Table
from rich.text import Text

from builders import T0, events, requests, run, samples, visits
from fixtures_report import diagnosis, recording
from hostile import FORGED, SURROGATES, Outline, assert_plain, hidden, texts
from tailrace import cli, foreign
from tailrace.cli.screen import Screen, print_json, say, tell
from tailrace.dataset import Dataset
from tailrace.report import page, perfetto
from tailrace.report.notebook import repr_html
from tailrace.topology import Server, Topology

SLOW = settings(suppress_health_check=list(HealthCheck), max_examples=max(10, settings.default.max_examples // 10))
any_text = st.one_of(texts, st.sampled_from(SURROGATES).map(lambda one: f"a{one}b"))
SECOND = 1_000_000_000


def printed(*words: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command."""
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        code = cli.perform(words)
    return code, out.getvalue(), error.getvalue()


@given(any_text)
def test_what_is_made_visible_hides_nothing_and_keeps_what_was_seen(text: str) -> None:
    for shown in (foreign.visible(text), foreign.name(text), foreign.sentence(text)):
        assert hidden(shown) == []
        assert "\n" not in shown
    assert len(foreign.name(text)) <= foreign.NAME_LENGTH_MAX
    if not hidden(text) and "\n" not in text and text.isascii():
        assert foreign.visible(text) == text


def test_a_megabyte_is_shown_as_a_name_or_a_screen() -> None:
    text = "\x1b[2J\n" * 200_000
    assert len(foreign.name(text)) == foreign.NAME_LENGTH_MAX
    assert len(foreign.sentence(text)) <= 6 * foreign.SENTENCE_LENGTH_MAX + 10
    assert foreign.sentence(f"{'x' * 10_000}; do this").endswith("x; do this")


@given(st.recursive(any_text, lambda inner: st.lists(inner) | st.dictionaries(any_text, inner), max_leaves=8))
@pytest.mark.parametrize("ascii_only", [False, True])
def test_json_is_escaped_and_comes_back(ascii_only: bool, value: object) -> None:
    text = foreign.json_text(value, ascii_only=ascii_only)
    assert hidden(text) == []
    assert json.loads(text) == value


@given(any_text)
def test_the_screen_shows_whatever_it_is_given(text: str) -> None:
    out = io.StringIO()
    console = Screen(file=out, width=400)
    console.print(f"name: {text}")
    console.print("name:", Text(text, style="bold"), text)
    table = Table("name", text, title=f"names {text}")
    table.add_row("name", text)
    table.add_row("name", Text(text))
    console.print(table)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        tell(f"name: {text}", f"name: {text}")
        say(f"name: {text}")
        print_json({text: text})
    assert_plain(out.getvalue())
    assert out.getvalue().count("\n") < 20 + len(text)


def hostile_run(folder: Path, names: list[str]) -> Dataset:
    """A run in which every name that a stranger can choose is hostile, with lost requests."""
    web, app, page_name, metric, kind, maker, note = names
    sent = [T0 + i * SECOND // 50 for i in range(400)]
    slow = [SECOND if 100 <= i < 140 else 2_000_000 for i in range(400)]
    rows = [{"sent": s, "end": s + d, "server": web, "interaction": page_name} for s, d in zip(sent, slow, strict=True)]
    stays = [
        {"server": server, "sent": s, "arrival": s + d - 2_000_000, "departure": s + d, "interaction": page_name}
        for s, d in zip(sent, slow, strict=True)
        for server in (web, app)
    ]
    made = run(
        folder,
        requests=requests(*rows),
        visits=visits(*(row | {"drops": int(row["arrival"] > row["sent"])} for row in stays)),
        samples=samples(
            *({"time": s, "place": app, "metric": m, "value": 1.0} for s in sent for m in (metric, "cpu_busy"))
        ),
        events=events({"place": app, "kind": kind, "begin": T0, "end": T0 + SECOND, "detail": note}),
    )
    table = json.loads((folder / "manifest.json").read_text())
    table |= {"notes": [note], "lost": {note: 3}, "maker": {"name": maker, "version": maker}}
    (folder / "manifest.json").write_text(json.dumps(table))
    servers = (Server(name=web), Server(name=app, protocol=kind))
    from tailrace import topology as topology_file

    topology_file.write(Topology(servers=servers, places={note: web}), folder / "topology.toml")
    return Dataset.open(made.path)


@SLOW
@given(st.lists(texts, min_size=7, max_size=7).filter(lambda names: names[0] != names[1]))
@example(
    [
        f"{shard}{i}"
        for i, shard in enumerate(("\x1b]0;x\x07", f"\n{FORGED}\n", "[/nope]", "\u202e", "\x85", "[red]", "\r"))
    ]
)
def test_a_run_folder_of_hostile_names_is_shown_plainly(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "run"
        hostile_run(folder, names)
        for words in (
            ["info"],
            ["info", "--json"],
            ["diagnose"],
            ["diagnose", "--json"],
            ["report", "--perfetto", f"{scratch}/trace"],
        ):
            code, out, error = printed(words[0], str(folder), *words[1:])
            assert code == 0, error
            assert_plain(out)
            assert_plain(error)
            if "--json" in words:
                json.loads(out)
        made = (folder / "report.html").read_text()
        assert hidden(made) == []
        assert_page_is_ours(made)
        trace = perfetto_trace_pb2.Trace.FromString((Path(scratch) / "trace").read_bytes())
        assert hidden("".join(strings(trace))) == []


def assert_page_is_ours(made: str) -> None:
    """No element, attribute, script or link beyond those of a page without hostile names."""
    ours, found = Outline(page.html(recording(), diagnosis())), Outline(made)
    assert found.tags <= ours.tags | {"code", "ul", "li"}
    assert {name for _, name in found.attributes} <= {name for _, name in ours.attributes}
    assert (found.scripts, found.links) == (ours.scripts, ours.links)
    assert made.count("</script") == ours.scripts


def strings(message: object) -> list[str]:
    found: list[str] = []
    for field, value in message.ListFields():  # type: ignore[attr-defined]
        for one in value if field.is_repeated else [value]:
            found += [one] if isinstance(one, str) else strings(one) if hasattr(one, "ListFields") else []
    return found


@given(st.lists(texts, min_size=4, max_size=4))
@SLOW
def test_every_word_of_a_diagnosis_is_shown_plainly(names: list[str]) -> None:
    renamed = dict(zip(("web", "app", "neighbour", "db"), names, strict=True))
    answer = diagnosis(names=renamed)
    answer = replace(answer, answer=(names[0], *answer.answer), notes=(names[1],), threshold_reason=names[2])
    shown = recording(names=renamed)
    out = io.StringIO()
    from tailrace.report.terminal import print_terminal

    print_terminal(answer, Screen(file=out, width=100), shown)
    assert_plain(out.getvalue())
    made = page.html(shown, answer)
    assert hidden(made) == []
    assert_page_is_ours(made)
    assert hidden(repr_html(answer)) == []
    assert Outline(repr_html(answer)).attributes <= {
        (tag, name) for tag in Outline(repr_html(answer)).tags for name in ("class", "style", "scope", "title")
    }
    trace = perfetto_trace_pb2.Trace.FromString(perfetto.trace(shown, answer))
    assert hidden("".join(strings(trace))) == []


def is_file_name(text: str) -> bool:
    try:
        return 0 < len(os.fsencode(text)) < 200 and not set(text) & {"\0", "/"}
    except UnicodeEncodeError:
        return False


@SLOW
@given(any_text.filter(is_file_name))
def test_file_names_and_words_of_the_command_line_are_shown_plainly(name: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        path = f"{scratch}/a{name}"
        Path(path).write_text("time,place,metric,value\n")
        for words in (
            ["info", path], ["diagnose", path], ["diagnose", f"{path}x"], ["read", path, "-o", path], ["run", path],
            ["diagnose", path, "--server", name], ["diagnose", path, "--window", name], ["diagnose", f"--{name}"],
            ["score", path], ["load", name], [name], ["reproduce", name, "--experiments", path], ["sweep", path],
            ["advise", path, "--software", name],
        ):  # fmt: skip
            code, out, error = printed(*words)
            assert code in (0, 2), error
            assert_plain(out)
            assert_plain(error)


@SLOW
@given(st.lists(texts, min_size=3, max_size=3))
def test_a_table_of_hostile_samples_is_read_and_shown_plainly(names: list[str]) -> None:
    place, metric, server = names
    with tempfile.TemporaryDirectory() as scratch:
        path = f"{scratch}/samples.parquet"
        frame = pl.DataFrame({"time": [T0 + i * 50_000_000 for i in range(40)], "value": [0.5] * 40})
        frame.with_columns(place=pl.lit(place), metric=pl.lit(metric)).write_parquet(path)
        code, out, error = printed("read", path, "-o", f"{scratch}/run", "--server", f"{server}=10.0.0.1:80")
        assert code in (0, 2), error
        assert_plain(out)
        assert_plain(error)
