"""Step 2: which server dropped packets of the VLRT requests, and which packets were lost on the way.

Tailrace reports that the server dropped a lost packet (`losses`) only where the recording shows it. There are three
fates:

    dropped    the server's kernel counted overflows at that time (`listen_overflows`, `listen_drops`); or no counter
               of its kernel was recorded, and its queue was long when connection attempts got no answer (`crowds`)
    strayed    the server's kernel counted none; or the attempt was answered, and the lost packet is the answer or the
               first data
    unplaced   no counter of its kernel was recorded, the attempt got no answer, and the queue was not long: the place
               of the loss is unknown

The server also dropped the last packet of a handshake of which it does not know (`unheard`).

Without any record of losses two signs remain. One is the kernel's count alone. The other is response times that cluster
at the sender's retransmission times.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tailrace.diagnosis.constants import ALIKE, MOSTLY, NEARLY, QUICK, REPEATED_NS
from tailrace.diagnosis.crowds import Crowd, crowd
from tailrace.diagnosis.finding import Finding, Number
from tailrace.diagnosis.losses import NOWHERE, Losses
from tailrace.diagnosis.view import View
from tailrace.diagnosis.vlrt import SCHEDULES, Cluster, Slow, near
from tailrace.diagnosis.words import clock, count, duration, listing
from tailrace.units import SECOND

STRAYED, UNPLACED = "-", "?"
"""These are fates of packets that no server is known to have dropped. No server has such a name."""


@dataclass(frozen=True)
class Drops:
    """This describes what one cluster of VLRT requests lost."""

    dropper: str | None
    """No other server dropped packets of more of them. It is None where nothing was dropped or nothing is known."""
    by_server: dict[str, int]
    """This maps each server to the number of VLRT requests of which it dropped a packet."""
    queued: int
    """This is the number of VLRT requests of which no server is known to have dropped a packet."""
    first: int | None
    """This is the time at which the first of the lost packets was sent."""
    last: int | None
    finding: Finding
    strayed: int = 0
    """This is the number of the `queued` requests whose packets were lost on their way."""
    unplaced: int = 0
    """This is the number of the `queued` requests whose packets were lost at an unknown place."""
    before: bool = False
    """This is true if the dropper's queue can only have been filled before the recording began."""
    fates: NDArray[np.str_] | None = field(default=None, compare=False)
    """This gives, for each request of the cluster, the server that dropped its packet, STRAYED, UNPLACED or NOWHERE.
    It is None where the recording does not show whose packets were lost."""

    @property
    def astray(self) -> bool:
        """Return whether no server is known to have dropped the packets of most requests."""
        return (self.strayed + self.unplaced) * 2 > self.queued + sum(self.by_server.values())


@dataclass(frozen=True)
class _Part:
    """This describes what the requests of a cluster lost at one server."""

    server: str
    rows: NDArray[np.int64]
    sent: NDArray[np.int64]
    cost: NDArray[np.int64]
    unanswered: int
    """This is the number of requests that lost an unanswered connection attempt."""
    counted: int | None
    """This is the number of drops that the server's kernel counted. It is None where no counter was recorded."""
    crowd: Crowd
    unheard: NDArray[np.bool_]
    """This shows for each request whether nobody repeated the lost packet."""
    before: int
    """This is the number of these requests of which an attempt to connect was lost before, too."""

    @property
    def span(self) -> tuple[int, int]:
        """Return when the first and the last of the lost packets were sent."""
        return int(self.sent.min()), int(self.sent.max())

    @property
    def repeated(self) -> NDArray[np.int64]:
        """Return when the packets were sent that were sent again."""
        return self.sent[~self.unheard]

    @property
    def dropped(self) -> bool:
        if self.unheard.any():
            return True
        if self.counted is not None:
            return self.counted > 0
        return self.unanswered > 0 and self.crowd.long

    @property
    def strayed(self) -> bool:
        return self.counted == 0 or (self.unanswered == 0 and not self.dropped)


def find(view: View, slow: Slow, lost: Losses) -> tuple[Drops, ...]:
    return tuple(of_cluster(view, slow, cluster, lost) for cluster in slow.clusters)


