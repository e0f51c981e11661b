"""Where a prediction depends on what the recording does not show: how many requests a server can hold.

A twin takes such a server to hold any number. A change that lets more requests through to it may make it drop them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from tailrace.advise.advice import Ranked
from tailrace.advise.ranking import ranked
from tailrace.experiment import Experiment
from tailrace.report import words

LETTING_THROUGH = frozenset(("asynchronous", "workers", "pool", "replica"))
"""Remedies after which more requests reach the servers behind at once, as docs/reference/remedies.md says of them."""


def cautious(found: Sequence[Ranked], unlimited: Collection[str], experiment: Experiment) -> list[Ranked]:
    """The same changes, each with its caution, ranked anew; `unlimited` are the tiers whose workers are not known."""
    return ranked([replace(one, caution=_caution(one, unlimited, experiment)) for one in found])


def _caution(one: Ranked, unlimited: Collection[str], experiment: Experiment) -> str:
    if not LETTING_THROUGH.intersection(one.remedies):
        return ""
    changed = {path[1] for path in one.changes if path[0] == "tiers"}
    behind = [callee for tier in changed for callee in experiment.tiers[tier].calls]
    for tier in behind:  # grows during the loop
        behind += [callee for callee in experiment.tiers[tier].calls if callee not in behind]
    open_ended = [tier for tier in dict.fromkeys(behind) if tier in unlimited and tier not in changed]
    if not open_ended:
        return ""
    return (
        f"The recording does not show how many requests {words.name(open_ended[0])} can hold, and it gets more at once."
    )
