"""Real recordings, read and compared with what the load generator saw on its side of the wire."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tailrace import _core, readers
from tailrace.dataset import Dataset
from tailrace.units import SECOND

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent / "recordings"
FOLDERS = [ROOT / "demo", *sorted(path.parent for path in HERE.glob("*/client.csv"))]
APACHE = {"web": "10.77.0.3:80", "app": "10.77.0.4:8009", "db": "10.77.0.5:3306", "neighbour": "10.77.0.6:3306"}
NGINX = {**APACHE, "app": "10.77.0.4:8080"}
DROPPER = {"demo": "web", "sync-gc": "web", "sync-burst": "web", "nx1-neighbour": "app"}
# Requests at the two cuts of a recording are seen by one side only; at 1000/s and 5 ms these are few.
EDGE = 1.2 * SECOND
SLOW = 0.95 * SECOND

pytestmark = pytest.mark.skipif(not hasattr(_core, "decode"), reason="the engine here has no decoder")


@pytest.fixture(scope="module", params=FOLDERS, ids=lambda folder: folder.name)
def recording(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Dataset]:
    folder: Path = request.param
    servers = NGINX if folder.name.startswith("nx") else APACHE
    target = tmp_path_factory.mktemp(folder.name) / "run"
    files = (folder / "packets.pcap.zst", folder / "samples.csv", folder / "gc.log")
    return folder, readers.read(*files, servers=servers, out=target)


def client(folder: Path) -> pl.DataFrame:
    file = HERE / "demo-client.csv" if folder.name == "demo" else folder / "client.csv"
    return pl.read_csv(file).select(
        sent=(pl.col("sent") * SECOND).cast(pl.Int64), taken=(pl.col("response_time") * SECOND).cast(pl.Int64)
    )


def test_the_run_keeps_its_promises(recording: tuple[Path, Dataset]) -> None:
    recording[1].validate(checksums=True)


def test_requests_are_those_of_the_load_generator(recording: tuple[Path, Dataset]) -> None:
    folder, run = recording
    truth = client(folder)
    begin, end = int(truth["sent"].min()) + 10**7, int(truth["sent"].max()) - int(4 * EDGE)  # type: ignore[arg-type]
    seen = (
        run.requests().filter(pl.col("server") == "web").select("sent", taken=pl.col("end") - pl.col("sent")).collect()
    )
    inside = pl.col("sent").is_between(begin, end)
    expected, found = truth.filter(inside).height, seen.filter(inside).height
    assert found == pytest.approx(expected, abs=3)
    slow = pl.col("taken") > SLOW
    assert seen.filter(inside & slow).height == pytest.approx(truth.filter(inside & slow).height, abs=3)


def test_drops_are_attributed_to_the_server_that_dropped(recording: tuple[Path, Dataset]) -> None:
    folder, run = recording
    drops = run.events().filter(pl.col("kind") == "drop").select(pl.col("place").cast(pl.String)).collect()
    places = set(drops["place"])
    assert places == ({DROPPER[folder.name]} if folder.name in DROPPER else set())


def test_the_tiers_follow_from_the_calls(recording: tuple[Path, Dataset]) -> None:
    _, run = recording
    tiers = {server.name: server.tier for server in run.topology.servers}
    assert (tiers["web"], tiers["app"], tiers["db"]) == (1, 2, 3)
    assert "app" in run.topology.callees_of("web")
    assert "db" in run.topology.callees_of("app")


def test_the_jvms_log_is_taken_as_the_app_servers(recording: tuple[Path, Dataset]) -> None:
    places = recording[1].events().filter(pl.col("kind").is_in(["gc", "safepoint"])).select("place").collect()
    assert set(places["place"].cast(pl.String)) == {"app"}


def test_samples_are_all_there(recording: tuple[Path, Dataset]) -> None:
    folder, run = recording
    assert run.samples().select(pl.len()).collect().item() == pl.read_csv(folder / "samples.csv").height