def of_cluster(view: View, slow: Slow, cluster: Cluster, lost: Losses) -> Drops:
    names = sorted(set(lost.server[cluster.rows].tolist()) - {NOWHERE})
    if names:
        return _recorded(view, slow, cluster, [_part(view, cluster, lost, name) for name in names])
    # A counter is used only for losses that are not recorded. The server's recorded losses explain its own count.
    near = (lost.sent >= cluster.begin - REPEATED_NS) & (lost.sent <= cluster.end + REPEATED_NS)
    recorded = set(lost.server[near].tolist())
    counted = {server: dropped for server, dropped in _counted(view, cluster).items() if server not in recorded}
    if counted:
        place, dropped = max(counted.items(), key=lambda item: item[1])
        return _by_counter(cluster, place, dropped)
    return _indirect(view, slow, cluster)


def _part(view: View, cluster: Cluster, lost: Losses, server: str) -> _Part:
    rows = cluster.rows[lost.server[cluster.rows] == server]
    sent = lost.sent[rows]
    span = int(sent.min()), int(sent.max())
    seen = [series.value[near] for series in view.refusals_of(server) if (near := series.around(*span)).any()]
    counted = round(sum(float(part.sum()) for part in seen)) if seen else None
    unanswered = lost.unanswered[rows]
    at = sent[unanswered] if unanswered.any() else sent
    crowded = crowd(view, server, np.sort(at))
    known = int(unanswered.sum()), counted, crowded, lost.unheard[rows], int(lost.before[rows].sum())
    return _Part(server, rows, sent, lost.cost[rows], *known)


def _recorded(view: View, slow: Slow, cluster: Cluster, parts: list[_Part]) -> Drops:
    dropped = [part for part in parts if part.dropped]
    strayed = [part for part in parts if not part.dropped and part.strayed]
    unplaced = [part for part in parts if not part.dropped and not part.strayed]
    by_server = {part.server: len(part.rows) for part in dropped}
    astray, nobodys = (sum(len(part.rows) for part in some) for some in (strayed, unplaced))
    without = cluster.vlrt - sum(len(part.rows) for part in parts)
    sent = np.concatenate([part.sent for part in dropped or parts])
    span = int(sent.min()), int(sent.max())
    dropper = max(by_server, key=lambda name: by_server[name]) if by_server else None
    numbers: dict[str, Number] = {
        "vlrt_with_loss": cluster.vlrt - without,
        "vlrt_without_loss": without,
        "loss_ns_p50": _waited(dropped or parts),
    }
    silent = sum(int(part.unheard.sum()) for part in parts)
    numbers |= {"vlrt_unheard": silent} if silent else {}
    numbers |= {"vlrt_strayed": astray} if astray else {}
    numbers |= {"vlrt_unplaced": nobodys, "unplaced_at": ", ".join(p.server for p in unplaced)} if nobodys else {}
    whose = listing([f"{part.server} dropped packets of {len(part.rows):,}" for part in dropped])
    said = [f"Of {count(cluster.vlrt, 'VLRT request')}, {whose}." if dropped else ""]
    if len(dropped) == 1 and len(dropped[0].rows) == cluster.vlrt > 1:
        said = [f"{dropper} dropped packets of all {cluster.vlrt:,} VLRT requests."]
    if dropper is not None:
        said += _how(view, slow, cluster, dropper, dropped, numbers)
    elif all(part.counted == 0 for part in parts):
        numbers["listen_drops"] = 0
    said += [_astray(view, part) for part in strayed] + [_nobodys(view, part) for part in unplaced]
    said.append(f"{count(without, 'request')} lost nothing that explains it." if without else "")
    missing = "; ".join(f"listen_drops of {part.server}" for part in unplaced) or None
    finding = Finding(
        "drops",
        "unknown" if unplaced and not dropped and nobodys > astray else "found",
        " ".join(filter(None, said)),
        dropper,
        *span,
        numbers,
        missing,
    )
    return Drops(
        dropper,
        by_server,
        cluster.vlrt - sum(by_server.values()),
        *span,
        finding,
        astray,
        nobodys,
        any(part.server == dropper and part.crowd.before and not part.counted for part in dropped),
        _fates(cluster, parts),
    )


def _fates(cluster: Cluster, parts: list[_Part]) -> NDArray[np.str_]:
    fates = np.full(cluster.vlrt, NOWHERE, dtype=object)
    for part in parts:
        fates[np.isin(cluster.rows, part.rows)] = part.server if part.dropped else STRAYED if part.strayed else UNPLACED
    return fates.astype(np.str_)


def _waited(parts: list[_Part]) -> int:
    """Return the median time until the packets were sent again. If none was, return that of the silence."""
    cost, never = (np.concatenate([getattr(part, name) for part in parts]) for name in ("cost", "unheard"))
    return int(np.median(cost if never.all() else cost[~never]))


