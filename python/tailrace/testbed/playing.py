"""Experiments that were written for the simulator, such as the twin of a recording, on real servers.

A tier without software is played by a server that takes its place: a database at the end, before it Tomcat with the
bulletin board, before that Apache or nginx. A recorded request becomes the page of its servlet, if the board has that
page; else a page with about as many queries. What the page itself does not compute of the recorded demand of the
application is added to it. What real servers do in another way is in the notes, by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from tailrace.dataset import tables
from tailrace.experiment import Experiment, places, rubbos, traces
from tailrace.experiment.catalogue import interactions
from tailrace.experiment.interactions import Interaction, Work
from tailrace.experiment.tiers import Tier
from tailrace.experiment.workloads import Trace
from tailrace.units import SECOND, exact_duration, format_duration

OWN_NS = 217_000
"""CPU time that Tomcat takes for the home page by itself: 436 us less 219 us that were added to it, by the utilisation
law (experiments/testbed/measured.toml). Other machines take some tens of microseconds more or less."""
READING = ("Register", "StoriesOfTheDay", "ViewStory")
"""Pages that write nothing, in joined form: without a query, with one, and with several. Requests that the board has no
page for become these."""
SHOWN = 5
"""Kinds of requests that a note names."""
LAST, BEFORE = ("mysql", "xmysql"), ("tomcat", "xtomcat")


@dataclass(frozen=True)
class Played:
    experiment: Experiment
    notes: tuple[str, ...] = ()
    """What real servers do in another way, in sentences."""


def played(experiment: Experiment, folder: Path) -> Played:
    """The same experiment for real servers; its requests are written into `folder`. One that names the board's pages
    and all software stays as it is."""
    tiers, notes = _with_software(experiment)
    stays = Played(experiment.model_copy(update={"tiers": tiers}), tuple(notes))
    loads = {name: load for name, load in experiment.workloads.items() if isinstance(load, Trace)}
    first = places.entries(experiment)[0]
    named = {name: load.entry or first for load in loads.values() for name in traces.read(load.file).names}
    silent = {name for name in named if name in experiment.interactions and experiment.interactions[name].silent}
    named = {name: entry for name, entry in named.items() if name not in silent}
    if silent:
        notes.append("clients that send nothing are left out: the load generator sends a request on each connection")
    foreign = [name for name in named if name not in rubbos.states() or name in experiment.interactions]
    app = next((name for name, tier in tiers.items() if tier.software in BEFORE), None)
    if not foreign or app is None:
        return stays
    asked = {name: _request(experiment, name, entry, app) for name, entry in named.items()}
    page_of = {name: _page(experiment, name, one) for name, one in asked.items()}
    demand = _demands(asked, loads, page_of)
    own = {page: Interaction(at={app: _added(need)}) for page, need in demand.items()}
    workloads = dict(experiment.workloads)
    for name, load in loads.items():
        workloads[name] = load.model_copy(update={"file": str(_written(load, page_of, folder / f"{name}.parquet"))})
    update = {"interactions": own, "workloads": workloads}
    notes += _notes(experiment, loads, asked, page_of, demand, app)
    return Played(stays.experiment.model_copy(update=update), tuple(notes))


def _added(need: float) -> Work:
    """What a page takes in addition, so that it takes `need` ns of CPU time in all."""
    return Work.model_validate({"compute": exact_duration(max(round(need) - OWN_NS, 0)), "scv": 0.0})


def _with_software(experiment: Experiment) -> tuple[dict[str, Tier], list[str]]:
    """A tier whose software nobody names gets one by its place and kind. What has none keeps none, and is refused."""
    tiers: dict[str, Tier] = dict(experiment.tiers)
    notes = []
    for name in sorted(tiers, key=lambda one: _depth(experiment, one)):
        tier = tiers[name]
        if tier.software is None and (found := _software(tier, {tiers[callee].software for callee in tier.calls})):
            tiers[name] = tier.model_copy(update={"software": found})
            notes.append(f"{name}: played by {found}, because the experiment names no software")
    return tiers, notes


def _depth(experiment: Experiment, tier: str) -> int:
    return 1 + max((_depth(experiment, callee) for callee in experiment.tiers[tier].calls), default=0)


def _software(tier: Tier, called: set[str | None]) -> str | None:
    asynchronous = tier.kind == "async"
    if not called:
        return None if asynchronous else LAST[tier.kind == "bounded"]
    if called <= {*LAST, "haproxy", "cjdbc"}:
        return BEFORE[asynchronous]
    return ("nginx" if asynchronous else "apache") if called <= set(BEFORE) else None


@dataclass(frozen=True)
class _Request:
    """What one request of an interaction makes on average, with all that it calls."""

    pages: float
    """Visits of the application."""
    compute: float
    """CPU time there, ns."""
    queries: float
    """Calls from there."""


def _request(experiment: Experiment, name: str, entry: str, app: str) -> _Request:
    known = interactions(experiment)
    pages = compute = queries = 0.0
    for tier, interaction, count in _visits(experiment, known, entry, name):
        if tier == app:
            work = _work(experiment, known, tier, interaction)
            pages += count
            compute += count * work.compute
            queries += count * sum(visits.count for visits in work.calls.values())
    return _Request(pages, compute, queries)


def _visits(
    experiment: Experiment, known: Mapping[str, Interaction], tier: str, name: str, count: float = 1.0
) -> Iterator[tuple[str, str, float]]:
    """Tier, interaction and mean number of the visits of a request. Tiers never call each other in a circle."""
    yield tier, name, count
    for called, visits in _work(experiment, known, tier, name).calls.items():
        able = [visits.to] if visits.to else list(experiment.tiers[tier].calls)
        for callee in [one for one in able if called in known and _has(experiment, known, one, called)][:1]:
            yield from _visits(experiment, known, callee, called, count * visits.count)


def _has(experiment: Experiment, known: Mapping[str, Interaction], tier: str, name: str) -> bool:
    return bool({tier, experiment.tiers[tier].role} & known[name].at.keys())


def _work(experiment: Experiment, known: Mapping[str, Interaction], tier: str, name: str) -> Work:
    at = known[name].at if name in known else {}
    return at.get(tier) or at.get(experiment.tiers[tier].role or tier) or Work()


def _page(experiment: Experiment, name: str, request: _Request) -> str:
    """The page of the board that stands for an interaction of requests."""
    known = experiment.interactions.get(name)
    servlet = (known.servlet if known else None) or name
    if servlet in rubbos.states():
        return servlet
    return READING[0] if request.queries < 0.5 else READING[1] if request.queries < 1.5 else READING[2]


def _demands(asked: Mapping[str, _Request], loads: Mapping[str, Trace], page_of: Mapping[str, str]) -> dict[str, float]:
    """By page, the mean CPU time in the application of the requests that become it, ns."""
    requests = Counter(name for load in loads.values() for name in traces.read(load.file).names)
    sums: Counter[str] = Counter()
    many: Counter[str] = Counter()
    for name, count in ((name, count) for name, count in requests.items() if name in page_of):
        sums[page_of[name]] += round(count * asked[name].compute)
        many[page_of[name]] += count
    return {page: sums[page] / many[page] for page in many}


def _written(load: Trace, page_of: Mapping[str, str], file: Path) -> Path:
    """Requests at their recorded times, by the board's pages; those without a page are left out."""
    requests = traces.read(load.file)
    asked = zip(requests.times, requests.names, strict=True)
    sent = [(time / SECOND, page_of[name]) for time, name in asked if name in page_of]
    tables.write(pl.DataFrame(sent, schema={"time": pl.Float64, "interaction": pl.String}, orient="row"), file)
    return file


