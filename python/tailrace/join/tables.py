"""The tables of one host, and of the hosts that are joined already."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import polars as pl

from tailrace.dataset import TABLES, Dataset
from tailrace.errors import InputError
from tailrace.join.clocks import Offset
from tailrace.join.names import CLIENT, Names
from tailrace.join.pairs import nearest, paired

LOSSES = ("drop", "data_drop")
"""Events that the hosts at both ends see."""
LOSS_WITHIN_NS = 50_000_000
"""The first timeout of a sender is 200 ms, so two losses of one server that are nearer are one, seen twice."""
NUMBER_MAX = 1 << 62
"""Numbers of visits and requests of all hosts must fit into 64 bits."""
STEPS_MAX = 64
"""The longest way of a request through hosts that each took a call for a request of a client."""


@dataclass(frozen=True)
class Tables:
    visits: pl.DataFrame
    requests: pl.DataFrame
    samples: pl.DataFrame
    events: pl.DataFrame

    def frames(self) -> dict[str, pl.DataFrame]:
        return {name: getattr(self, name) for name in TABLES}

    def places(self) -> list[str]:
        found = {*self.samples["place"].unique(), *self.events["place"].unique()}
        return sorted(place for place in found if place is not None)


def load(run: Dataset, names: Names) -> Tables:
    """The tables of a host with the names of all hosts, and with texts instead of categories."""
    frames = {name: _texts(getattr(run, name)().select(list(table.schema))) for name, table in TABLES.items()}
    for name, columns in {"visits": ("server", "caller"), "requests": ("server",)}.items():
        for column in columns:
            rename = names.caller if column == "caller" else lambda text: names.servers.get(text, text)
            frames[name] = _renamed(frames[name], column, rename)
    for name in ("samples", "events"):
        frames[name] = _renamed(frames[name], "place", names.place)
    return Tables(**frames)


def _texts(frame: pl.LazyFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String)).collect()


def _renamed(frame: pl.DataFrame, column: str, rename: Callable[[str], str]) -> pl.DataFrame:
    known = frame[column].drop_nulls().unique()
    renamed = pl.Series([rename(text) for text in known], dtype=pl.String)
    return frame.with_columns(pl.col(column).replace_strict(known, renamed, return_dtype=pl.String))


def shifted(tables: Tables, offset: Offset) -> Tables:
    """The tables on the clock of the first host."""
    moved = {
        name: getattr(tables, name).with_columns(offset.shift(pl.col(moment)) for moment in table.moments)
        for name, table in TABLES.items()
    }
    return Tables(**moved)


def join(ours: Tables, theirs: Tables, within: int) -> tuple[Tables, int]:
    """The tables of both, with a visit that both saw as one; returns also how many these are."""
    theirs = _numbered_after(ours, theirs)
    both = paired(ours.visits, theirs.visits, within)
    visits = pl.concat([_seen_twice(ours.visits, theirs.visits, both), _alone(theirs.visits, both)])
    same = _requests_that_are_calls(ours.visits, theirs.visits, both)
    visits = _inherited(visits.with_columns(_mapped("request", same)))
    requests = pl.concat([ours.requests, theirs.requests]).filter(~pl.col("request").is_in(same["request"].implode()))
    events = pl.concat([ours.events, _events_of_theirs_alone(ours.events, theirs.events)])
    return Tables(visits, requests, pl.concat([ours.samples, theirs.samples]), events), both.height


def _numbered_after(ours: Tables, theirs: Tables) -> Tables:
    """Their numbers begin after ours."""

    def after(frames: list[pl.DataFrame], column: str) -> int:
        last = max(int(frame.select(pl.col(column).max()).item() or 0) for frame in frames)
        if last >= NUMBER_MAX:
            raise InputError("visits.parquet", f"a number of a {column} is {last}", f"numbers below {NUMBER_MAX} fit")
        return last + 1

    for column in ("visit", "request"):
        after([theirs.visits], column)
    visit = after([ours.visits], "visit")
    request = after([ours.visits, ours.requests], "request")
    moved = pl.col("request") + pl.lit(request, pl.UInt64)
    client = pl.lit(after([ours.requests], "client"), pl.UInt32)
    return replace(
        theirs,
        visits=theirs.visits.with_columns(pl.col("visit", "parent") + pl.lit(visit, pl.UInt64), moved),
        requests=theirs.requests.with_columns(moved, pl.col("client") + client),
    )


def _mapped(column: str, numbers: pl.DataFrame) -> pl.Expr:
    """The column with the numbers of one frame (`column` → `to`) replaced."""
    return pl.col(column).replace(numbers[column], numbers["to"])


_ONLY_THEY_KNOW = pl.col("parent").is_null() & pl.col("parent_other").is_not_null()
"""They saw which visit called, and we did not."""


def _seen_twice(ours: pl.DataFrame, theirs: pl.DataFrame, both: pl.DataFrame) -> pl.DataFrame:
    """Our visits, with what the other host knows of those that it saw, too. The earlier view counts for each moment, as
    in captures of several hosts, because it is nearer to the sender."""
    other = theirs.rename(lambda name: f"{name}_other").join(both.select("visit", "visit_other"), on="visit_other")
    rows = ours.join(other, on="visit", how="left", maintain_order="left")
    earlier = ("sent", "arrival", "first_byte", "departure")
    more = ("drops", "data_drops")
    known = ("start", "interaction", "bytes_in", "bytes_out", "downstream_ns")
    status = pl.when(pl.col("status") == "unknown").then(pl.coalesce("status_other", "status")).otherwise("status")
    own_caller = pl.col("caller").is_null() | pl.col("caller").str.contains(f"/{CLIENT}", literal=True)
    ids = both.select(parent="visit_other", to="visit")
    rows = rows.with_columns(
        *(pl.min_horizontal(name, f"{name}_other").alias(name) for name in earlier),
        *(pl.max_horizontal(name, f"{name}_other").alias(name) for name in more),
        *(pl.coalesce(name, f"{name}_other").alias(name) for name in known),
        status.alias("status"),
        pl.when(own_caller).then(pl.coalesce("caller_other", "caller")).otherwise("caller").alias("caller"),
        pl.when(_ONLY_THEY_KNOW).then("request_other").otherwise("request").alias("request"),
        pl.coalesce("parent", pl.col("parent_other").replace(ids["parent"], ids["to"])).alias("parent"),
    )
    return rows.select(ours.columns)


def _alone(theirs: pl.DataFrame, both: pl.DataFrame) -> pl.DataFrame:
    """Their visits that we did not see. Their calls of a visit that both saw are calls of ours."""
    rest = theirs.join(both, left_on="visit", right_on="visit_other", how="anti", maintain_order="left")
    return rest.with_columns(_mapped("parent", both.select(parent="visit_other", to="visit")))


def _requests_that_are_calls(ours: pl.DataFrame, theirs: pl.DataFrame, both: pl.DataFrame) -> pl.DataFrame:
    """Requests that one host took for a client's, while the other saw that a server called: `request` → the request at
    the root, or null where it is unknown. A request of a client that both saw is one, too."""
    pairs = (
        both.select("visit", "visit_other")
        .join(ours.select("visit", "parent", "request"), on="visit")
        .join(theirs.select(visit_other="visit", parent_other="parent", request_other="request"), on="visit_other")
        .filter(pl.col("request").is_not_null() | pl.col("request_other").is_not_null())
    )
    # Neither knows the caller: if one has no request, it saw that a server's host called, and no client.
    nobody_knows = pl.col("parent").is_null() & pl.col("parent_other").is_null()
    from_ours = _ONLY_THEY_KNOW | (nobody_knows & pl.col("request_other").is_null())
    found = (
        pairs.select(
            request=pl.when(from_ours).then("request").otherwise("request_other"),
            to=pl.when(from_ours).then("request_other").otherwise("request"),
        )
        .drop_nulls("request")
        .unique("request", keep="first", maintain_order=True)
    )
    # A call may lead from host to host: follow it to the request at its root.
    for _ in range(STEPS_MAX):
        further = found.with_columns(pl.col("to").replace(found["request"], found["to"]))
        if further.equals(found):
            break
        found = further
    return found.filter(pl.col("to").is_null() | (pl.col("request") != pl.col("to")))


def _inherited(visits: pl.DataFrame) -> pl.DataFrame:
    """The visits, of which those without a request have that of their caller, if it is known now."""
    for _ in range(STEPS_MAX):
        known = visits.filter(pl.col("request").is_not_null()).select(parent="visit", inherited="request")
        open_ = visits.filter(pl.col("request").is_null() & pl.col("parent").is_not_null())
        if not open_.join(known, on="parent", how="semi").height:
            break
        further = visits.join(known, on="parent", how="left", maintain_order="left")
        visits = further.with_columns(pl.coalesce("request", "inherited").alias("request")).select(visits.columns)
    return visits


def _events_of_theirs_alone(ours: pl.DataFrame, theirs: pl.DataFrame) -> pl.DataFrame:
    """Their events without losses that both hosts saw."""
    numbered = theirs.with_row_index("row")
    of_ours = ours.with_row_index("row").filter(pl.col("kind").is_in(LOSSES)).select("row", "place", "kind", "begin")
    of_theirs = numbered.filter(pl.col("kind").is_in(LOSSES)).select("row", "place", "kind", "begin")
    twice = nearest(of_ours, of_theirs, ("place", "kind"), "begin", LOSS_WITHIN_NS, key="row")
    return numbered.join(twice, left_on="row", right_on="row_other", how="anti", maintain_order="left").drop("row")
