"""Files that were made to break a reader: they end in an answer, or in one sentence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from doors import GOLDEN, told
from tailrace import readers
from tailrace.readers import gob

HALF = re.compile(
    r'("(?:reason|name|host|@host|javaName|osName|url|method|RequestPath|RequestMethod|path|stringValue)"\s*:\s*")'
)


@pytest.mark.parametrize(
    "name",
    [
        *("kubernetes/events.json", "kubernetes/pods.json", "jfr/recorded.json", "pcp/recorded.json"),
        *("atop/recorded.json", "loadtest/vegeta.json", "accesslog/traefik.json.log", "accesslog/envoy.json.log"),
        *("otlpmetrics/metrics.jsonl", "traces/otlp.jsonl", "traces/zipkin.json"),
    ],
)
def test_half_a_character_in_json_becomes_a_question_mark(name: str, tmp_path: Path) -> None:
    """JSON may have escapes that are no text (`\\ud800`), which no table can hold."""
    text, count = HALF.subn(r"\1\\ud800", (GOLDEN / "readers" / name).read_text())
    assert count
    (tmp_path / Path(name).name).write_text(text)
    assert told("diagnose", tmp_path / Path(name).name, "-o", tmp_path / "run", "--quiet") == 0


def test_an_event_that_ends_beyond_the_bounds_of_time_is_left_out(tmp_path: Path) -> None:
    event = (
        '{{"type": "jdk.SocketRead", "values": {{"startTime": "{}", "duration": "{}", "host": "db", "port": 5432}}}}'
    )
    kept, beyond = event.format("2026-11-20T16:49:00Z", "PT1S"), event.format("2199-11-20T16:49:00Z", "PT999999H")
    (tmp_path / "recorded.json").write_text(f'{{"recording": {{"events": [{kept}, {beyond}]}}}}')
    run = readers.read(tmp_path / "recorded.json")
    assert run.events().collect().height == 1
    assert "events without a usable time" in str(run.manifest.lost)


def _unsigned(number: int) -> bytes:
    content = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return content if number < 128 else bytes([256 - len(content)]) + content


def _described(type_id: int, fields: int) -> bytes:
    """A message of gob that describes a struct with so many fields."""
    negative = _unsigned((type_id - 1) << 1 | 1)
    content = negative + b"\3\1\2\0\0\1" + _unsigned(fields) + b"\0" * fields + b"\0\0"
    return _unsigned(len(content)) + content


@pytest.mark.parametrize("type_id", [1, 16, 20, 23, 63])
def test_a_gob_that_describes_the_types_of_gob_itself_is_damaged(type_id: int) -> None:
    with pytest.raises(gob.DamagedError, match=f"a type with the number {type_id}"):
        list(gob.structs(iter([_described(type_id, 1)])))


def test_a_gob_with_types_of_a_million_fields_is_damaged() -> None:
    assert list(gob.structs(iter([_described(65, 2)]))) == []
    with pytest.raises(gob.DamagedError, match="900,000 fields"):
        list(gob.structs(iter([_described(65, 900_000)])))


def test_the_time_of_a_cpu_counts_once_where_stamps_go_back(tmp_path: Path) -> None:
    """Else each line that goes back a minute takes as long as a thousand others, and a CPU is busy twice."""
    line = "app 7 [000] {}: sched:sched_switch: prev_comm=app prev_pid=7 ==> next_comm=db next_pid=8 next_prio=120\n"
    once, often = tmp_path / "once.txt", tmp_path / "often.txt"
    once.write_text(line.format("68000.000000") + line.format("68001.000000"))
    often.write_text((line.format("68000.000000") + line.format("68001.000000")) * 50)
    tables = [readers.read(path).samples().collect() for path in (once, often)]
    assert tables[0].height
    assert tables[0].equals(tables[1])
