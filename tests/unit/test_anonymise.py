"""Anonymised runs: they contain nothing of the original, and their diagnosis is the same."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import builders
import tailrace as tr
from builders import T0
from tailrace import dataset, sim
from tailrace.anonymise import Anonymised, anonymise, key_of, vocabulary
from tailrace.cli.commands import app
from tailrace.dataset import Connections, Dataset
from tailrace.dataset.reading import LEFT_OUT
from tailrace.diagnosis.serialise import as_dict
from tailrace.errors import InputError, UsageError
from tailrace.experiment import from_table
from tailrace.readers import capture, recording
from tailrace.score.graphs import draw
from tailrace.topology import Balancer, Call, Clock, Node, Pool, Server, Topology

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "python" / "tailrace" / "demo"
RECORDING = ROOT / "tests" / "golden" / "recordings" / "sync-gc"
KEY = bytes(range(32))


def spoken(run: Dataset) -> set[str]:
    """Every text of a run that may come from outside of Tailrace, from four characters on."""
    texts: set[str] = set()
    for table in dataset.TABLES.values():
        frame = getattr(run, table.name)()
        for name, kind in frame.collect_schema().items():
            if kind in (pl.Categorical, pl.String):
                texts |= set(frame.select(pl.col(name).cast(pl.String).drop_nulls().unique()).collect()[name])
    known = run.topology
    texts |= {text for server in known.servers for text in (server.name, server.address) if text}
    texts |= {text for node in known.nodes for text in (node.name, node.address, node.host) if text}
    texts |= {clock.capture for clock in known.clocks} | set(known.places) | {pool.name for pool in known.pools}
    texts |= {*run.manifest.notes, *run.manifest.lost}
    ours = vocabulary.METRICS | vocabulary.KINDS | vocabulary.PLACES | vocabulary.INTERACTIONS | {"client", "SELECT"}
    words = (vocabulary.STATUS, vocabulary.CLIENT)
    return {text for text in texts - ours if len(text) > 3 and not any(word.fullmatch(text) for word in words)}


def bytes_of(folder: Path) -> Iterable[bytes]:
    """Every file as it is, and every table with nothing compressed, as text."""
    for path in folder.rglob("*"):
        if path.is_file():
            yield path.read_bytes()
            if path.suffix == ".parquet":
                yield pl.read_parquet(path).write_ndjson().encode()


def renamed_back(value: Any, names: Mapping[str, str], shift: int) -> str:
    """A diagnosis in the words of the original, without what says when something was."""
    text = json.dumps(without_times(value), ensure_ascii=False)
    for original, token in sorted(names.items(), key=lambda item: -len(item[1])):
        text = text.replace(token, original)
    return text


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_times(item) for item in value]
    return "a moment" if isinstance(value, int) and value > 10**17 else value


def read_demo(out: Path) -> Dataset:
    files = (str(DEMO / name) for name in ("packets.pcap.zst", "samples.csv", "gc.log"))
    servers = {"web": "10.77.0.3:80", "app": "10.77.0.4:8009"}
    return tr.read(*files, out=out, servers=servers)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Dataset, Anonymised]:
    folder = tmp_path_factory.mktemp("demo")
    run = read_demo(folder / "run")
    return run, anonymise(run, folder / "public", key=KEY)


def test_nothing_of_the_original_is_in_any_byte(demo: tuple[Dataset, Anonymised]) -> None:
    run, public = demo
    secrets = spoken(run)
    assert {"10.77.0.3:80", "10.77.0.3"} <= secrets
    for content in bytes_of(public.run.path):
        found = [text for text in secrets if text.encode() in content]
        assert not found, found[:5]
    public.run.validate(checksums=True)


def test_the_diagnosis_is_the_same(demo: tuple[Dataset, Anonymised]) -> None:
    run, public = demo
    assert_same(run, public)


def assert_same(run: Dataset, public: Anonymised) -> None:
    before, after = as_dict(tr.diagnose(run)), as_dict(tr.diagnose(public.run))
    for episode in before["episodes"]:
        for finding in episode["findings"]:
            finding["inputs"] = []  # The names of the files from which a run was made are not published.
    assert json.dumps(without_times(before), ensure_ascii=False) == renamed_back(after, public.names, public.shift_ns)


@pytest.mark.parametrize("seed", [2, 4])
def test_a_simulated_graph_is_diagnosed_the_same(tmp_path: Path, seed: int) -> None:
    sim.simulate(from_table(draw(seed)), tmp_path / "run")
    run = Dataset.open(tmp_path / "run")
    public = anonymise(run, tmp_path / "public", key=KEY)
    assert_same(run, public)
    assert not (tmp_path / "public" / "truth.toml").exists()
    assert len(public.run.topology.calls) == len(run.topology.calls) > 2


def test_a_recording_is_diagnosed_the_same(tmp_path: Path) -> None:
    files = (str(p) for p in sorted(RECORDING.iterdir()) if p.name in ("packets.pcap.zst", "samples.csv", "gc.log"))
    run = tr.read(*files, out=tmp_path / "run")
    assert_same(run, anonymise(run, tmp_path / "public", key=KEY))


def hostile(folder: Path) -> Dataset:
    """A run in which everything that a text can stand in holds a secret."""
    server = "SECRETserver"
    visit = {"server": server, "interaction": "GET /SECRET/x", "caller": "203.0.113.77", "status": "SECRETstatus"}
    visits = [visit, {**visit, "interaction": "SELECT SECRETtable"}, {**visit, "interaction": "SECRET word"}]
    asked = {"server": server, "interaction": "SELECT", "status": "error-SECRE"}
    places = [{"place": place} for place in ("SECRET:80", "process SECRET", "SECRET/cpu0", "203.0.113.78", server)]
    with dataset.create(folder) as writer:
        writer.maker = "SECRET maker"
        writer.write_table("visits", builders.visits(*visits).with_columns(extra=pl.lit("SECRET extra")))
        writer.write_table("requests", builders.requests(asked).with_columns(intended=pl.lit(T0, pl.Int64)))
        writer.write_table("samples", builders.samples(*places, {"metric": "SECRET", "place": "host"}))
        writer.write_table("events", builders.events({"place": server, "kind": "SECRET", "detail": "SECRET detail"}))
        writer.lose("SECRET.pcap: bytes that could not be read", 2)
        writer.lose("SECRET", 3)
        writer.notes.append("SECRET note")
        writer.clocks = (Clock(capture="SECRET.pcap", offset_ns=5),)
        writer.topology = Topology(
            nodes=(Node(name="SECRETnode", address="203.0.113.79", host="SECREThost"),),
            servers=(
                Server(name=server, address="203.0.113.79:80", node="SECRETnode", protocol="SECRET", software="SECRET"),
                Server(name="SECREThttp", software="nginx"),
            ),
            pools=(Pool(name="SECRETpool", caller=server, callee=server, size=1, interactions=("SECRETpage",)),),
            balancers=(Balancer(name="SECRETlb", server=server, candidates=(server,), policy="SECRET"),),
            calls=(Call(caller=server, callee=server),),
            places={"SECRETplace": server},
            cpus={"SECRETcpu": (1,)},
        )
        apart = {"state": "SECRET", "attempts": 1, "senders": 1, "endpoints": 1, "begin": T0, "end": T0}
        apart["to"] = {"203.0.113.80:22": 1}
        writer.connections = Connections.from_table({"servers": {server: {"attempts": 1}}, "apart": [apart]})
    (folder / "report.html").write_text("SECRET")
    return Dataset.open(folder)


def test_no_original_text_is_left_in_any_place(tmp_path: Path) -> None:
    run = hostile(tmp_path / "run")
    public = anonymise(run, tmp_path / "public")
    for content in bytes_of(public.run.path):
        assert b"SECRE" not in content
        assert b"203.0.113" not in content
        assert str(T0 // 10**12).encode() not in content
    lost = public.run.manifest.lost
    assert sorted(lost.values()) == [2, 3]
    assert any(what.endswith(": bytes that could not be read") for what in lost)
    assert "intended" in public.run.requests().collect_schema()
    assert "extra" not in public.run.visits().collect_schema()


def test_a_text_is_the_same_wherever_it_stands(tmp_path: Path) -> None:
    run = hostile(tmp_path / "run")
    public = anonymise(run, tmp_path / "public", key=KEY).run
    server = public.topology.servers[0]
    texts = public.samples().select(pl.col("place").cast(pl.String)).collect()["place"].to_list()
    assert server.name.startswith("server-")
    assert server.name == texts[4] == public.topology.places[next(iter(public.topology.places))]
    assert public.topology.place_to_server(texts[4]) == server
    assert str(server.address).endswith(":80")
    assert server.software == server.protocol != "SECRET"
    assert public.topology.servers[1].software == "nginx"
    assert public.topology.node_of(server.name) is not None


def test_runs_match_under_one_key_and_differ_without(tmp_path: Path) -> None:
    run = hostile(tmp_path / "run")
    one, same = (anonymise(run, tmp_path / name, key=KEY) for name in ("one", "same"))
    other = anonymise(run, tmp_path / "other")
    assert (one.names, one.shift_ns) == (same.names, same.shift_ns)
    assert not set(one.names.values()) & set(other.names.values())


def test_a_key_has_enough_bytes(tmp_path: Path) -> None:
    file = tmp_path / "our.key"
    file.write_bytes(b"short")
    with pytest.raises(InputError, match="16 bytes"):
        key_of(file)
    file.write_bytes(bytes(17))
    assert len(key_of(file)) == 64


def test_it_does_not_replace_the_run_itself(tmp_path: Path) -> None:
    run = hostile(tmp_path / "run")
    with pytest.raises(UsageError, match="itself"):
        anonymise(run, tmp_path / "run", overwrite=True)
    with pytest.raises(UsageError, match="exists"):
        (tmp_path / "out").mkdir()
        anonymise(run, tmp_path / "out")


def test_what_makers_lose_is_told_in_their_words() -> None:
    decoding = (ROOT / "crates" / "core" / "src" / "host" / "packets" / "decoding.rs").read_text()
    said = {LEFT_OUT, *re.findall(r'const DIED: &str = "(.+)";', decoding)}
    assert len(said) == 2
    said |= {*capture._FILE_LOSSES.values(), *capture._COUNT_LOSSES.values(), recording.OPEN_SEGMENT}
    for maker in ("readers", "load", "sim", "testbed"):
        for source in (ROOT / "python" / "tailrace" / maker).rglob("*.py"):
            said |= set(re.findall(r'\.lose\("([^"{}]+)"', source.read_text()))
    assert len(said) > 20
    unknown = [sentence for sentence in said if not vocabulary.LOSSES.fullmatch(sentence)]
    assert not unknown, "add them to LOSSES in python/tailrace/anonymise/vocabulary.py"


def test_two_ways_to_write_an_address_stay_two_servers(tmp_path: Path) -> None:
    names = ("10.0.0.3:80", "[10.0.0.3]:80", "10.0.0.3", "web:80", "web", "[web]:80", "", "process web", "web/cpu0")
    with dataset.create(tmp_path / "run") as writer:
        servers = (Server(name=name, address="[10.0.0.3]:80" if name == "web" else None) for name in names if name)
        writer.topology = Topology(servers=tuple(servers))
        writer.write_table("visits", builders.visits(*({"server": name} for name in names)))
    public = anonymise(Dataset.open(tmp_path / "run"), tmp_path / "public")
    renamed = {server.name for server in public.run.topology.servers}
    assert len(renamed) == len(names) - 1
    assert public.run.visits().select(pl.col("server").cast(pl.String).n_unique()).collect().item() == len(names)


def test_what_is_unknown_and_what_is_empty_stays_so(tmp_path: Path) -> None:
    visits = builders.visits({"caller": None, "interaction": None}, {"caller": "lb", "interaction": None})
    run = builders.run(tmp_path / "run", visits=visits, samples=builders.samples({}).clear())
    public = anonymise(run, tmp_path / "public").run
    callers = public.visits().select(pl.col("caller").is_null()).collect()["caller"]
    assert sorted(callers) == [False, True]
    assert public.manifest.rows == {"visits": 2, "samples": 0}


def test_a_damaged_table_is_told_as_such(tmp_path: Path) -> None:
    visits = builders.visits(*({"visit": i + 1, "bytes_in": i * 7919 % 1000} for i in range(5000)))
    run = builders.run(tmp_path / "run", visits=visits)
    table = run.path / "visits.parquet"
    content = bytearray(table.read_bytes())
    content[200:-2000] = bytes(len(content[200:-2000]))
    table.write_bytes(content)
    with pytest.raises(InputError, match=r"visits\.parquet"):
        anonymise(Dataset.open(tmp_path / "run"), tmp_path / "public")
    assert not (tmp_path / "public").exists()


def test_the_command_says_what_stands_for_which_server(tmp_path: Path) -> None:
    hostile(tmp_path / "run")
    (tmp_path / "our.key").write_bytes(KEY)
    words = ["anonymise", str(tmp_path / "run"), "-o", str(tmp_path / "out"), "--key", str(tmp_path / "our.key")]
    said = CliRunner().invoke(app, words)
    assert said.exit_code == 0, said.output
    run = Dataset.open(tmp_path / "out")
    assert f"{run.topology.servers[0].name} is SECRETserver" in said.stdout
    told = json.loads(CliRunner().invoke(app, [*words, "--overwrite", "--json"]).stdout)
    assert told["names"]["SECRETserver"] == run.topology.servers[0].name
