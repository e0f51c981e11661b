"""The examiner's output."""

from __future__ import annotations

from collections import Counter

from rich.console import Console

from tailrace.score.figures import compare
from tailrace.score.table import print_score


def test_a_score_is_readable_in_a_narrow_terminal() -> None:
    told = {"unknown": 12, "freeze": 149_627, "garbage-collection or workload-burst": 7}
    credit = {"freeze": 151_939, "unknown": 0, "garbage-collection": 7}
    console = Console(width=80)
    with console.capture() as capture:
        print_score(compare(500_000, 151_939, [(Counter(told), credit)], 151_939, (149_627, 149_627)), console)
    words = " ".join(capture.get().split())
    assert "151,939 of 500,000 requests were very slow" in words
    assert "freeze 149,627 149,627 151,939" in words
    assert "unknown 12 0 0" in words
    assert "garbage-collection or workload-burst 7 0 0" in words
    assert "not reported 2,293" in words
