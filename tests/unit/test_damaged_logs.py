"""What is lost of logs and traces with damage is counted once, and is said where nothing else is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from tailrace import readers
from tailrace.errors import InputError

LINE = (
    '10.0.0.9 - - [20/Nov/2026:16:49:{:02d} +0000] "GET {} HTTP/1.1" 200 5 msec={}.{:03d} rt=0.010 urt="{}" ua="{}"\n'
)


def line(number: int, path: str = "/x", took: str = "0.005", address: str = "10.0.0.3:80") -> str:
    return LINE.format(number % 60, path, 1_795_193_340 + number // 9, number % 9 * 100 + 1, took, address)


def test_a_line_longer_than_any_block_is_one_damaged_line(tmp_path: Path) -> None:
    lines = [line(number) for number in range(200)]
    lines.insert(100, line(100, path="/" + "y" * (10 << 20)))
    lines.insert(150, "no line of an access log\n")
    (tmp_path / "access.log").write_text("".join(lines))
    run = readers.read(f"web={tmp_path / 'access.log'}")
    assert run.lost() == {"access.log: damaged lines": 2}
    assert any("the first is line 101" in note for note in run.manifest.notes)
    assert run.requests().collect().height == 200


def test_lines_after_one_that_is_too_long_keep_their_numbers(tmp_path: Path) -> None:
    """A comment is no damage, however long it is."""
    lines = ["#" + "y" * (10 << 20) + "\n", *map(line, range(99)), "no line of an access log\n"]
    (tmp_path / "access.log").write_text(line(0) + "".join(lines))
    run = readers.read(f"web={tmp_path / 'access.log'}")
    assert run.lost() == {"access.log: damaged lines": 1}
    assert any("the first is line 102" in note for note in run.manifest.notes)


def test_calls_beyond_the_bound_are_counted(tmp_path: Path) -> None:
    many = [", ".join([text] * 20) for text in ("0.001", "10.0.0.3:80")]
    (tmp_path / "access.log").write_text("".join(map(line, range(60))) + line(60, "/x", *many))
    run = readers.read(f"web={tmp_path / 'access.log'}")
    assert run.lost() == {"access.log: calls of a request beyond its first 16": 4}
    assert run.visits().collect().height == 2 * 60 + 1 + 16


def test_a_last_line_that_was_cut_gives_no_number_that_lost_its_digits(tmp_path: Path) -> None:
    """Whatever its length, the last line gives the request that it was, or none."""
    lines = [line(number) for number in range(60)]
    rows = {}
    for length in range(len(lines[-1]) - 1, 0, -1):
        (tmp_path / "access.log").write_text("".join(lines[:-1]) + lines[-1][:length])
        run = readers.read(f"web={tmp_path / 'access.log'}")
        found = run.requests().collect()
        assert found.height == 59 + (not run.lost())
        rows[length] = set(found.select("sent", "end").rows())
    whole = rows[len(lines[-1]) - 1]
    assert len(whole) == 60
    assert all(found <= whole for found in rows.values())


def test_a_cut_line_is_counted(tmp_path: Path) -> None:
    (tmp_path / "samples.csv").write_text(
        "time,place,metric,value\n1795193340,web,cpu_busy,0.5\n1795193341,web,cpu_busy,0.9"
    )
    run = readers.read(tmp_path / "samples.csv")
    assert run.samples().collect()["value"].to_list() == [0.5]
    assert run.lost() == {"samples.csv: last lines that were cut off": 1}
    assert any("may have lost digits" in note for note in run.manifest.notes)


@pytest.mark.parametrize(
    "damage", ['{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"zz"}]}]}]}', '{"resourceSpans":5']
)
def test_traces_without_a_server_say_what_could_not_be_read(tmp_path: Path, damage: str) -> None:
    (tmp_path / "spans.jsonl").write_text('{"resourceSpans":[]}\n' + damage + "\n")
    with pytest.raises(InputError, match=r"no span of a server in it, and some of it could not be read \(.*: 1\)"):
        readers.read(tmp_path / "spans.jsonl", out=tmp_path / "run")