def _how(
    view: View, slow: Slow, cluster: Cluster, dropper: str, dropped: list[_Part], numbers: dict[str, Number]
) -> list[str]:
    """Report what the main dropper lost and when, how long it took until the packets were sent again, and how the
    dropper is known."""
    main = next(part for part in dropped if part.server == dropper)
    again = np.concatenate([part.repeated for part in dropped])
    said = [_repeated(view, slow, cluster, main, (int(again.min()), int(again.max())), numbers)] if len(again) else []
    said += [_unheard(view, part) for part in dropped if part.unheard.any()]
    if main.counted:
        numbers["listen_drops"] = main.counted
        return [*said, f"The kernel of {main.server} counted {count(main.counted, 'listen drop')}."]
    numbers["queue_at_loss_p50"] = main.crowd.inside
    why = f"from its queue: it held {count(main.crowd.inside, 'request')} when they were lost (median)"
    if main.crowd.before:
        why = "from this: meanwhile it accepted hardly any"
    return [*said, f"That {main.server} dropped them is inferred {why}."]


def _repeated(
    view: View, slow: Slow, cluster: Cluster, part: _Part, span: tuple[int, int], numbers: dict[str, Number]
) -> str:
    rows = slow.requests[cluster.rows]
    lossy = view.lost_between(*span).filter(pl.col("server") == part.server)
    table, accepted = (lossy, "arrival") if len(lossy) else (rows, "connected")
    attempts, segments = (
        max(int(rows[name].cast(pl.Int64).sum()), int(lossy[name].cast(pl.Int64).sum()))
        for name in ("drops", "data_drops")
    )
    waits = table.filter(pl.col("drops") > 0)
    wait = (waits[accepted] - waits["sent"]).median() if len(waits) else None
    numbers |= {"attempts_lost": attempts, "segments_lost": segments}
    lost = [count(attempts, "connection attempt")] if attempts else []
    lost += [count(segments, "later packet" if attempts else "packet")] if segments else []
    were = "was" if attempts + segments == 1 else "were"
    sentence = f"{listing(lost)} {were} lost {_when(view, *span)}"
    if isinstance(wait, int | float):
        numbers["retransmission_ns_p50"] = int(wait)
        each = "attempts were" if len(waits) > 1 else "the attempt was"
        sentence += f"; {each} accepted when sent again, {duration(int(wait))} later"
        sentence += " (median)" if len(waits) > 1 else ""
    return f"{sentence}."


def _unheard(view: View, part: _Part) -> str:
    number, moments = int(part.unheard.sum()), part.sent[part.unheard]
    when = _when(view, int(moments.min()), int(moments.max()))
    one = number == 1
    whose = "its client" if one else "their clients"
    longest = f"{duration(int(part.cost[part.unheard].max()))}{'' if one else ' at most'}"
    attempts = "An earlier attempt" if part.before == 1 else f"{part.before:,} earlier attempts"
    before = f" {attempts} to open {'it' if one else 'them'} had been lost, too." if part.before else ""
    return (
        f"On {count(number, 'connection')} that {'was' if one else 'were'} opened {when}, {part.server} dropped the "
        f"last packet of the handshake, and nobody sent it again: {whose} waited for a "
        f"greeting that never came.{before} From the first attempt on, {'it' if one else 'they'} waited for {longest}."
    )


def _when(view: View, begin: int, end: int) -> str:
    first, last = clock(view, begin), clock(view, end)
    return f"at {first}" if first == last else f"from {first} to {last}"


def _astray(view: View, part: _Part) -> str:
    number, when = count(len(part.rows), "request"), _when(view, *part.span)
    if part.counted == 0:
        return (
            f"{number} lost packets on the way to {part.server}, {when}: the kernel there counted no listen drops "
            "meanwhile, so no accept queue refused them."
        )
    return (
        f"{number} lost packets on the way between {part.server} and its callers, {when}: {part.server} had answered "
        "the connection attempt, so its accept queue did not refuse it."
    )


def _nobodys(view: View, part: _Part) -> str:
    number, inside = len(part.rows), part.crowd.inside_most
    lost = "1 request sent a connection attempt" if number == 1 else f"{number:,} requests sent connection attempts"
    what, were = ("it", "it was") if number == 1 else ("them", "they were")
    seen = f"{count(inside, 'request')} at most {'was' if inside == 1 else 'were'} inside" if inside else "it was empty"
    known = f"its queue was not long then ({seen})" if inside is not None else "no visit to it was recorded"
    return (
        f"{lost} to {part.server} that got no answer, {_when(view, *part.span)}. Whether {part.server} dropped {what} "
        f"or {were} lost on the way is not known: {known}, and no counter of its kernel was recorded."
    )


