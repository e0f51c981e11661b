"""A table with a column for each metric: `time,host,cpu_busy,run_queue`.

It needs a column of times and at least one that is a metric of the record, by its own name or another's; the others are
kept and not interpreted. A table of time, place, metric, value is the format of `samples`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial

from tailrace import units
from tailrace.dataset.metrics import METRICS
from tailrace.errors import InputError
from tailrace.readers import localdates, metrics, numerals
from tailrace.readers.layout import MISSING, column_names, fields, role
from tailrace.readers.numerals import Column, Form
from tailrace.readers.sampled import Sampled
from tailrace.readers.source import Found, Source, text_head


def sniff(name: str, head: bytes) -> bool:
    text = text_head(head)
    return text is not None and _columns(text) is not None


def _columns(text: str) -> tuple[list[str], str] | None:
    """The columns of such a table, and its delimiter."""
    names, delimiter = column_names(text)
    roles = [role(name) for name in names]
    known = [name for name in names if metrics.standard_name(name)[0] in METRICS]
    return (names, delimiter) if "time" in roles and known and "value" not in roles else None


def read(source: Source) -> Found:
    found, samples, empty, unknown = Found(), Sampled(standard=True), 0, 0
    name = source.path.name
    columns = _columns(text_head(source.head()) or "")
    if columns is None:
        raise InputError(source.path, "no table with a column for each metric", "docs/reference/readers.md shows one")
    names, delimiter = columns
    roles = [role(column) for column in names]
    time, place = roles.index("time"), roles.index("place") if "place" in roles else None
    if place is None and source.place is None:
        raise InputError(source.path, "its table has no column of places", "name the server or node with NAME=FILE")
    values = [i for i, of in enumerate(roles) if of not in ("time", "place", "interval")]
    forms, notes = _forms(source, names, values, delimiter)
    found.notes += [f"{name}: {note}" for note in notes]
    parse, said, local = _dates(source, time, delimiter)
    found.notes += [f"{name}: {said}"] if said else []
    called = {i: metrics.as_percent(names[i]) if forms[i].percent else names[i] for i in values}
    for line_number, row in _rows(source, found, delimiter):
        moment = None
        if len(row) == len(names):
            with suppress(ValueError):
                moment = parse(row[time])
        if moment is None:
            found.damaged(name, line_number)
            continue
        where = source.place or (row[place] if place is not None else "")
        for i in values:
            if row[i].lower() in MISSING:
                empty += 1
            elif (value := forms[i].value(row[i])) is None and not forms[i].mark and numerals.unusual(row[i]):
                unknown += 1
            else:
                samples.add(moment, None, where, called[i], value)
        if samples.full:
            break
    found.lose("samples without a value", empty)
    found.lose(numerals.UNKNOWN, unknown)
    samples.into(found, source, notes[0] if unknown else "there is no sample in it", local=local)
    return found


def _dates(source: Source, time: int, delimiter: str) -> tuple[Callable[[str], int], str, bool]:
    """What reads a time, what to say of it, and whether it lacks a time zone: dates of other countries show their order
    together."""
    first = next((row[time] for _, row in _rows(source, Found(), delimiter) if len(row) > time), "")
    if not localdates.is_local(first):
        local = localdates.is_zoneless(first)
        return units.parse_moment, localdates.ZONELESS if local else "", local
    order = localdates.order(row[time] for _, row in _rows(source, Found(), delimiter) if len(row) > time)
    if not order:
        raise InputError(source.path, localdates.refusal(first), localdates.ADVICE)
    return partial(localdates.moment, first=order), localdates.note(order), True


def _rows(source: Source, found: Found, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The fields of each line after that with the columns."""
    header = True
    for line_number, line in source.lines(found):
        if line.startswith("#") or not line.strip():
            continue
        if not header:
            yield line_number, [field.strip() for field in fields(line, delimiter)]
        header = False


def _forms(
    source: Source, names: Sequence[str], values: Sequence[int], delimiter: str
) -> tuple[dict[int, Form], list[str]]:
    """How the numbers of each column are written, and what to say of it: all of them decide."""
    known = {i: Column() for i in values}
    if not numerals.may_be_local(source, delimiter):
        return dict.fromkeys(values, Form()), []
    for _, row in _rows(source, Found(), delimiter):
        if len(row) == len(names):
            for i in values:
                if row[i] and not row[i].isdecimal():
                    known[i].add(row[i])
    bounded = [names[i] for i in values if metrics.standard_name(names[i])[1] != "none"]
    found, notes = numerals.forms({names[i]: known[i] for i in values}, bounded)
    return {i: found[names[i]] for i in values}, notes
