"""Quantities as people write them ("50 ms", "64 MiB"), stored as whole nanoseconds, bytes and hertz, and written back
exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema

from tailrace import units


def _parsed(parse: Callable[[str], float], example: str, unit: bool = True) -> BeforeValidator:
    """A number without a unit is refused, except 0 and where the base unit is clear (bytes)."""

    def value(written: Any) -> float:
        if isinstance(written, str):
            try:
                return parse(written)
            except units.TooLargeError:
                raise
            except ValueError:
                pass
        elif isinstance(written, int) and not isinstance(written, bool) and (written == 0 or not unit):
            return written
        raise ValueError(f"must be {example}, got {written!r}")

    return BeforeValidator(value)


def _schema(example: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "examples": [example]})


def _above_0(what: str, write: Callable[[Any], str]) -> AfterValidator:
    def value(parsed: Any) -> Any:
        if parsed <= 0:
            raise ValueError(f"must be {what}, got {write(parsed)}")
        return parsed

    return AfterValidator(value)


def _has_a_law(scv: float) -> float:
    if scv > 1e6 or (0 < scv < 1 and (scv < 0.001 or abs(1 / scv - round(1 / scv)) > 0.05)):
        raise ValueError(f"must be 0, 1 divided by a whole number up to 1000, or from 1 to a million, got {scv!r}")
    return scv


def _share(written: Any) -> float:
    text = str(written) if isinstance(written, int | float) and not isinstance(written, bool) else written
    try:
        return units.parse_share(text)
    except (ValueError, TypeError, AttributeError):
        raise ValueError(f"must be a share such as 0.25 or 25%, got {written!r}") from None


_DURATION = _parsed(units.parse_duration, 'a duration with its unit, such as "50 ms"')
_AS_DURATION = (PlainSerializer(units.exact_duration, when_used="json"), _schema("50 ms"))


def _rate(rate: int) -> str:
    return f"{units.exact_bytes(rate)}/s"


def _frequency(hertz: float) -> str:
    return f"{hertz / 1e9:.12g} GHz"


WRITTEN: dict[str, Callable[[Any], str]] = {
    "50 ms": units.exact_duration,
    "64 MiB": units.exact_bytes,
    "60 MB/s": _rate,
    "2.26 GHz": _frequency,
}
"""The kind of a quantity, by the example in its JSON Schema."""

Duration = Annotated[int, _DURATION, Field(ge=0), *_AS_DURATION]
Positive = Annotated[
    int, _DURATION, _above_0('a duration above 0, such as "50 ms"', units.exact_duration), *_AS_DURATION
]
"""A duration above 0."""
Size = Annotated[
    int,
    _parsed(units.parse_bytes, 'a size such as "64 MiB"', unit=False),
    Field(ge=0),
    PlainSerializer(units.exact_bytes, when_used="json"),
    _schema("64 MiB"),
]
SizeAbove0 = Annotated[Size, _above_0('a size above 0, such as "64 MiB"', units.exact_bytes)]
Rate = Annotated[
    int,
    _parsed(units.parse_rate, 'a rate such as "60 MB/s"'),
    _above_0('a rate above 0, such as "60 MB/s"', _rate),
    PlainSerializer(_rate, when_used="json"),
    _schema("60 MB/s"),
]
Frequency = Annotated[
    float,
    _parsed(units.parse_frequency, 'a frequency such as "2.26 GHz"'),
    _above_0('a frequency above 0, such as "2.26 GHz"', _frequency),
    PlainSerializer(_frequency, when_used="json"),
    _schema("2.26 GHz"),
]
Share = Annotated[
    float,
    BeforeValidator(_share),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string"}], "examples": ["25%"]}),
]
Number = Annotated[float, Field(ge=0, strict=True, allow_inf_nan=False)]
Scv = Annotated[Number, AfterValidator(_has_a_law)]
"""Variance ÷ mean²."""
Above0 = Annotated[float, Field(gt=0.0, strict=True, allow_inf_nan=False)]
Whole = Annotated[int, Field(ge=0, strict=True)]
PerSecond = Annotated[float, Field(ge=0, le=1e9, strict=True, allow_inf_nan=False)]
"""Rate of requests: at most one a nanosecond, the resolution of time."""
