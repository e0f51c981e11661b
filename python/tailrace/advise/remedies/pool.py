"""More connections of a caller to a callee, or fewer."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.advise.remedies.remedy import Option, Remedy, calls, larger, smaller
from tailrace.experiment import Experiment


def _options(experiment: Experiment) -> Iterator[Option]:
    for name, callee, call in calls(experiment):
        if call.pool:
            yield _of(name, callee, call.pool, "raise", larger(call.pool, 5))
            yield _of(name, callee, call.pool, "lower", smaller(call.pool))
            scopes, several = call.pool_per or (), len(_servlets(experiment, name, callee)) > 1
            if several and "interaction" not in scopes:
                yield _apart(name, callee, scopes, (call.pool, *smaller(call.pool)))


def _of(name: str, callee: str, now: int, verb: str, sizes: tuple[int, ...]) -> Option:
    return Option(
        f"{name} to {callee}",
        sizes,
        lambda size: {("tiers", name, "calls", callee, "pool"): size},
        lambda size: f"{verb} the pool from {name} to {callee} from {now} to {size}",
    )


def _servlets(experiment: Experiment, name: str, callee: str) -> set[str]:
    """Whose visits of this tier call the other."""
    return {
        page.servlet or label
        for label, page in experiment.interactions.items()
        if (work := page.at.get(name)) is not None and any(_calls(experiment, one, callee) for one in work.calls)
    }


def _calls(experiment: Experiment, interaction: str, callee: str) -> bool:
    known = experiment.interactions.get(interaction)
    return known is not None and callee in known.at


def _apart(name: str, callee: str, scopes: tuple[str, ...], sizes: tuple[int, ...]) -> Option:
    at = ("tiers", name, "calls", callee)
    return Option(
        f"{name} to {callee}",
        sizes,
        lambda size: {(*at, "pool_per"): [*scopes, "interaction"], (*at, "pool"): size},
        lambda size: f"give each servlet of {name} a pool of {size} to {callee} of its own",
    )


REMEDY = Remedy(
    "pool",
    _options,
    "setting",
    "More connections move the waiting into the callee, which needs a worker for each; fewer move it to the caller.",
    "average heuristic iii (fewer connections); rpc-vs-async V-B",
)
