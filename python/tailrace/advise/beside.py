"""The advice beside a diagnosis: its sentences, and a section of the report. A recording that allows no advice still
has its diagnosis, so a refusal is an answer here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tailrace.advise import page
from tailrace.advise.advice import Advice
from tailrace.advise.advising import advise
from tailrace.advise.answer import sentences
from tailrace.advise.recordings import RefusedError
from tailrace.advise.serialise import to_json
from tailrace.advise.trials import Progress
from tailrace.dataset import Dataset
from tailrace.errors import TailraceError
from tailrace.report.section import Section


@dataclass(frozen=True)
class Beside:
    advice: Advice | None
    sentences: tuple[str, ...]
    reasons: tuple[str, ...] = ()
    """Why there is no advice, and which data would allow it."""

    def section(self) -> Section:
        return page.section(self.advice, self.sentences, self.reasons)

    def to_json(self) -> dict[str, Any]:
        return to_json(self.advice) if self.advice else {"refused": self.sentences[0], "reasons": list(self.reasons)}


def beside(run: Dataset, *, seconds: float | None = None, progress: Progress | None = None) -> Beside:
    try:
        found = advise(run, seconds=seconds, progress=progress)
    except TailraceError as error:
        reasons = error.reasons if isinstance(error, RefusedError) else ()
        return Beside(None, (f"There is no advice: {error.found}.",), reasons)
    return Beside(found, tuple(sentences(found)))
