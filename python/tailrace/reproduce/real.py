"""Claims that were judged on real servers, from the JSON files of earlier `tailrace reproduce --engine testbed`.

Real servers need root and an idle machine, so that the package of the simulator cannot make their runs itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tailrace.errors import InputError
from tailrace.untrusted import read_inside

Verdicts = Mapping[tuple[str, str], tuple[int, int]]
"""By paper and folder of the figure: the claims that hold, and all that were judged."""
ADVICE = "make it with `tailrace reproduce PAPER --engine testbed`"


def read(files: Sequence[Path]) -> Verdicts:
    """Of all files; a later file replaces the figures of an earlier one. Raises InputError."""
    return {key: counts for file in files for key, counts in _figures(file)}


def _figures(file: Path) -> Iterator[tuple[tuple[str, str], tuple[int, int]]]:
    try:
        told = json.loads(read_inside(file))
    except (ValueError, RecursionError) as error:
        raise InputError(file, f"it is not JSON: {error}", ADVICE) from error
    try:
        for figure in told["figures"]:
            if "scaled" in figure:
                yield (str(figure["paper"]), str(figure["name"])), _counted(figure["scaled"]["claims"])
    except (KeyError, TypeError) as error:
        raise InputError(file, "it is not the JSON of a reproduction", ADVICE) from error


def _counted(claims: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    verdicts = [claim["testbed"] for claim in claims]
    return verdicts.count("holds"), len(verdicts)
