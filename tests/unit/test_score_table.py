"""What the examiner prints."""

from __future__ import annotations

from rich.console import Console

from tailrace.score.table import confusion_table


def test_what_was_told_is_readable_in_a_narrow_terminal() -> None:
    told = {"unknown": 12, "not told": 2_300, "freeze": 149_627}
    console = Console(width=80)
    with console.capture() as capture:
        console.print(confusion_table({"freeze": told, "garbage-collection or workload-burst": {"freeze": 7}}))
    words = " ".join(capture.get().split())
    assert "freeze 151,939 149,627 not told 2,300, unknown 12" in words
    assert "7 0 freeze 7" in words
