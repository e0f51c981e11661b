"""Texts in columns of access logs, each as a number, so that a function of many texts is called once for each
different one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tailrace.bounds import LATEST_NS

Ints = NDArray[np.int64]
Meaning = Callable[[str | None], str | None]


class UnusualError(Exception):
    """One of these lines needs the slow reader."""


def check(usual: object) -> None:
    if not usual:
        raise UnusualError


@dataclass
class Table:
    """Texts by their numbers, which may become more; and what was made of them before."""

    texts: list[str | None]
    _made: dict[Callable[..., object], _Made] = field(default_factory=dict)

    def each(self, of: Callable[[str | None], object]) -> _Made:
        """A function of each text."""
        made = self._made.setdefault(of, _Made())
        for text in self.texts[len(made.values) :]:
            try:
                one = of(text)
                is_usual = not isinstance(one, int) or abs(one) <= LATEST_NS
            except (UnusualError, ValueError, TypeError, OverflowError):  # the last two: a moment that does not fit
                one, is_usual = None, False
            made.values.append(one if is_usual else None)
            made.texts.texts.append(one if isinstance(one, str) else None)
            made.usual = made.usual and is_usual
            made.unusual.append(not is_usual)
        return made


@dataclass
class _Made:
    """What a function made of each text of a table."""

    values: list[object] = field(default_factory=list)
    texts: Table = field(default_factory=lambda: Table([]))
    """Those that are texts."""
    unusual: list[bool] = field(default_factory=list)
    """Which texts the function refused."""
    usual: bool = True
    """None of them."""


@dataclass(frozen=True)
class Texts:
    """One text of a row, or None."""

    numbers: Ints
    table: Table

    @staticmethod
    def same(text: str | None, count: int) -> Texts:
        return Texts(np.zeros(count, np.int64), Table([text]))

    def each(self, of: Meaning) -> Texts:
        """A function of each text. Raises UnusualError if that does."""
        return Texts(self.numbers, self._usual(of).texts)

    def each_number(self, of: Callable[[str | None], int]) -> Ints:
        """The same with a number."""
        made = self._usual(of)
        return np.array([one if isinstance(one, int) else 0 for one in made.values], np.int64)[self.numbers]

    def check_each(self, of: Callable[[str | None], bool]) -> None:
        """Raises UnusualError if this is false of a text."""
        values = self.table.each(of).values
        check(all(values) or np.array([one is True for one in values])[self.numbers].all())

    def _usual(self, of: Callable[[str | None], object]) -> _Made:
        made = self.table.each(of)
        check(made.usual or not np.array(made.unusual)[self.numbers].any())
        return made

    @property
    def known(self) -> NDArray[np.bool_]:
        """Where there is a text."""
        return np.array([text is not None for text in self.table.texts])[self.numbers]

    def where(self, kept: NDArray[np.bool_], other: Texts | None = None) -> Texts:
        """The texts of some rows, and those of `other`, or none, in the rest."""
        other = other or Texts.same(None, len(self.numbers))
        first = len(self.table.texts)
        return Texts(
            np.where(kept, self.numbers, other.numbers + first), Table([*self.table.texts, *other.table.texts])
        )

    def filled(self, text: str) -> Texts:
        """With this text where there is none."""
        return Texts(self.numbers, Table([text if one is None else one for one in self.table.texts]))

    def renamed(self, old: str, new: str) -> Texts:
        return Texts(self.numbers, Table([new if one == old else one for one in self.table.texts]))

    def __getitem__(self, rows: NDArray[np.bool_] | slice) -> Texts:
        return Texts(self.numbers[rows], self.table)
