"""The work of a request in each tier: `[interactions.NAME]`. A query to a database is an interaction, too."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from tailrace.experiment.quantities import Above0, Duration, Number, Scv, Share, Size
from tailrace.toml import Flag, Name, Table


class Visits(Table):
    """Calls of one interaction, made one after another. They follow those that come before in `calls`."""

    count: Annotated[Number, Field(le=10_000)] = 1.0
    """How many; a fraction is the probability of one more."""
    parallel: Flag = False
    """All are made at once."""
    all: Flag = False
    """Each goes to every candidate at once (write all)."""
    with_previous: Flag = False
    """They begin at the same time as the calls that come before in `calls`, and the visit waits for all of them
    (scatter and gather). Several in a row begin together."""
    to: Name | None = None
    """The called tier. Default: the only called tier that has the interaction."""


def _counted(calls: Any) -> Any:
    """`calls = { "SELECT stories" = 3 }` is shorthand for a table with a count."""
    if not isinstance(calls, dict):
        return calls
    return {
        name: {"count": made} if isinstance(made, int | float) and not isinstance(made, bool) else made
        for name, made in calls.items()
    }


JOINED_MOST = 1_000
"""Kinds of calls that begin together."""


class Work(Table):
    """The work of one interaction in one tier."""

    compute: Duration = 0
    """Mean CPU time of a visit at full speed, all its parts together."""
    scv: Scv = 1.0
    """How much each of its parts varies, variance ÷ mean²: 0 constant, 1/k Erlang (k up to 1000), 1 exponential, above
    that hyperexponential with balanced means. Other values are refused."""
    wait: Duration = 0
    """A constant time without CPU use, after the first part of its computing and before its calls. It holds its worker,
    even an event loop: set `workers = 0` for a server in which many wait at once."""
    calls: Annotated[dict[Name, Visits], BeforeValidator(_counted)] = Field(default_factory=dict)
    """Interactions that it calls, in this order; a number is shorthand for a table with a count."""
    interleaved: Flag = True
    """It computes before, between and after its calls, otherwise only before and after."""
    before: Share | None = None
    """Share of the computing before the first call. Default: the same as every other part. Where parts are interleaved,
    a call that is only sometimes made has no part after it, and calls that begin together have one part after all."""

    def steps(self) -> list[list[str]]:
        """Its calls in order; those that begin together are one step."""
        found: list[list[str]] = []
        for name, visits in self.calls.items():
            if visits.with_previous and found:
                found[-1].append(name)
            else:
                found.append([name])
        return found


class Interaction(Table):
    """A page or a query."""

    light: Flag = True
    """For cross-tier priority: it has few queries (`average` 4.3)."""
    servlet: Name | None = None
    """The servlet that makes the page, if it makes others, too: RUBBoS's Search. Pages of one servlet share a pool
    where `pool_per` has interaction. Default: its own name."""
    request: Size = 300
    """Bytes of the request."""
    response: Size = 8_000
    """Bytes of the response."""
    silent: Flag = False
    """Its clients connect, send nothing and leave after the `wait` of its work: a browser that opens connections in
    advance. A worker that takes such a connection holds it until then. It is not a request: an event `silent_client` of
    the recording says how long its client was silent."""
    at: dict[Name, Work] = Field(default_factory=dict)
    """By role or name of a tier; the name takes precedence. A tier that is not listed never receives it."""


Form = Literal["plain", "joined"]


class Rubbos(Table):
    """The bulletin board: 24 interactions with their queries, for walks and single requests.

    A mean demand is divided among interactions in proportion to their queries, so that the mean page of the browse-only
    walk has it, within 0.3 %.
    """

    form: Form = "joined"
    """Form of the servlets. plain: the published ones, with a query for each author's name. joined: later ones, as in
    the Elba scripts (one query for the home page, as in `average` 4.3)."""
    forms: dict[Name, Form] = Field(default_factory=dict)
    """Form of single interactions: `StoriesOfTheDay = "joined"` makes a light home page beside plain servlets
    (`average` 4.3)."""
    web: Duration = 270_000
    """Mean CPU time of a page in the web tier: Apache at 46 % with 12,000 clients (`lightning` 3.2)."""
    app: Duration = 750_000
    """In the application tier: Tomcat at 43 % and 572 pages/s, 75 % and 990 pages/s (`rpc-vs-async` fig. 1)."""
    middleware: Duration = 1_160_000
    """In C-JDBC: 49.6 % at 428 pages/s (`average` table 3)."""
    db: Duration = 600_000
    """In the database. No paper gives it for `rpc-vs-async`; it is less than the application's, whose CPU was the
    busiest."""
    scv: Scv = 1.0
    """Variability of all of them; the papers do not give it; exponential."""
    before: Share = 0.1
    """Share of the application's computing before the first query, because a servlet queries first and then writes the
    page. The papers give no number. It is small, because a stalled XTomcat overflows MySQL afterwards (`rpc-vs-async`
    fig. 9)."""
    queries: dict[Name, Above0] = Field(default_factory=dict)
    """Number of queries of an interaction, if it differs from its form: `ViewStory = 12` (`average` 4.2.2)."""
    rows: Number = 20.0
    """Rows on a page (default settings of RUBBoS's client)."""
    comments: Number = 6.0
    """Top-level comments of a story; with `replied`, twelve queries of a plain ViewStory (`average` 4.2.2)."""
    replied: Number = 2.0
    """Comments of a story that have replies."""
    nested: Number = 0.0
    """Nested comments that a page of comments shows."""
    depth: Number = 1.0
    """Depth of the deepest thread."""
    archived: Share = 0.014
    """Share of stories found only in the archive tables: logs of a real run show one query more in 1.4 % of
    ViewStory."""
    uncommented: Share = 0.0
    """Share of stories without comments. A client that wants to read comments then requests the story again (RUBBoS's
    client). The papers give no number; mean demands stay those of the walk in which every page has its links."""
    unfound: Share = 0.0
    """Share of searches without a result; the client then searches for something else."""
