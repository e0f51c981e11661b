"""diagnosis.json: its content, and its agreement with the schema."""

from __future__ import annotations

import json

import pytest

from schema import problems
from systems import NX1, NX3, SYNC, Memory, Slow, system
from tailrace.diagnosis import diagnose
from tailrace.diagnosis.serialise import VERSION, as_dict, schema, to_json
from tailrace.topology import Topology

STOPPED = Slow("app", 4.0, 4.6)


@pytest.mark.parametrize(
    "memory",
    [
        system(STOPPED).event("app", "gc", 4.0, 4.6),
        system(STOPPED),
        system(STOPPED, tiers=NX1),
        system(Slow("app", 4.0, 5.3), tiers=NX3).without("samples"),
        system(STOPPED).without("visits"),
        system(Slow("app", 4.0, 4.8, speed=0.1, cpu=0.1)).sample("near", "cpu_busy", 0.02, (4.0, 4.8, 0.9)),
        system(Slow("db", 4.0, 4.4), Slow("app", 4.4, 5.0), tiers=SYNC),
        system(),
        Memory(Topology()),
    ],
    ids=["gc", "freeze", "nx1", "no samples", "no visits", "neighbour", "two", "calm", "nothing"],
)
def test_a_diagnosis_fits_the_schema(memory: Memory) -> None:
    assert problems(json.loads(to_json(diagnose(memory)))) == []


def test_the_schema_notices_what_is_wrong() -> None:
    plain = as_dict(diagnose(system()))
    assert problems(plain) == []
    assert problems({**plain, "vlrt": "many"})
    assert problems({**plain, "explained": 1.5})
    assert problems({key: value for key, value in plain.items() if key != "summary"})
    assert problems({**plain, "surprise": 1})


def test_the_version_is_that_of_the_schema() -> None:
    assert schema()["properties"]["version"] == {"const": VERSION}


def test_columns_for_pictures_are_no_part_of_it() -> None:
    (episode,) = diagnose(system(STOPPED)).episodes
    assert episode.ledger is not None
    assert episode.ledger.servers[0].columns is not None
    assert "columns" not in to_json(diagnose(system(STOPPED)))


def test_equal_data_give_equal_bytes() -> None:
    memory = system(STOPPED)
    assert to_json(diagnose(memory)) == to_json(diagnose(memory))
