"""The folders of the papers' experiments: `experiments/<paper>/<figure-N|table-N|remedy-NAME>/`, each with an
expected.toml."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tailrace.errors import UsageError
from tailrace.reproduce import expected
from tailrace.toml import nearest

README = "README.md"


@dataclass(frozen=True)
class Entry:
    paper: str
    name: str
    """Name of the folder: figure-1, table-I; base, which has no figure of its own."""
    folder: Path

    @property
    def title(self) -> str:
        kind, _, number = self.name.partition("-")
        return f"{kind.capitalize()} {number}".strip()

    @property
    def anchor(self) -> str:
        """Its anchor on a page."""
        return f"{self.paper}-{self.name}"

    def read(self) -> expected.Expected:
        return expected.read(self.folder)

    def readme(self) -> str:
        file = self.folder / README
        return file.read_text(encoding="utf-8") if file.is_file() else ""


def entries(folder: Path) -> list[Entry]:
    """Every figure and table, by paper, figures before tables, in the order of their numbers."""
    if not folder.is_dir():
        raise UsageError(
            f"there is no folder {folder}", advice="run this in the project's folder, or pass --experiments FOLDER"
        )
    found = [
        Entry(file.parent.parent.name, file.parent.name, file.parent) for file in folder.glob(f"*/*/{expected.FILE}")
    ]
    return sorted(found, key=lambda entry: (entry.paper, _order(entry.name)))


def find(folder: Path, paper: str, name: str | None = None) -> list[Entry]:
    """One figure or table ("figure-1", "figure 1", or "1" if unique), several with commas, or all of a paper."""
    all_of = entries(folder)
    of_paper = [entry for entry in all_of if entry.paper == paper]
    if not of_paper:
        papers = sorted({entry.paper for entry in all_of})
        advice = f"there: {', '.join(papers) or 'none'}{nearest(paper, papers)}"
        raise UsageError(f"no experiments of a paper {paper!r} in {folder}", advice=advice)
    if name is None:
        return of_paper
    return list(dict.fromkeys(_one(of_paper, paper, part) for part in name.split(",")))


def _one(of_paper: list[Entry], paper: str, name: str) -> Entry:
    wanted = re.sub(r"[\s.]+", "-", name.strip().lower()).replace("fig-", "figure-")
    found = [entry for entry in of_paper if wanted in (entry.name.lower(), entry.name.lower().partition("-")[2])]
    if len(found) != 1:
        names = ", ".join(entry.name for entry in of_paper)
        raise UsageError(f"{paper} has {'several' if found else 'no'} {name!r}", advice=f"there: {names}")
    return found[0]


def _order(name: str) -> tuple[str, int, str]:
    kind, _, number = name.partition("-")
    first = re.match(r"\d+", number)
    return kind, int(first[0]) if first else 0, number
