"""A stranger's run folder: names that lead elsewhere, special files, and tables that contradict the manifest."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from builders import T0, events, requests, run, samples, visits
from tailrace.dataset import Dataset
from tailrace.diagnosis import diagnose
from tailrace.errors import InputError
from tailrace.report import write_html

FILES = ("manifest.json", "topology.toml", "requests.parquet", "visits.parquet", "samples.parquet", "events.parquet")


def _link(path: Path) -> None:
    real = path.rename(path.parent.with_name(path.name))
    path.symlink_to(real)


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _socket(path: Path) -> None:
    path.unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(path))


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.fixture
def whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    tables = {"requests": requests({}), "visits": visits({}), "samples": samples({}), "events": events({})}
    return run(tmp_path / "run", **tables).path


@pytest.mark.parametrize("made", [_link, _pipe, _socket, _folder])
@pytest.mark.parametrize("name", FILES)
def test_a_special_file_is_refused_by_its_name(whole: Path, name: str, made: Callable[[Path], None]) -> None:
    made(whole / name)
    with pytest.raises(InputError, match=rf"run/{name}: it is a (symbolic link|named pipe|socket|folder), not a file"):
        _ = Dataset.open(whole).topology


def test_a_device_is_refused_by_its_name(whole: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("a device is made by mknod, which takes root")
    (whole / "topology.toml").unlink()
    try:
        os.mknod(whole / "topology.toml", 0o020666, os.makedev(1, 5))
    except OSError as error:
        pytest.skip(f"a device cannot be made here: {error}")
    with pytest.raises(InputError, match=r"topology\.toml: it is a device, not a file"):
        _ = Dataset.open(whole).topology


@pytest.mark.parametrize("name", ["manifest.json", "topology.toml"])
def test_a_text_without_end_is_refused(whole: Path, name: str) -> None:
    with (whole / name).open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(InputError, match=r"it has more than [\d,]+ bytes"):
        _ = Dataset.open(whole).topology


def test_a_table_that_the_manifest_counts_must_be_there(whole: Path) -> None:
    (whole / "visits.parquet").unlink()
    with pytest.raises(InputError, match=r"visits\.parquet: it is missing, but manifest\.json lists it with 1 rows"):
        Dataset.open(whole)


def test_rows_are_counted_when_a_folder_is_opened(whole: Path) -> None:
    visits({}, {}).write_parquet(whole / "visits.parquet")
    with pytest.raises(InputError, match=r"visits\.parquet: it has 2 rows where manifest\.json says 1"):
        Dataset.open(whole)


def test_checksums_stay_within_the_folder(whole: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "secret").write_text("secret")
    (whole / "raw").symlink_to(tmp_path / "elsewhere")
    manifest = json.loads((whole / "manifest.json").read_text())
    manifest["checksums"]["raw/secret"] = "0"
    (whole / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match="a symbolic link leads out of the folder"):
        Dataset.open(whole).validate(checksums=True)


NAMES = ["run[1]", "g*", "g?", "{a,b}", "a%20b", "100%", "~root", "k=v", "a b", "#1", "s3:", "näme", "-o", "new\nline"]


@pytest.mark.parametrize("name", NAMES)
def test_the_name_of_a_folder_is_a_name(tmp_path: Path, name: str) -> None:
    for other in ("run1", "ga", "gb", "a", "b"):
        run(tmp_path / other, visits=visits({"server": "other"}, {"server": "other"}))
    rows = {"sent": T0 + 5, "arrival": T0 + 5, "departure": T0 + 3_000_000_000}
    tables = {"visits": visits({}, rows), "requests": requests({}, {"sent": T0 + 5, "end": T0 + 3_000_000_000})}
    opened = run(tmp_path / name, **tables, samples=samples({}))
    assert opened.visits().select(pl.col("server").cast(pl.String).unique()).collect()["server"].to_list() == ["web"]
    write_html(opened, diagnose(opened), opened.path / "report.html")
    assert (tmp_path / name / "report.html").is_file()


def test_a_name_may_be_relative_and_need_not_be_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("~", "~nobody", os.fsdecode(b"r\xff\xfen")):
        opened = run(Path(name), visits=visits({}))
        assert opened.visits().collect().height == 1
        assert (tmp_path / name / "visits.parquet").is_file()
