"""What tests of learnt mechanisms share."""

from __future__ import annotations

from tailrace import twin
from tailrace.dataset import Dataset
from tailrace.twin import Twin


def assert_repeats_without(cause: str, run: Dataset, whole: Twin, found: Twin) -> None:
    """`found` loses nothing to the recorded cause, which `whole` does, and repeats the recording."""
    assert cause in {line["cause"] for line in whole.table["losses"]}
    assert cause not in {line["cause"] for line in found.table["losses"]}
    checked = twin.gate(found, run)
    assert len(checked.recorded.vlrt) > 50
    assert checked.passed, checked.off
