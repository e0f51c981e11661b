"""This module puts the result of a replay into a sentence."""

from __future__ import annotations

from math import ceil

from tailrace.diagnosis.constants import ALIKE, MANY
from tailrace.diagnosis.finding import UNKNOWN
from tailrace.diagnosis.ledger import bursts, calls, choices, retries
from tailrace.diagnosis.ledger.losses import CAUSES
from tailrace.diagnosis.ledger.reproduced import is_reproduced
from tailrace.diagnosis.ledger.verdict import Replayed, Share
from tailrace.diagnosis.words import count, listing, share

SAYS = {cause.name: cause.says for cause in CAUSES} | {
    bursts.CAUSE: bursts.SAYS,
    retries.CAUSE: retries.SAYS,
    choices.CAUSE: choices.SAYS,
    UNKNOWN: "what {server} lacked and nothing recorded accounts for",
}


def is_told(one: Share, replayed: Replayed) -> bool:
    return one.vlrt >= ALIKE * replayed.recorded


def sentence(replayed: Replayed, not_reproduced: tuple[str, ...]) -> str:
    """Return a sentence with the effect of each cause, and the accuracy of the replay."""
    if not replayed.reproduced:
        of = listing(not_reproduced[:3])
        queues = f"queues of {of} are" if len(not_reproduced) > 1 else f"queue of {of} is"
        queues = f", and the {queues} not reproduced" if not_reproduced else ""
        many = count(replayed.replayed, "very long request")
        return (
            f"The replay has {many} where {replayed.recorded:,} were recorded{queues}: "
            "it is not a model of this episode."
        )
    model = f"the replay reproduced the recording within {max(ceil(100 * replayed.error), 1)} %"
    if replayed.recorded < MANY:
        model = f"the replay has {replayed.replayed:,} of {count(replayed.recorded, 'very long request')}"
    if not is_reproduced(replayed.recorded, replayed.replayed):
        many = f"{replayed.replayed:,} of these requests instead of {replayed.recorded:,}"
        model = f"the replay reproduced the queues, but has {many}"
    told = [one for one in replayed.shares if is_told(one, replayed)]
    if not told:
        return f"No recorded cause changes the very long requests when it is taken away; {model}."
    first, *others = (_without(one, replayed, full=number == 0) for number, one in enumerate(told))
    others += [_worse(one, replayed) for one in replayed.worse]
    return "; ".join((f"W{first[1:]}", *others, f"{model}."))


def taken_away(one: Share, replayed: Replayed) -> tuple[str, int, str]:
    """Return what is taken away, in words, the number of very slow requests that go with it, and their share."""
    gone = max(replayed.replayed - one.without, 0)
    says = calls.SAYS if one.cause == bursts.CAUSE and one.server else SAYS[one.cause]
    what = says.format(server=one.server, place=one.place or "others")
    return what, gone, share(gone / replayed.replayed) if replayed.replayed else "0 %"


def _without(one: Share, replayed: Replayed, full: bool) -> str:
    what, gone, part = taken_away(one, replayed)
    many = f"{gone:,} of {replayed.replayed:,} very long requests would not have happened"
    return f"without {what}, {many if full else f'{gone:,}'} ({part})"


def _worse(one: Share, replayed: Replayed) -> str:
    """Return what made an episode worse that something else began, such as requests that are sent again."""
    what, gone, part = taken_away(one, replayed)
    return f"without {what}, which made it worse, {gone:,} ({part})"
