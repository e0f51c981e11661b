"""Units in and out: exact to the nanosecond, and wrong ones refused with a sentence."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace import units

T = 1_795_193_376_270_400_000


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("50ms", 50_000_000),
        ("1.5 s", 1_500_000_000),
        ("200us", 200_000),
        ("7µs", 7_000),
        ("2min", 120 * 10**9),
        ("0", 0),
    ],
)
def test_durations(text: str, ns: int) -> None:
    assert units.parse_duration(text) == ns


@pytest.mark.parametrize("text", ["50", "ms", "1.5 parsecs", "", "1e999s", "nan s", "٣s"])
def test_an_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a duration|too large"):
        units.parse_duration(text)


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1795193376.270400", T),
        ("1795193376270.4", T),
        ("1795193376270400", T),
        ("1795193376270400000", T),
        ("1.7951933762704e9", T),
        ("1795193376.270400123", T + 123),
        ("2026-11-20T16:49:36.270400Z", T),
        ("2026-11-20 16:49:36.2704", T),
        ("2026-11-20T17:49:36.2704+01:00", T),
        ("2026-11-20T17:49:36,270400000+0100", T),
        ("2026-11-20", T - T % (86400 * 10**9)),
    ],
)
def test_moments_keep_every_nanosecond(text: str, ns: int) -> None:
    assert units.parse_moment(text) == ns


@pytest.mark.parametrize("text", ["yesterday", "", "inf", "2026-13-01", "9999-01-01", "1e40"])
def test_an_invalid_moment_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"neither|calendar|outside|too large"):
        units.parse_moment(text)


@given(st.integers(0, 2**62))
def test_a_printed_moment_parses_to_itself(ns: int) -> None:
    assert units.parse_moment(units.format_moment(ns, digits=9)) == ns


@given(st.text(max_size=30))
def test_any_text_is_a_value_or_a_value_error(text: str) -> None:
    for parse in (units.parse_duration, units.parse_bytes, units.parse_share, units.parse_moment):
        with suppress(ValueError):
            parse(text)


def test_bytes_and_shares() -> None:
    assert units.parse_bytes("1.5 MiB") == 1_572_864
    assert units.parse_bytes("64kB") == 64_000
    assert units.parse_share("25%") == units.parse_share("0.25") == 0.25
    with pytest.raises(ValueError, match="between 0 and 1"):
        units.parse_share("25")


def test_rates_and_frequencies() -> None:
    assert units.parse_rate("60 MB/s") == 60_000_000
    assert units.parse_frequency("2.26 GHz") == 2.26e9
    for text in ("60 MB", "60 MB/min", "/s"):
        with pytest.raises(ValueError, match="is not a"):
            units.parse_rate(text)
    with pytest.raises(ValueError, match="not a frequency"):
        units.parse_frequency("2.26")


@given(st.integers(-(2**53), 2**53))
def test_exact_quantities_parse_to_themselves(number: int) -> None:
    assert units.parse_duration(units.exact_duration(number)) == number
    assert units.parse_bytes(units.exact_bytes(number)) == number
    assert units.parse_bytes(units.exact_bytes(number // 2**20 * 2**20)) == number // 2**20 * 2**20


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (50_000_000, "50 ms"),
        (1_250_000_000, "1.25 s"),
        (999_960_000, "1 s"),
        (200_000_000_000, "3 min 20 s"),
        (-1_200, "-1.2 µs"),
        (7, "7 ns"),
        (115_000_000_000, "115 s"),
    ],
)
def test_durations_print_with_the_unit_that_suits(ns: int, text: str) -> None:
    assert units.format_duration(ns) == text


def test_shares_never_round_to_all_or_nothing() -> None:
    assert units.format_share(0.99999) == "99.99 %"
    assert units.format_share(0.9961) == "99.61 %"
    assert units.format_share(0.97) == "97 %"
    assert units.format_share(0.0042) == "0.42 %"
    assert units.format_share(0.00001) == "< 0.01 %"
    assert (units.format_share(0), units.format_share(1)) == ("0 %", "100 %")


def test_sizes_and_clocks_print() -> None:
    assert units.format_bytes(512) == "512 B"
    assert units.format_bytes(1_450_000_000) == "1.45 GB"
    assert units.format_moment(T) == "2026-11-20T16:49:36.270Z"
    assert units.format_clock(T, 0) == "16:49:36"