def _counted(view: View, cluster: Cluster) -> dict[str, int]:
    """Map each server to the connection attempts that its kernel counted as dropped while the cluster was sent."""
    found = {}
    for server, refusals in view.refusals.items():
        for series in refusals:
            dropped = int(series.value[series.around(cluster.begin, cluster.end)].sum())
            if dropped > 0:
                found[server] = dropped
    return found


def _by_counter(cluster: Cluster, server: str, dropped: int) -> Drops:
    vlrt = min(dropped, cluster.vlrt)
    these = "this request was" if cluster.vlrt == 1 else f"these {cluster.vlrt:,} requests were"
    sentence = (
        f"The kernel of {server} counted {count(dropped, 'dropped connection attempt')} while {these} sent; "
        "which of them lost one was not recorded."
    )
    numbers: dict[str, Number] = {"listen_drops": dropped, "vlrt_without_loss": cluster.vlrt - vlrt}
    finding = Finding("drops", "found", sentence, server, cluster.begin, cluster.end, numbers)
    return Drops(server, {server: vlrt}, cluster.vlrt - vlrt, cluster.begin, cluster.end, finding)


def _indirect(view: View, slow: Slow, cluster: Cluster) -> Drops:
    """Infer from the shape of the response times whether packets were lost, because no loss was recorded."""
    response = slow.requests["response_ns"].to_numpy()[cluster.rows]
    if view.saw_connections:
        waited = np.full(cluster.vlrt, NOWHERE)
        return Drops(None, {}, cluster.vlrt, None, None, _absent(view, cluster), fates=waited)
    for name, times in SCHEDULES.items():
        at = np.zeros(len(response), dtype=bool)
        for time in times:
            at |= near(response, time)
        # The response times must have the schedule's shape. Nearly all lie at its times, none lies just below the first
        # one, and the quickest took hardly longer: what was sent again was served as quickly as usual once. The window
        # alone would hold 15 % of a smooth tail.
        usual = max(QUICK * slow.normal_ns, ALIKE * times[0])
        quickest = (response[near(response, times[0])] - times[0]).min(initial=int(usual) + 1)
        below = int(np.count_nonzero((response > times[0] * MOSTLY) & (response < times[0] * (1.0 - ALIKE))))
        if times[0] >= SECOND and at.mean() >= NEARLY and below == 0 and quickest <= usual and len(response) >= 5:
            return _clustered(view, cluster, name, int(at.sum()))
    missing = "a packet capture, which shows repeated connection attempts, or listen_drops samples"
    sentence = "Nothing recorded shows or excludes lost packets, and the response times fit no retransmission schedule."
    finding = Finding("drops", "unknown", sentence, None, cluster.begin, cluster.end, {}, missing)
    return Drops(None, {}, cluster.vlrt, None, None, finding, fates=np.full(cluster.vlrt, NOWHERE))


def _clustered(view: View, cluster: Cluster, schedule: str, requests: int) -> Drops:
    entries = [name for name in view.servers if view.depth[name] == 1]
    dropper = entries[0] if len(entries) == 1 else None
    sentence = (
        f"Indirect: {requests:,} of {cluster.vlrt:,} response times lie at the retransmission times of a sender "
        f"({schedule}) and none just below them: packets were lost"
        + (
            f", at the entry {dropper}, as far as the recording shows."
            if dropper
            else "; which server dropped them is unknown."
        )
    )
    numbers: dict[str, Number] = {"vlrt_at_schedule": requests, "schedule": schedule}
    by_server = {dropper: requests} if dropper else {}
    missing = "a packet capture, which shows repeated connection attempts, or listen_drops samples"
    finding = Finding("drops", "found", sentence, dropper, cluster.begin, cluster.end, numbers, missing)
    return Drops(dropper, by_server, cluster.vlrt - sum(by_server.values()), cluster.begin, cluster.end, finding)


def _absent(view: View, cluster: Cluster) -> Finding:
    kernels = sum(1 for _, metric in view.samples if metric == "listen_drops")
    these = "this request" if cluster.vlrt == 1 else f"these {cluster.vlrt:,} requests"
    sentence = f"No packet of {these} was lost on the way to a server"
    sentence += f", and {count(kernels, 'kernel')} counted no listen drops." if kernels else "."
    numbers: dict[str, Number] = {"packets_lost": 0, "vlrt_without_loss": cluster.vlrt}
    return Finding("drops", "absent", sentence, None, cluster.begin, cluster.end, numbers)
