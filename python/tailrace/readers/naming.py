"""Names of interactions for readers of text: method and path, with everything folded that is no plain word.

The engine names what it decodes by finer rules (crates/core/src/capture/names.rs). These are stricter: a word of a path
is kept only if it is made of lower- or upper-case letters as words are, and at most 100 different words are kept at one
place. Queries are left out.
"""

from __future__ import annotations

import re

OTHER = "(other)"
_NAMES_MAX, _SIBLINGS_MAX, _CACHED_MAX, _SEGMENTS_MAX = 10_000, 100, 1 << 16, 12
_METHOD = re.compile(r"GET|POST|HEAD|PUT|DELETE|OPTIONS|PATCH|CONNECT|TRACE|PROPFIND|REPORT|PURGE")
_WORD = re.compile(r"(?:[A-Za-z]?[a-z]{1,15}|[A-Z]{1,6}|v\d{1,2})(?:[-_][a-z]{1,15})*(?:[A-Z][a-z]{1,15}){0,4}\d{0,2}")
_EXTENSION = re.compile(
    r"\.(html?|php|aspx?|jsp|do|json|xml|txt|csv|cgi|css|js|png|jpe?g|gif|ico|svg|webp|woff2?|pdf)$"
)
_CONSONANTS = re.compile(r"[^aeiouy\W\d_]{5,}", re.IGNORECASE)
_ID = re.compile(r"\d+|[0-9a-f]{8}-[0-9a-f-]{20,30}|(?=[a-f]*\d)[0-9a-f]{8,64}|[:{<].*", re.IGNORECASE)


class Names:
    """The same name for requests that do the same work."""

    def __init__(self) -> None:
        self._cached: dict[tuple[str, str], str] = {}
        self._names: set[str] = set()
        self._siblings: dict[str, set[str]] = {}
        self.routes: set[str] = set()
        """Names that a program itself gave to its routes, so that nothing in them was sent by a client."""

    def of(self, method: str, target: str) -> str:
        """The name of a request by its method and the path or URL that it asked for."""
        key = (method, target[:1000].split("?")[0].split("#")[0])
        name = self._cached.get(key)
        if name is None:
            name = self._bounded(f"{method if _METHOD.fullmatch(method) else '{}'} {self._path(key[1])}")
            if len(self._cached) >= _CACHED_MAX:
                self._cached.clear()
            self._cached[key] = name
        return name

    def _bounded(self, name: str) -> str:
        if name not in self._names and len(self._names) >= _NAMES_MAX:
            return OTHER
        self._names.add(name)
        return name

    def _path(self, target: str) -> str:
        path = re.sub(r"^[a-z]{2,6}://[^/]*", "", target) or "/"
        if not path.startswith("/"):
            return "*" if path == "*" else "{}"
        kept = ""
        for segment in path[1:].split("/")[:_SEGMENTS_MAX]:
            kept += "/" + self._among_siblings(kept, folded(segment.split(";")[0]))
        return kept

    def _among_siblings(self, before: str, word: str) -> str:
        siblings = self._siblings.setdefault(before, set())
        if word in siblings:
            return word
        if len(siblings) >= _SIBLINGS_MAX:
            return "{}"
        siblings.add(word)
        return word


def folded(segment: str) -> str:
    """A plain word as it is, `{id}` for an identifier, `{}` for anything else."""
    ending = _EXTENSION.search(segment)
    stem = segment[: ending.start()] if ending else segment
    if _ID.fullmatch(stem):
        stem = "{id}"
    elif stem and not (len(stem) <= 40 and _WORD.fullmatch(stem) and not _CONSONANTS.search(stem)):
        stem = "{}"
    return stem + (ending[0] if ending else "")


def words_of(name: str | None) -> str | None:
    """The name that a program gave to its work, with the words that are no plain words folded."""
    words = [folded(word) for word in re.split(r"[ /]+", name or "")[:6]]
    return " ".join(word for word in words if word) or None
