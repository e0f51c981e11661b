"""Rules that name interactions: from the user's file to the column `interaction`."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from tailrace import readers
from tailrace.cli.commands import app
from tailrace.dataset import Dataset
from tailrace.errors import InputError, TailraceError, UsageError
from tailrace.readers.interactions import rules

ROOT = Path(__file__).parents[2]
HTTP, MYSQL = (ROOT / "tests/golden/captures" / name for name in ("http.pcap", "mysql.pcap"))


def example() -> str:
    """The rules that the reference shows."""
    text = (ROOT / "docs/reference/readers.md").read_text()
    return text.split("```toml\n")[1].split("```")[0]


def named(run: Dataset) -> Counter[str]:
    return Counter(run.visits().select(pl.col("interaction").cast(pl.String)).collect().to_series().drop_nulls())


def test_the_documented_rules_name_the_visits(tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text(example())
    plain = named(readers.read(HTTP, MYSQL))
    ruled = named(readers.read(HTTP, MYSQL, interactions=tmp_path / "rules.toml"))
    pages = sum(n for name, n in plain.items() if re.fullmatch(r"(GET|HEAD) /.*\.html", name))
    assert pages >= 5
    assert ruled["page small"] + ruled["page {}"] + ruled["page 3000"] == pages
    assert ruled["read a story"] >= 4
    assert plain["SELECT stories"] == ruled["SELECT stories"] + ruled["read a story"]
    untouched = {name for name in plain if ".html" not in name and name != "SELECT stories"}
    assert {name: plain[name] for name in untouched} == {name: ruled[name] for name in untouched}


def test_the_command_line_takes_the_rules(tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text(example())
    out = ["-o", str(tmp_path / "run"), "--interactions", str(tmp_path / "rules.toml"), "--quiet"]
    done = CliRunner().invoke(app, ["read", str(HTTP), *out])
    assert done.exit_code == 0
    assert named(Dataset.open(tmp_path / "run"))["page small"] > 0


def test_rules_are_kept_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text(
        "[[interactions]]\nmatch = 'b'\nname = 'first'\n[[interactions]]\nmatch = 'a'\nname = 'second'\n"
    )
    assert [rule["name"] for rule in rules(tmp_path / "rules.toml")] == ["first", "second"]
    assert rules({"b": "first", "a": "second"}) == rules(tmp_path / "rules.toml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[interactions]", "not TOML"),
        ("", "got no [[interactions]]"),
        ("interactions = 3", "got no [[interactions]]"),
        ("'^GET' = 'x'", "it must hold [[interactions]] and nothing else, got ^GET"),
        ("[[interactions]]\nmatch = 'x'", "interactions[0]: must have the keys match and name"),
        ("[[interactions]]\nmatch = 'x'\nname = 3", "interactions[0]: match and name must be text"),
    ],
)
def test_an_error_in_the_rules_names_file_and_key(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "rules.toml").write_text(text)
    with pytest.raises(InputError) as caught:
        rules(tmp_path / "rules.toml")
    assert "rules.toml: " in str(caught.value)
    assert words in str(caught.value)


def test_an_invalid_expression_is_reported_and_leaves_no_files(tmp_path: Path) -> None:
    with pytest.raises(TailraceError, match="unclosed group"):
        readers.read(HTTP, interactions={"^(GET": "x"}, out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_rules_without_a_capture_are_wrong_use(tmp_path: Path) -> None:
    (tmp_path / "samples.csv").write_text("time,place,metric,value\n1795193376.27,web,cpu_busy,0.1\n")
    with pytest.raises(UsageError, match="there is no capture"):
        readers.read(tmp_path / "samples.csv", interactions={"GET": "x"})
