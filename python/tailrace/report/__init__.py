"""The report: one diagnosis as a page, for the terminal, for a notebook, and for Perfetto's viewer."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from rich.console import Console

from tailrace import whole
from tailrace.dataset import Dataset
from tailrace.diagnosis.finding import Diagnosis
from tailrace.diagnosis.serialise import to_json
from tailrace.report import page, perfetto, series, terminal
from tailrace.report.notebook import repr_html
from tailrace.report.section import Section

__all__ = ["Section", "print_terminal", "render_html", "repr_html", "write_html", "write_json", "write_perfetto"]


def render_html(dataset: Dataset, diagnosis: Diagnosis, more: Sequence[Section] = ()) -> str:
    """The report as one self-contained page, with further sections; equal input gives equal text."""
    recording = series.gather(dataset, diagnosis)
    return page.html(series.thin(recording, diagnosis, page.CHARTED_EPISODES), diagnosis, more)


def write_html(dataset: Dataset, diagnosis: Diagnosis, path: str | PathLike[str], more: Sequence[Section] = ()) -> None:
    """Write the page, completely or not at all."""
    whole.write(Path(path), render_html(dataset, diagnosis, more).encode())


def write_json(diagnosis: Diagnosis, path: str | PathLike[str]) -> None:
    """Write diagnosis.json (docs/reference/diagnosis-json.md), completely or not at all."""
    whole.write(Path(path), to_json(diagnosis).encode())


def print_terminal(diagnosis: Diagnosis, console: Console, dataset: Dataset | None = None) -> None:
    """Print the report on one screen; with the dataset, it has small timelines under each chain, and the losses."""
    shown = dataset is not None and (diagnosis.episodes or dataset.lost() or dataset.manifest.notes)
    recording = series.gather(dataset, diagnosis) if dataset is not None and shown else None
    terminal.print_terminal(diagnosis, console, recording)


def write_perfetto(dataset: Dataset, diagnosis: Diagnosis, path: str | PathLike[str]) -> None:
    """Write the run for ui.perfetto.dev, completely or not at all."""
    recording = series.gather(dataset, diagnosis)
    perfetto.write(recording, diagnosis, series.stays(dataset, diagnosis), Path(path))
