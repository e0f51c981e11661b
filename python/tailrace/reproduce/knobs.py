"""`base/knobs.toml`: the numbers of a paper's experiment files, those that the paper gives and those that it does not.

Values are read from the experiment files, so that they cannot differ from what is run. A number that is neither a knob
nor given is an error. The key of a number in a list of tables names no place in the list: `stalls[].at` means the
moments of all `[[stalls]]`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from tailrace import toml
from tailrace.errors import InputError
from tailrace.reproduce import expected, scaled
from tailrace.reproduce.expected import GUIDE
from tailrace.reproduce.panels import Names
from tailrace.toml import Name, Table

FILE = "base/knobs.toml"
EACH = "[]"
"""In a key: each table of a list."""
CALIBRATION = "base/calibration.toml"
"""This file says what `tailrace calibrate` fits to which figures."""
NUMBER = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)( ?[A-Za-z/%µ]*)", re.ASCII)
"""A text that is a number with its unit, which may be empty."""
BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
"""A name that needs no quotes in a key of TOML."""


class Knob(Table):
    key: Names = Field(min_length=1)
    """As in `--set`: rubbos.db. Several keys may have one reason."""
    file: Name | None = None
    """The experiment file, relative to the paper's folder. Default: every file that sets the key."""
    kind: Literal["calibrated", "chosen", "measured"]
    """calibrated: fitted to numbers of the paper. chosen: set without a number of the paper. measured: taken from other
    measurements."""
    source: Name = Field(alias="from")
    """Where it comes from."""
    view: Names = ()
    """The figures and tables whose numbers were in view when it was chosen."""


class Knobs(Table):
    knobs: tuple[Knob, ...] = ()
    given: Mapping[Name, Name] = Field(default_factory=dict)
    """Numbers that the paper gives: key → where."""


@dataclass(frozen=True)
class Number:
    """A number of an experiment file that the paper does not give."""

    key: str
    value: str
    file: str
    knob: Knob

    @property
    def place(self) -> tuple[str, str]:
        return self.file, self.key

    @property
    def settable(self) -> bool:
        """Whether `--set` can change it; of a list it can only change the whole."""
        return EACH not in self.key


def read(paper: Path) -> tuple[Number, ...]:
    """All of a paper, in the order of knobs.toml; none if there is no such file. Raises InputError."""
    file = paper / FILE
    if not file.is_file():
        return ()
    known = toml.check(Knobs, toml.read(file, GUIDE), file)
    leaves = list(_leaves_of(paper))
    found = [
        Number(key, _shown(value), where, knob)
        for knob in known.knobs
        for where, key, value in leaves
        if key in knob.key and knob.file in (None, where)
    ]
    problem = next(_problems(known, leaves, {number.place for number in found}), None)
    if problem:
        raise InputError(file, problem, f"see {GUIDE}")
    return tuple(dict.fromkeys(found))


def _problems(known: Knobs, leaves: list[tuple[str, str, Any]], found: set[tuple[str, str]]) -> Iterator[str]:
    keys = {key for _, key, _ in leaves}
    for name in (*known.given, *(key for knob in known.knobs for key in knob.key)):
        if name not in keys:
            yield f"{name} is set by no experiment file of the paper"
    for knob in known.knobs:
        for key in knob.key:
            if knob.file and (knob.file, key) not in found:
                yield f"{knob.file} does not set {key}"
    for where, key, value in leaves:
        if _is_number(value) and (where, key) not in found and key not in known.given:
            yield f"{where} sets {key} = {_shown(value)}, which is neither a knob nor given"


def _leaves_of(paper: Path) -> Iterator[tuple[str, str, Any]]:
    """File, key and value of everything that the paper's experiment files set themselves."""
    others = {expected.FILE, scaled.FILE, Path(FILE).name, Path(CALIBRATION).name}
    for file in sorted(paper.glob("*/*.toml")):
        if file.name not in others:
            where = file.relative_to(paper).as_posix()
            yield from ((where, key, value) for key, value in leaves(toml.read(file, GUIDE)))


def leaves(table: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Each key is as `--set` takes it: a name that TOML does not take bare has quotes."""
    for name, value in table.items():
        own = name if BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)
        key = f"{above}.{own}" if above else own
        if isinstance(value, Mapping):
            yield from leaves(value, key)
        elif isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
            for one in value:
                yield from leaves(one, key + EACH)
        else:
            yield key, value


def _is_number(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_is_number, value))
    if isinstance(value, str):
        return NUMBER.fullmatch(value) is not None
    return isinstance(value, int | float)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)
