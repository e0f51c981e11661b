"""This process: one task after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any


class Engine:
    def map_tasks(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
        yield from map(function, tasks)
