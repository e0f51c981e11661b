"""Numbers of other countries in a table: `0,5`, `1.234,56`, `1 234`, `1'234`, `12 %`.

`12,345` may be 12.345 or 12345. All numbers of its column decide, else those of the other columns, because a program
writes all its numbers in one way: `0,5` shows a decimal comma, `0.5` and `1,234,567` show a decimal point. If nothing
decides, the number is unknown. A point is a decimal point unless commas are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from tailrace.foreign import listed, name
from tailrace.readers.elements import number
from tailrace.readers.source import Found, Source

Mark = Literal[".", ",", ""]
"""The decimal mark; empty if it is unknown."""

_SPACES, _APOSTROPHES = " \u00a0\u202f\u2009", "'\u2019"
_GROUPS = f"[{_SPACES}{_APOSTROPHES}]"
_CLEAR = {
    ",": re.compile(
        rf"\d{{1,3}}(?:\.\d{{3}}){{2,}}(?:,\d+)?|\d{{1,3}}(?:\.\d{{3}})+,\d+|\d{{1,3}}(?:{_GROUPS}\d{{3}})+,\d+"
        r"|(?![1-9]\d{0,2},\d{3}\Z)\d*,\d+(?:[eE][+-]?\d+)?"
    ),
    ".": re.compile(
        rf"\d{{1,3}}(?:,\d{{3}}){{2,}}(?:\.\d+)?|\d{{1,3}}(?:,\d{{3}})+\.\d+|\d{{1,3}}(?:{_GROUPS}\d{{3}})+\.\d+"
        r"|(?![1-9]\d{0,2}\.\d{3}\Z)\d*\.\d+(?:[eE][+-]?\d+)?"
    ),
}
"""Numbers that show what the decimal mark is."""
_DOUBTFUL = re.compile(r"[1-9]\d{0,2}([.,])\d{3}")
_GROUPED = re.compile(rf"\d{{1,3}}(?:{_GROUPS}\d{{3}})+")
_OUTSIDE = re.compile(rf"\A[{_SPACES}]*([+\-\u2212]?)(.*?)[{_SPACES}]*(%?)[{_SPACES}]*\Z", re.DOTALL)
_REMOVED = {
    ",": str.maketrans({",": ".", **dict.fromkeys([*_SPACES, *_APOSTROPHES, "."])}),
    ".": str.maketrans(dict.fromkeys([*_SPACES, *_APOSTROPHES, ","])),
}
_UNUSUAL = re.compile(rf"\d[,{_APOSTROPHES}{_SPACES[1:]}]+\d|\d \d{{3}}(?!\d)|%|\u2212")
_AMONG_COMMAS = re.compile(
    rf"\"[+\-\u2212]?\d[\d.]*[,{_APOSTROPHES}{_SPACES}]\d|\d[{_APOSTROPHES}{_SPACES[1:]}]\d|\d ?%|\u2212\d"
)
_SIGNS = f'{_APOSTROPHES}{_SPACES[1:]}%"\u2212'
"""One of these is in each text with such a number, or a comma or space where the delimiter is no comma."""
_LONGEST = 40


def unusual(text: str) -> bool:
    """Whether a text has signs that a plain number lacks."""
    return _UNUSUAL.search(text) is not None


def may_be_local(source: Source, delimiter: str) -> bool:
    """Whether any text of a table has a number with such signs. In a table with commas, only quotes can hide them."""
    form, signs = (_AMONG_COMMAS, _SIGNS) if delimiter == "," else (_UNUSUAL, f"{_SIGNS} ,")
    blocks = (block for _, block in source.line_blocks(Found()))
    return any(any(sign in block for sign in signs) and form.search(block) for block in blocks)


@dataclass
class Column:
    """What the numbers of a column show."""

    marks: set[Mark] = field(default_factory=set)
    doubtful: str = ""
    """The first number with a comma that may be of either kind."""
    local: bool = False
    """Some number is written in a way that others than programs use."""
    percent: bool = False

    def add(self, text: str) -> None:
        _, digits, percent = _parts(text)
        self.percent = self.percent or bool(percent)
        mark = _clear(digits)
        if mark:
            self.marks.add(mark)
            self.local = self.local or mark == "," or number(digits) is None
        elif (match := _DOUBTFUL.fullmatch(digits)) and match[1] == ",":
            self.doubtful = self.doubtful or digits
        elif _GROUPED.fullmatch(digits):
            self.local = True


@dataclass(frozen=True)
class Form:
    """How the numbers of a column are written."""

    mark: Mark = "."
    percent: bool = False

    def value(self, text: str) -> float | None:
        """The number; None if it is none, or an unknown one."""
        plain = number(text)
        if plain is not None and (self.mark == "." or not _DOUBTFUL.fullmatch(text.lstrip("+-"))):
            return plain
        sign, digits, _ = _parts(text)
        mark = _clear(digits) or (self.mark if _DOUBTFUL.fullmatch(digits) else "")
        if (not mark and digits.isdecimal()) or _GROUPED.fullmatch(digits):
            mark = "."
        found = number(digits.translate(_REMOVED[mark])) if mark and len(digits) <= _LONGEST else None
        return None if found is None else -found if sign not in ("", "+") else found


UNKNOWN = "numbers with a comma that may be a decimal mark or stand between thousands"


def forms(columns: Mapping[str, Column], bounded: Iterable[str] = ()) -> tuple[dict[str, Form], list[str]]:
    """How the numbers of each column are written, and what to say of it. Numbers of `bounded` columns are shares or
    percentages, which are never in the thousands."""
    for column in bounded:
        if columns[column].doubtful:
            columns[column].marks.add(",")
    everywhere: set[Mark] = set().union(*(one.marks for one in columns.values()))
    found = {column: Form(_mark(one, everywhere), one.percent) for column, one in columns.items()}
    unknown = [column for column, form in found.items() if not form.mark]
    commas = [column for column, form in found.items() if form.mark == ","]
    grouped = [
        column
        for column, form in found.items()
        if form.mark == "." and (columns[column].local or columns[column].doubtful)
    ]
    notes = []
    if commas:
        notes.append(f"numbers have a decimal comma: {listed(commas)}")
    if grouped:
        notes.append(f"numbers have signs between their thousands: {listed(grouped)}")
    for column in unknown:
        one = columns[column].doubtful
        notes.append(
            f"{name(column)}: '{one}' may be {one.replace(',', '.')} or {one.replace(',', '')}, and no other number "
            "shows which: such numbers are unknown; write them with a decimal point and without signs between thousands"
        )
    return found, notes


def _mark(column: Column, everywhere: set[Mark]) -> Mark:
    marks = column.marks or (everywhere if column.doubtful or everywhere == {","} else set())
    if len(marks) == 1:
        return next(iter(marks))
    return "" if column.doubtful else "."


def _parts(text: str) -> tuple[str, str, str]:
    """Sign, digits and percent sign of a number."""
    match = _OUTSIDE.match(text[: 2 * _LONGEST])
    return (match[1], match[2], match[3]) if match else ("", text, "")


def _clear(digits: str) -> Mark:
    return "," if _CLEAR[","].fullmatch(digits) else "." if _CLEAR["."].fullmatch(digits) else ""
