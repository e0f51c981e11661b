"""Real recordings, explained, and compared with what was injected and what the load generator saw."""

from __future__ import annotations

import tomllib
from pathlib import Path

import polars as pl
import pytest

from recordings import recording
from schema import problems
from tailrace import _core, readers
from tailrace.dataset import Dataset
from tailrace.diagnosis import Diagnosis, diagnose
from tailrace.diagnosis.serialise import as_dict
from tailrace.units import MILLISECOND, SECOND

ROOT = Path(__file__).parents[2]
APACHE = {"web": "10.77.0.3:80", "app": "10.77.0.4:8009", "db": "10.77.0.5:3306", "neighbour": "10.77.0.6:3306"}
NGINX = {**APACHE, "app": "10.77.0.4:8080"}
CHAINS: dict[str, tuple[str | None, str, str, str] | None] = {
    "sync-control": None,
    "sync-neighbour": ("web", "app", "neighbour", "upstream"),
    "sync-gc": ("web", "app", "garbage-collection", "upstream"),
    "sync-burst": ("web", "app", "workload-burst", "upstream"),
    "nx1-neighbour": ("app", "app", "neighbour", "downstream"),
    "nx3-neighbour": (None, "app", "neighbour", "none"),
}
"""Dropper, origin, cause and kind of overflow of most VLRT requests; None where there are none to explain."""
BUNDLED = {"demo": "sync-neighbour", **{name: name for name in CHAINS if name != "sync-neighbour"}}

pytestmark = pytest.mark.skipif(not hasattr(_core, "decode"), reason="the engine here has no decoder")


def read(folder: Path, out: Path, *, named: bool = True, samples: bool = True) -> Dataset:
    servers = NGINX if folder.name.startswith("nx") else APACHE
    files = ["packets.pcap.zst", "gc.log", *(["samples.csv"] if samples else [])]
    return readers.read(*(folder / name for name in files), servers=servers if named else None, out=out)


def client_vlrt(folder: Path, threshold_ns: int) -> int:
    own = Path(__file__).parent / "recordings/demo-client.csv"
    taken = pl.read_csv(own if folder == ROOT / "demo" else folder / "client.csv")["response_time"] * SECOND
    return int((taken >= threshold_ns).sum())


def check(folder: Path, diagnosis: Diagnosis, name: str) -> None:
    assert problems(as_dict(diagnosis)) == []
    chain = CHAINS[name]
    if chain is None:
        assert diagnosis.vlrt == 0
        assert diagnosis.summary == ()
        return
    most = diagnosis.summary[0]
    assert (most.dropper, most.origin, most.cause, most.ctqo) == chain
    assert {row.cause for row in diagnosis.summary} == {chain[2]}
    assert diagnosis.explained == 1.0
    stalls = tomllib.loads((folder / "truth.toml").read_text()).get("stall", [])
    for episode in diagnosis.episodes if stalls else ():
        found = episode.findings[3]
        assert found.begin is not None
        assert found.end is not None
        begins = [round(s["begin"] * SECOND) for s in stalls]
        stall = stalls[min(range(len(stalls)), key=lambda i: abs(begins[i] - episode.begin))]
        # Stamps of the injection are good to 20 ms, and a queue shows a stall when it has grown by a few.
        assert abs(found.begin - round(stall["begin"] * SECOND)) < 80 * MILLISECOND
        assert found.end - found.begin == pytest.approx(stall["length"] * SECOND, abs=150 * MILLISECOND)


@pytest.mark.parametrize("name", BUNDLED)
def test_a_bundled_recording_is_explained(name: str, tmp_path: Path) -> None:
    folder = ROOT / "demo" if name == "demo" else Path(__file__).parent / "recordings" / name
    diagnosis = diagnose(read(folder, tmp_path / "run"))
    assert diagnosis.vlrt == pytest.approx(client_vlrt(folder, diagnosis.threshold_ns), abs=5)
    check(folder, diagnosis, BUNDLED[name])


@pytest.mark.parametrize("name", CHAINS)
def test_a_full_recording_is_explained(name: str, tmp_path: Path) -> None:
    folder = recording(name)
    diagnosis = diagnose(read(folder, tmp_path / "run"))
    assert diagnosis.vlrt == pytest.approx(client_vlrt(folder, diagnosis.threshold_ns), rel=0.02, abs=5)
    check(folder, diagnosis, name)


def test_without_names_and_samples_the_chain_reaches_the_third_step(tmp_path: Path) -> None:
    diagnosis = diagnose(read(ROOT / "demo", tmp_path / "run", named=False, samples=False))
    most = diagnosis.summary[0]
    assert (most.dropper, most.origin, most.ctqo) == ("10.77.0.3:80", "10.77.0.4:8009", "upstream")
    assert most.cause == "unknown"
    fourth = diagnosis.episodes[0].findings[3]
    assert fourth.verdict == "unknown"
    assert "cpu_busy" in (fourth.missing or "")
