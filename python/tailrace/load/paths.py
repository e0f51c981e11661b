"""The path of an interaction, with new values for each request.

`{story}`, `{user}` and the like are row numbers in the bulletin board's data; `{10..20}` is any range. A value that
occurs twice in a path is the same in both places: `nickname=user{user}&password=password{user}`.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import Any

from tailrace.bounds import LOAD_PATHS
from tailrace.errors import InputError, UsageError
from tailrace.toml import nearest
from tailrace.untrusted import read_text

Json = dict[str, Any]
Range = tuple[int, int]

SIZES: Mapping[str, int] = {
    "users": 500_000,
    "authors": 50,
    "stories": 1_000,
    "old_stories": 24_000,
    "comments": 6_000,
    "categories": 85,
}
"""Rows of the board's default data; users, authors and categories are RUBBoS's."""

# First letters of the words that begin titles, subjects and names.
_WORDS = [consonant + vowel for consonant in "BCDFGHKLMNPRSTV" for vowel in "aeiou"]
_VALUE = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d{1,9})\.\.(\d{1,9})")


def ranges(sizes: Mapping[str, int]) -> dict[str, Range]:
    """First and last number of each value. Raises UsageError for a size that is unknown or not above 0."""
    for name, size in sizes.items():
        if name not in SIZES:
            raise UsageError(f"--data {name}: there is no such size{nearest(name, SIZES)}")
        if not 0 < size < 2**31:
            raise UsageError(f"--data {name}={size}: must be above 0 and below 2³¹")
    rows = {**SIZES, **sizes}
    return {
        "new": (1, 1_000_000),  # "from the million above the known users" (RUBBoS's client)
        "user": (1, rows["users"]),
        "author": (1, rows["authors"]),
        # recent stories have the numbers after those in the archive
        "story": (rows["old_stories"] + 1, rows["old_stories"] + rows["stories"]),
        "comment": (1, rows["comments"]),
        "category": (1, rows["categories"]),
        "day": (2, 31),
        "word": (0, len(_WORDS) - 1),
    }


def read(path: Path | None) -> dict[str, str]:
    """Interaction → path, from a CSV of `interaction,path`; without a file, the board's."""
    return {**_rows(None), **(_rows(path) if path else {})}


@cache
def _rows(path: Path | None) -> dict[str, str]:
    if path is None:
        text = resources.files(__package__).joinpath("paths.csv").read_text(encoding="utf-8")
    else:
        text = read_text(path)
    try:
        rows = list(islice(csv.DictReader(text.splitlines()), LOAD_PATHS + 1))
    except csv.Error as error:
        raise InputError(path or "", f"not CSV ({error})", "see --help") from error
    if len(rows) > LOAD_PATHS:
        raise InputError(path or "", f"more than {LOAD_PATHS:,} paths", "give fewer, with values such as {1..100}")
    found = {}
    for number, row in enumerate(rows):
        name, pattern = row.get("interaction"), row.get("path")
        if not name or not pattern or not pattern.startswith("/"):
            raise InputError(path or "", "expected a name and a path that begins with /", "see --help", row=number)
        found[name] = pattern
    return found


def class_of(name: str, pattern: str, known: Mapping[str, Range]) -> Json:
    """The class of an interaction in the engine's plan (`crates/core/src/load/plan.rs`)."""
    if bad := re.search(r"[^\x21-\x7e]", pattern):
        raise UsageError(f"the path of {name} has {bad[0]!r}", advice="percent-encode everything but plain ASCII")
    draws: dict[str, Range] = {}
    pieces: list[Json] = []
    for number, text in enumerate(_VALUE.split(pattern)):
        if number % 2 == 0:
            pieces += [{"text": text}] if text else []
            continue
        draws[text] = _range(name, text, known)
        draw = list(draws).index(text)
        pieces.append({"one_of": [draw, _WORDS]} if text == "word" else {"number": draw})
    return {"name": name, "draws": list(draws.values()), "path": pieces}


def _range(interaction: str, value: str, known: Mapping[str, Range]) -> Range:
    if value in known:
        return known[value]
    match = _RANGE.fullmatch(value)
    if match and int(match[1]) <= int(match[2]):
        return int(match[1]), int(match[2])
    raise UsageError(
        f"the path of {interaction} has {{{value}}}",
        advice=f"it can have {', '.join(f'{{{name}}}' for name in known)}, or a range such as {{1..100}}",
    )