def _notes(
    experiment: Experiment,
    loads: Mapping[str, Trace],
    asked: Mapping[str, _Request],
    page_of: Mapping[str, str],
    demand: Mapping[str, float],
    app: str,
) -> Iterator[str]:
    foreign = sorted(f"{name} by {page}" for name, page in page_of.items() if not name.startswith(page))
    if foreign:
        more = f" and {len(foreign) - SHOWN} more" if len(foreign) > SHOWN else ""
        yield f"the board has no page for some requests, and plays {', '.join(foreign[:SHOWN])}{more}"
    for page, need in demand.items():
        if need < OWN_NS:
            least = f"about {format_duration(OWN_NS)} of its own"
            yield f"{app}: {page} has a demand of {format_duration(round(need))} CPU time, and the page takes {least}"
    requests = [traces.read(load.file) for load in loads.values()]
    if any(one.factors for one in requests):
        yield f"{app}: all requests for a page take its mean CPU time; only the simulator has that of each request"
    if any(think is not None for one in requests for think in one.thinks):
        yield "requests are sent at their recorded times; only in the simulator, clients wait for answers"
    waits = max((work.wait for one in experiment.interactions.values() for work in one.at.values()), default=0)
    if waits:
        yield f"visits wait for nothing besides their calls; the simulator has waits of up to {format_duration(waits)}"
    if others := [name for name, one in asked.items() if not 0.5 <= one.pages <= 1.5]:
        yield f"each request makes one page of {app}; kinds of requests that call it more or less often: {len(others)}"
