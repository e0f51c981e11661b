"""The forms of the papers' figures: `[[panels]]` of expected.toml, drawn from top to bottom."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from tailrace.experiment.quantities import Duration, Positive
from tailrace.toml import Name, Table
from tailrace.units import MILLISECOND, SECOND


def _listed(names: Any) -> Any:
    return (names,) if isinstance(names, str) else names


Names = Annotated[tuple[Name, ...], BeforeValidator(_listed)]
"""A list of names, or one."""


class Frequency(Table):
    """Requests by response time, one drawing for each run."""

    form: Literal["frequency"]
    title: str = ""
    run: Names = ()
    """Default: all."""
    place: Name | None = None
    """The tier or server that receives the requests. Default: the first one."""
    bin: Positive = 100 * MILLISECOND
    top: Positive = 10 * SECOND
    """End of the axis; slower requests are counted in the last bar."""
    edges: tuple[Duration, ...] = ()
    """Bounds of unequal bars instead of bin and top: ["0 s", "0.2 s", "1 s", "3 s"]."""
    log: bool = True
    """Whether the axis of requests is logarithmic."""

    def bounds(self) -> tuple[int, ...]:
        return self.edges or tuple(range(0, self.top + 1, self.bin))

    def runs_used(self) -> tuple[str, ...]:
        return self.run

    def values_used(self) -> tuple[str, ...]:
        return ()


class Series(Table):
    """Lines of a timeline: one for each server of the place."""

    series: Name
    """queue, arrivals, drops, vlrt, throughput, response, or a metric of samples.parquet such as cpu_busy."""
    place: Name
    """A server, a tier for all its servers, or a node."""
    label: str = ""
    """The label instead of the place's name."""
    interaction: Name | None = None
    """Of queue and response: only the requests for this page, and the visits that they cause."""


class Mark(Table):
    """A dashed line across a timeline."""

    value: float
    label: str = ""


class Timeline(Table):
    """A part of one run, window by window. Timelines in a row share their time axis and cursor."""

    form: Literal["timeline"]
    title: Name
    run: Name
    begin: Duration = Field(0, alias="from")
    """After the ramp."""
    end: Positive = Field(60 * SECOND, alias="to")
    window: Positive = 50 * MILLISECOND
    lines: tuple[Series, ...] = Field(min_length=1)
    limits: tuple[Mark, ...] = ()
    """Limits, such as the longest possible queue."""

    def runs_used(self) -> tuple[str, ...]:
        return (self.run,)

    def values_used(self) -> tuple[str, ...]:
        return ()


class Line(Table):
    value: Name
    """A value of [[values]]."""
    run: Names = ()
    """The runs along the line, in order. Default: all runs of the value."""
    label: str = ""
    """Default: the value's name."""


class Lines(Table):
    """Values over what the runs vary, with their confidence intervals."""

    form: Literal["lines"]
    title: Name
    x: Name
    """The key of `set` on the axis: workloads.steady.clients."""
    x_label: str = ""
    lines: tuple[Line, ...] = Field(min_length=1)
    log: bool = False
    """Whether the axis of values is logarithmic."""

    def runs_used(self) -> tuple[str, ...]:
        return tuple(run for line in self.lines for run in line.run)

    def values_used(self) -> tuple[str, ...]:
        return tuple(line.value for line in self.lines)


class Bars(Table):
    """Values beside each other, in groups by run: percentiles, shares of candidates."""

    form: Literal["bars"]
    title: Name
    values: tuple[Name, ...] = Field(min_length=1)
    run: Names = ()
    """Default: all."""
    log: bool = False

    def runs_used(self) -> tuple[str, ...]:
        return self.run

    def values_used(self) -> tuple[str, ...]:
        return self.values


Panel = Annotated[Frequency | Timeline | Lines | Bars, Field(discriminator="form")]
