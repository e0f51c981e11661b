"""What the diagnosis reports of a run, and for how many of its very slow requests (VLRT) it is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tailrace.study.measured import Measured

CODE = ("diagnosis", "score")
"""Modules whose code decides the answer, besides those of every answer. Their fingerprint is the value `code`."""
KEPT = ("vlrt", "right", "removable")


def diagnosis(run: Measured, code: str, named: Sequence[str] = ()) -> dict[str, Any]:
    """`summary` has the VLRT by dropper, origin and cause, as in diagnosis.json. The other numbers are those of
    `tailrace score`: a simulated run is simulated again without each of its troubles. `without_named` is the VLRT that
    are left without all causes in `named`."""
    from tailrace.diagnosis import diagnose
    from tailrace.diagnosis.serialise import as_dict
    from tailrace.score import score
    from tailrace.score.without import vlrt_without

    told: Mapping[str, Any] = as_dict(diagnose(run.dataset))
    judged = score(run.dataset, told).as_dict()
    found = {"code": code, "summary": told["summary"], **{key: judged[key] for key in KEPT}}
    if named and judged["vlrt"]:
        found["without_named"] = vlrt_without(run.dataset, named, told["threshold_ns"])
    return found
