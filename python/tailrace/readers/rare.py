"""Rare words of paths are folded, for they may name persons: the rule of crates/core/src/capture/names/common.rs.

A word of a path is kept if three requests to one server have it at that place. Words that are folded count together.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

COMMON = 3


@dataclass(frozen=True)
class _Counted:
    name: str
    server: str
    requests: int
    words: tuple[str, ...]


def without_rare_words(requests: Mapping[tuple[str, str], int]) -> dict[str, str]:
    """What names become, by how many requests of each server have each name; names without a path are left out."""
    counted = []
    for (server, name), count in requests.items():
        method, slash, path = name.partition(" /")
        if slash and " " not in method:
            counted.append(_Counted(name, server, count, tuple(path.split("/"))))
    words: dict[str, str] = {}
    _fold(counted, 0, "", words)
    return {name: f"{name.partition(' /')[0]} {path}" for name, path in words.items()}


def _fold(counted: Sequence[_Counted], depth: int, before: str, words: dict[str, str]) -> None:
    groups: dict[str, list[_Counted]] = defaultdict(list)
    for one in counted:
        if depth < len(one.words):
            groups[one.words[depth]].append(one)
        else:
            words[one.name] = before
    kept: dict[str, list[_Counted]] = defaultdict(list)
    for word, group in groups.items():
        kept[word if _is_common(group) else _folded(word)] += group
    for word, group in kept.items():
        _fold(group, depth + 1, f"{before}/{word}", words)


def _is_common(group: Sequence[_Counted]) -> bool:
    requests: Counter[str] = Counter()
    for one in group:
        requests[one.server] += one.requests
    return max(requests.values()) >= COMMON


def _folded(word: str) -> str:
    """Readers keep no extension but those of web pages and files (`naming`)."""
    stem, dot, extension = word.rpartition(".")
    if not word or word.startswith(("{", "*")):
        return word
    return f"{{}}.{extension}" if dot and stem else "{}"
