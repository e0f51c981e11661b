"""Files that were made to break a reader: they end in an answer, or in one sentence."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from doors import GOLDEN, told
from tailrace import readers
from tailrace.bounds import MIB, OTLP_MESSAGE
from tailrace.readers import elements, frames, gob, otlpmetrics, packed
from tailrace.readers.source import Found, Source

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

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


def _framed(message: bytes, times: int) -> bytes:
    return (len(message).to_bytes(4, "big") + message) * times


@pytest.mark.parametrize(("mib", "damage"), [(20, 0), (64, 0), (65, 0), (20, 1), (60, 1)])
def test_messages_of_metrics_expand_within_the_bound_of_all_together(mib: int, damage: int, tmp_path: Path) -> None:
    """Also those that are damaged, or too large."""
    message = zstd.compress(b" " * (mib * MIB))
    (tmp_path / "bomb").write_bytes(_framed(message[: len(message) - damage], 50))
    source, found = Source(tmp_path / "bomb"), Found()
    unpacked = sum(map(len, frames.messages(source, found)))
    read = unpacked + found.lost.get("damaged elements", 0) * min(mib * MIB, OTLP_MESSAGE)
    assert not packed.too_large(read - OTLP_MESSAGE - mib * MIB, source.size())
    assert any("128 times" in note for note in found.notes)


def test_a_packed_file_of_packed_messages_is_bounded_by_its_own_size(tmp_path: Path) -> None:
    message = zstd.compress(b" " * (100 << 10))
    plain, twice = tmp_path / "plain", tmp_path / "packed.zst"
    plain.write_bytes(_framed(message + b"\x50\x2a\x4d\x18\xf8\x07\0\0" + b"\0" * 2040, 4000))
    twice.write_bytes(zstd.compress(plain.read_bytes()))
    for path, whole in ((plain, True), (twice, False)):
        found = Found()
        assert (len(list(frames.messages(Source(path), found))) == 4000) == whole
        assert bool(found.notes) != whole


def test_a_long_message_of_json_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "long").write_bytes(_framed(b'{"resourceMetrics": [' + b"[]," * (6 * MIB) + b"0]}", 1))
    found = Found()
    assert list(otlpmetrics._points(Source(tmp_path / "long"), found)) == []
    assert found.lost == {"damaged elements": 1}


@pytest.mark.parametrize("end", ["", "x", '"', '"\x01'])
def test_damaged_elements_inside_each_other_are_not_parsed_again_and_again(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elements, "JSON_ELEMENT", 16 << 10)
    monkeypatch.setattr(elements, "JSON_IN_VAIN", 128 << 10)
    begun, filler = '{"resourceMetrics":[', "[]," * 4000
    (tmp_path / "nested").write_text(begun * 500 + filler + end)
    found = Found()
    assert list(elements.elements(Source(tmp_path / "nested"), found, re.compile(r'\{"resourceMetrics":'))) == []
    assert found.lost["damaged elements"] <= 2 + (128 << 10) // len(filler)
    assert any("inside each other" in note for note in found.notes)


def test_damage_here_and_there_does_not_end_a_long_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elements, "JSON_IN_VAIN", 1 << 10)
    whole = json.dumps({"resourceMetrics": ["x" * 400]})
    (tmp_path / "long").write_text("\n".join(whole[:-1] if number % 3 == 0 else whole for number in range(300)))
    found = Found()
    assert len(list(elements.elements(Source(tmp_path / "long"), found, re.compile(r'\{"resourceMetrics":')))) == 200
    assert found.lost == {"damaged elements": 100}


@pytest.mark.parametrize("of", ["jaeger", "zipkin"])
def test_a_span_that_ends_beyond_all_time_is_left_out(of: str, tmp_path: Path) -> None:
    file = (GOLDEN / "readers" / "traces" / f"{of}.json").read_text()
    far = re.sub(r'("(?:startTime|timestamp|duration)"\s*:\s*)\d+', r"\g<1>9223372036854775", file)
    (tmp_path / "far.json").write_text(far)
    assert told("diagnose", tmp_path / "far.json", "-o", tmp_path / "run", "--quiet") in (0, 2)
