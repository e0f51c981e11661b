"""What earlier reproductions found, from their JSON files: claims that were judged on real servers, and diagnoses.

Real servers need root and an idle machine, so that the package of the simulator cannot make their runs itself. To
diagnose all runs takes hours, which may be shared out among commands of one figure each.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tailrace.errors import InputError
from tailrace.reproduce.diagnoses import Diagnosed
from tailrace.reproduce.outcome import Outcome
from tailrace.untrusted import read_inside

Figure = tuple[str, str]
"""The paper and the folder of the figure."""
ADVICE = "make it with `tailrace reproduce PAPER --engine testbed` or `tailrace reproduce PAPER --diagnose`"
DIAGNOSES = TypeAdapter(tuple[Diagnosed, ...])
MOST = 1 << 53
"""Every whole number up to here is exact in JSON."""


@dataclass(frozen=True)
class Earlier:
    """What the files have, by figure."""

    verdicts: Mapping[Figure, tuple[int, int]] = field(default_factory=dict)
    """On real servers: the claims that hold, and all that were judged."""
    diagnoses: Mapping[Figure, tuple[Diagnosed, ...]] = field(default_factory=dict)


def read(files: Sequence[Path]) -> Earlier:
    """Of all files; a later file replaces the figures of an earlier one. Raises InputError."""
    verdicts: dict[Figure, tuple[int, int]] = {}
    diagnoses: dict[Figure, tuple[Diagnosed, ...]] = {}
    for file in files:
        try:
            for name, figure in _figures(file):
                if "scaled" in figure:
                    verdicts[name] = _counted(figure["scaled"]["claims"])
                if "diagnoses" in figure:
                    diagnoses[name] = _diagnoses(figure["diagnoses"])
        except (KeyError, TypeError, ValidationError) as error:
            raise InputError(file, "it is not the JSON of a reproduction", ADVICE) from error
    return Earlier(verdicts, diagnoses)


def completed(outcome: Outcome, diagnoses: Mapping[Figure, tuple[Diagnosed, ...]]) -> Outcome:
    """With the earlier diagnoses of its runs, if it has none of its own. One counts only if the figure still names
    the same cause and origin for the run, because its verdict depends on them."""
    if outcome.diagnoses:
        return outcome
    expected = outcome.expected
    named = {run.name: (expected.cause_of(run), expected.origin_of(run)) for run in expected.runs}
    found = diagnoses.get((outcome.entry.paper, outcome.entry.name), ())
    return replace(outcome, diagnoses=tuple(one for one in found if named.get(one.run) == (one.cause, one.origin)))


def _figures(file: Path) -> Iterator[tuple[Figure, Mapping[str, Any]]]:
    try:
        told = json.loads(read_inside(file))
    except (ValueError, RecursionError) as error:
        raise InputError(file, f"it is not JSON: {error}", ADVICE) from error
    for figure in told["figures"]:
        yield (str(figure["paper"]), str(figure["name"])), figure


def _counted(claims: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    verdicts = [claim["testbed"] for claim in claims]
    return verdicts.count("holds"), len(verdicts)


def _diagnoses(rows: object) -> tuple[Diagnosed, ...]:
    """Raises TypeError for counts that no diagnosis has."""
    found = DIAGNOSES.validate_python(rows)
    for one in found:
        counts = (one.as_paper, one.at_origin, one.right, one.removable, one.gone or 0, *one.reported.values())
        if not 0 <= one.vlrt <= MOST or any(not 0 <= count <= one.vlrt for count in counts):
            raise TypeError
    return found
