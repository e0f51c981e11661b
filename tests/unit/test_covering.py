"""Recordings judged by the stalls of their truth: those that cover a request's time may be reported for it."""

from __future__ import annotations

from pathlib import Path

from plans import made
from tailrace.diagnosis import diagnose
from tailrace.diagnosis.serialise import as_dict
from tailrace.score import covering, score
from tailrace.score.stalls import Stall
from tailrace.units import SECOND


def stall(cause: str, begin: float, end: float) -> Stall:
    times = (int(begin * SECOND), int(end * SECOND))
    return Stall(cause, frozenset({cause}), frozenset({"db"}), *times)


FREEZE, QUOTA = stall("freeze", 10, 11), stall("cpu-quota", 30, 31)


def test_a_lost_packet_is_covered_while_a_stall_lasts_and_twice_as_long_again() -> None:
    at = {9: "unknown", 10: "freeze", 13: "freeze", 14: "unknown", 31: "cpu-quota"}
    for sent, cause in at.items():
        lost = (sent * SECOND, (sent * SECOND,), (sent + 3) * SECOND)
        assert covering.credit([lost], (FREEZE, QUOTA)) == {cause: 1}


def test_of_a_request_that_lost_nothing_half_must_be_covered() -> None:
    for sent, end, cause in ((9, 12, "freeze"), (6, 11, "unknown"), (11, 14, "freeze"), (11, 17, "unknown")):
        assert covering.credit([(sent * SECOND, (), end * SECOND)], (FREEZE, QUOTA)) == {cause: 1}


def test_of_two_stalls_at_once_either_is_right() -> None:
    lost = (10 * SECOND, (10 * SECOND,), 12 * SECOND)
    assert covering.credit([lost], (FREEZE, stall("neighbour", 9, 12))) == {"freeze": 1, "neighbour": 1}


def test_a_recording_is_judged_by_the_truth_that_is_beside_it(tmp_path: Path) -> None:
    table = {
        "duration": "20 s",
        "ramp": "2 s",
        "tiers": {"web": {"workers": 30, "backlog": 20, "calls": ["db"]}, "db": {"workers": 60}},
        "interactions": {
            "page": {"at": {"web": {"compute": "0.5 ms", "calls": {"query": 1}}}},
            "query": {"at": {"db": {"compute": "1 ms"}}},
        },
        "workloads": {"users": {"kind": "poisson", "rate": 250, "interaction": "page"}},
        "stalls": [{"kind": "freeze", "place": "db", "at": "6 s", "for": "500 ms"}],
    }
    run = made(table, tmp_path / "run")
    told = as_dict(diagnose(run))
    [episode] = told["episodes"]
    begin = episode["begin"] / SECOND
    for source, at, right in (("freeze", begin, True), ("neighbour", begin, False), ("freeze", begin - 60, False)):
        truth = tmp_path / "truth.toml"
        truth.write_text(f'[[stall]]\nsource = "{source}"\nplace = "db"\nbegin = {at:.3f}\nlength = 0.5\n')
        found = score(run, told, truth)
        assert (found.right == found.vlrt, found.wrong == 0, found.causes_false == 0) == (right, right, right)
        assert found.right_dropper == found.vlrt > 50
        assert found.removable == (found.vlrt if at == begin else 0)
