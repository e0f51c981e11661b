"""The varied keys: `KEY=a,b,c` or `KEY=FROM:TO:STEP`. Each value has the form that `--set` takes, with a unit if the
key has one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from itertools import product

from tailrace.errors import UsageError

_NUMBER = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([A-Za-zµ%/]*)\s*", re.ASCII)
VALUES_MAX = 10_000


@dataclass(frozen=True)
class Varied:
    """One key with its values, as text: "500 ms", "4000"."""

    key: str
    values: tuple[str, ...]

    @property
    def name(self) -> str:
        """The last part of the key."""
        return self.key.rpartition(".")[2]

    @property
    def unit(self) -> str:
        """The common unit of the values; "" if they are plain numbers, differ in unit, or are not numbers."""
        units = {split[1] if split else "" for split in map(_split, self.values)}
        return units.pop() if len(units) == 1 else ""

    def number(self, value: str) -> float | None:
        """Its place on an axis; None if it is not a number."""
        split = _split(value)
        return None if split is None else float(split[0])


def parse(text: str) -> Varied:
    """Raises UsageError with what was expected."""
    key, equals, values = text.partition("=")
    if not (key.strip() and equals and values.strip()):
        raise UsageError(f"--vary {text}: expected KEY=a,b,c or KEY=FROM:TO:STEP")
    found = [value for part in _parts(values) for value in _range(text, part.strip())]
    if len(set(found)) < len(found):
        raise UsageError(f"--vary {text}: a value occurs twice")
    return Varied(key.strip(), tuple(found))


def combinations(varied: list[Varied]) -> list[tuple[str, ...]]:
    """Every value of each with every value of the others."""
    return list(product(*(one.values for one in varied)))


def _parts(values: str) -> list[str]:
    """Splits at commas outside of brackets and quotes, because a value may be a list."""
    return [part for part in re.findall(r'(?:[^,\[{"]|\[[^\]]*\]|\{[^}]*\}|"[^"]*")+', values) if part.strip()]


def _range(text: str, part: str) -> list[str]:
    if part.count(":") != 2 or part[0] in '[{"':
        return [part]
    ends = [_split(end) for end in part.split(":")]
    if None in ends:
        raise UsageError(
            f"--vary {text}: {part} must be FROM:TO:STEP with numbers, like 1000:14000:1000 or 50ms:1s:50ms"
        )
    (first, unit), (last, unit_of_last), (step, unit_of_step) = [end for end in ends if end is not None]
    units = {one for one in (unit, unit_of_last, unit_of_step) if one}
    if len(units) > 1:
        raise UsageError(f"--vary {text}: {part} has several units ({', '.join(sorted(units))}); give all in one")
    if step <= 0 or last < first:
        raise UsageError(f"--vary {text}: {part} must go up by a step above 0")
    count = int((last - first) / step) + 1
    if count > VALUES_MAX:
        raise UsageError(f"--vary {text}: {part} are {count} values, at most {VALUES_MAX}")
    unit = units.pop() if units else ""
    return [f"{first + step * k:f}{' ' + unit if unit else ''}" for k in range(count)]


def _split(value: str) -> tuple[Decimal, str] | None:
    match = _NUMBER.fullmatch(value.strip('"'))
    return (Decimal(match[1]), match[2]) if match else None
