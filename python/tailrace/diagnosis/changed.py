"""This module has the tables of a recording of which a part is read in another way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailrace.diagnosis.tables import Tables


@dataclass(frozen=True)
class Changed:
    """A subclass defines the tables that it changes. All others are those of the recording."""

    tables: Tables

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tables, name)
