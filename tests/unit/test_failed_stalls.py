"""A stall that fails on real servers fails the run."""

from __future__ import annotations

import threading
import time

import pytest

from tailrace.errors import UsageError
from tailrace.testbed.epoch import Epoch
from tailrace.testbed.stalls import Injector, injecting


def test_a_mechanism_that_fails_fails_the_run_when_it_is_over() -> None:
    seen = []

    def fails(origin: int, over: threading.Event) -> list[object]:
        raise UsageError("no such group")

    def goes_on(origin: int, over: threading.Event) -> list[object]:
        over.wait()
        seen.append(origin)
        return []

    injector = Injector([], [fails, goes_on], Epoch(0))  # type: ignore[list-item]
    with pytest.raises(UsageError, match="no such group"), injecting(injector, time.monotonic_ns()):
        seen.append(0)
    assert seen[0] == 0
    assert len(seen) == 2
