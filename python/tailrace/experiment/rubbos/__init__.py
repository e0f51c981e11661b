"""RUBBoS as data: its walk between pages, and the work of a page in the tiers (README.md beside this file)."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from tailrace.experiment.interactions import Rubbos

LOGO = "logo"
LOGO_BYTES = 9_724
"""The image in every page."""
SESSION_MAX = 1000
HOME = "StoriesOfTheDay"
SEARCHES = ("SearchInStories", "SearchInComments", "SearchInUsers")
"""The pages of one servlet, Search, with one connection pool; every other page has a servlet of its own."""


@dataclass(frozen=True)
class Table:
    """A transition table. `rows[i][j]` leads from state i to state j; `back` and `end` are the other outcomes."""

    states: tuple[str, ...]
    rows: tuple[tuple[float, ...], ...]
    back: tuple[float, ...]
    end: tuple[float, ...]


WALKS = {
    "browse-only": ("browse_only", None),
    "browse-only-no-search": ("browse_only_no_search", None),
    "read-write": ("readwrite_user", "readwrite_author"),
    "read-write-no-search": ("readwrite_user_no_search", "readwrite_author"),
}
"""The tables of users and of authors; RUBBoS has no author table without search."""


@cache
def walk(name: str) -> tuple[Table, Table | None]:
    users, authors = WALKS[name]
    return _table(users), _table(authors) if authors else None


@cache
def states() -> dict[str, bool]:
    """The 24 interactions → whether the web tier alone serves it."""
    return {row["state"]: row["kind"] == "static" for row in _rows("states.csv") if row["kind"] != "control"}


@cache
def names() -> tuple[str, ...]:
    """Pages, queries and the logo."""
    return (*states(), *dict.fromkeys(row["query"] for row in _rows("queries.csv")), LOGO)


@cache
def asking() -> tuple[str, ...]:
    """Pages that make queries."""
    return tuple(dict.fromkeys(row["interaction"] for row in _rows("queries.csv")))


def dead_ends(content: Rubbos) -> dict[str, tuple[float, tuple[str, ...]]]:
    """Page → its share without links to these pages (empty: to any page); its client goes back (`UserSession`)."""
    story = (content.uncommented, ("ViewComment", "ModerateComment"))
    return {"ViewStory": story} | dict.fromkeys(SEARCHES, (content.unfound, ()))


def queries(rubbos: Rubbos) -> dict[str, dict[str, float]]:
    """Queries of every interaction that makes any, with their mean counts."""
    found: dict[str, dict[str, float]] = {}
    for row in _rows("queries.csv"):
        count = _count(row[rubbos.forms.get(row["interaction"], rubbos.form)], rubbos)
        if count > 0:
            found.setdefault(row["interaction"], {})[row["query"]] = count
    for name, total in rubbos.queries.items():
        made = found.get(name, {})
        found[name] = {query: count * total / sum(made.values()) for query, count in made.items()}
    return found


def interactions(rubbos: Rubbos) -> dict[str, dict[str, Any]]:
    """Every page, its queries and its logo, in the form of `[interactions.NAME]`.

    Every query has the same demand in the database (`average` 4.3: queries of heavy and light pages take similar
    times). The demand of a page in the application is one part for itself and one for each query. All are scaled so
    that the mean page of the browse-only walk has the demands of `[rubbos]`.
    """
    asked = queries(rubbos)
    totals = {state: sum(asked.get(state, {}).values()) for state in states()}
    mean = _mean(totals)
    # a static page has no part for itself
    steps = _mean({state: 0.0 if static else 1 + totals[state] for state, static in states().items()})
    tables: dict[str, dict[str, Any]] = {LOGO: _static(0, rubbos) | {"response": LOGO_BYTES}}
    for state, static in states().items():
        tables[state] = _static(rubbos.web, rubbos)
        if not static:
            app = round(rubbos.app * (1 + totals[state]) / steps)
            tables[state]["at"]["web"]["calls"] = {state: 1}
            tables[state]["at"]["app"] = {
                "compute": f"{app} ns",
                "scv": rubbos.scv,
                "before": rubbos.before,
                "calls": {query: {"count": count} for query, count in asked.get(state, {}).items()},
            }
            tables[state]["light"] = totals[state] <= mean
    for state in SEARCHES:
        tables[state]["servlet"] = "Search"
    for query in dict.fromkeys(row["query"] for row in _rows("queries.csv")):
        write = not query.startswith("SELECT")
        tables[query] = {
            "request": 100,
            "response": 1_000,
            "at": {
                "middleware": _work(rubbos.middleware / mean, rubbos) | {"calls": {query: {"count": 1, "all": write}}},
                "db": _work(rubbos.db / mean, rubbos),
            },
        }
    return tables


def _static(compute: float, rubbos: Rubbos) -> dict[str, Any]:
    return {"at": {"web": _work(compute, rubbos)}}


def _work(compute: float, rubbos: Rubbos) -> dict[str, Any]:
    return {"compute": f"{round(compute)} ns", "scv": rubbos.scv}


def _mean(values: Mapping[str, float]) -> float:
    """The mean over the pages of a browse-only walk."""
    shares = {row["state"]: float(row["browse_only"]) for row in _rows("shares.csv")}
    return sum(shares[state] * value for state, value in values.items()) / sum(shares.values())


def _count(terms: str, rubbos: Rubbos) -> float:
    """ "2+depth-1": numbers and keys of `[rubbos]`, added and subtracted."""
    total = 0.0
    for sign, term in re.findall(r"([+-]?)(\w+)", terms):
        value = float(term) if term.isdigit() else getattr(rubbos, term)
        total += -value if sign == "-" else value
    return max(total, 0.0)


@cache
def _table(name: str) -> Table:
    names = tuple(states())
    rows = {row["from_state"]: row for row in _rows(f"transitions_{name}.csv")}
    return Table(
        states=names,
        rows=tuple(tuple(float(rows[state][to]) for to in names) for state in names),
        back=tuple(float(rows[state]["Back"]) for state in names),
        end=tuple(float(rows[state]["EndOfSession"]) for state in names),
    )


@cache
def _rows(file: str) -> tuple[dict[str, str], ...]:
    text = resources.files(__package__).joinpath(file).read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines()))
