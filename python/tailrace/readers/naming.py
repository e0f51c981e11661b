"""Names of interactions for readers of text: the engine names them as it names what it decodes from packets
(crates/core/src/capture/names.rs)."""

from __future__ import annotations

import re

from tailrace import _core

_WORDS_MAX = 6


class Names:
    """The same name for requests that do the same work."""

    def __init__(self) -> None:
        self._named = _core.Names()
        self.routes: set[str] = set()
        """Names that a program itself gave to its routes, so that nothing in them was sent by a client."""

    def of(self, method: str, target: str) -> str:
        """The name of a request by its method and the path or URL that it asked for."""
        return self._named.of_request(method, target)

    @property
    def engine(self) -> _core.Names:
        """What names requests, for the engine itself."""
        return self._named

    def listed(self, first: int) -> list[str]:
        """The names of requests by their numbers, from this number on."""
        return self._named.listed(first)

    def of_statement(self, sql: str) -> str | None:
        """The name of a statement of SQL: its command and first table; None without a statement."""
        return self._named.of_statement(sql) if sql.strip() else None


def folded(word: str) -> str:
    """A plain word as it is, `{id}` for an identifier, `{}` for anything else."""
    return _core.folded_word(word)


def words_of(name: str | None) -> str | None:
    """The name that a program gave to its work, with the words that are no plain words folded."""
    words = [folded(word) for word in re.split(r"[ /]+", name or "")[:_WORDS_MAX]]
    return " ".join(word for word in words if word) or None
