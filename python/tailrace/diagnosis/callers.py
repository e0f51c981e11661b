"""Tailrace derives from the visits which servers call which. Each query costs only as much as the calls it follows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from heapq import heapify, heappop, heappush


class Callers:
    def __init__(self, servers: Iterable[str], calls: Mapping[str, Iterable[str]]) -> None:
        self._servers = tuple(servers)
        self._callees: dict[str, list[str]] = {}
        self._callers: dict[str, list[str]] = {}
        for caller, callees in calls.items():
            for callee in callees:
                if callee != caller:
                    self._callees.setdefault(caller, []).append(callee)
                    self._callers.setdefault(callee, []).append(caller)
        self._below: dict[str, frozenset[str]] = {}
        self._above: dict[str, frozenset[str]] = {}

    def of(self, server: str) -> tuple[str, ...]:
        return tuple(self._callers.get(server, ()))

    def called_by(self, server: str) -> tuple[str, ...]:
        return tuple(self._callees.get(server, ()))

    def below(self, server: str) -> frozenset[str]:
        """Return every server that calls from this one reach, without this one."""
        return _kept(self._below, self._callees, server)

    def above(self, server: str) -> frozenset[str]:
        """Return every server whose calls reach this one, without this one."""
        return _kept(self._above, self._callers, server)

    @cached_property
    def depth(self) -> dict[str, int]:
        """Return the longest way from a server that no server calls (1), as `topology.distances` does. A cycle counts
        once."""
        depth = dict.fromkeys(self._servers, 1)
        unseen = {name: len(self._callers.get(name, ())) for name in depth}
        waiting = [_turn(name, count, 1) for name, count in unseen.items()]
        heapify(waiting)
        while waiting:
            turn = heappop(waiting)
            name = turn[-1]
            if name not in unseen or turn != _turn(name, unseen[name], depth[name]):
                continue
            del unseen[name]
            for callee in self._callees.get(name, ()):
                if callee in unseen:
                    depth[callee] = max(depth[callee], depth[name] + 1)
                    unseen[callee] -= 1
                    heappush(waiting, _turn(callee, unseen[callee], depth[callee]))
        return depth


def _turn(name: str, unseen: int, depth: int) -> tuple[bool, bool, int, str]:
    """Return a sort key. Servers whose callers are all done come first. In a cycle, the server that is called from
    outside comes first."""
    return unseen > 0, depth == 1, depth, name


def _kept(known: dict[str, frozenset[str]], ways: Mapping[str, list[str]], server: str) -> frozenset[str]:
    if server not in known:
        reached, waiting = {server}, [server]
        for name in waiting:  # The list grows during the loop.
            for other in ways.get(name, ()):
                if other not in reached:
                    reached.add(other)
                    waiting.append(other)
        known[server] = frozenset(reached) - {server}
    return known[server]
