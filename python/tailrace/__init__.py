"""Tailrace: why do a few requests take seconds when almost all take milliseconds, while no machine looks busy?

    import tailrace as tr

    run = tr.read("packets.pcap.zst", "samples.csv", servers={"web": "10.77.0.3:80"})
    found = tr.diagnose(run)
    tr.write_report(run, found, "report.html")

Modules are loaded on first use, so that the command line starts fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailrace.advise import advise
    from tailrace.anonymise import anonymise
    from tailrace.dataset import Dataset
    from tailrace.diagnosis import diagnose
    from tailrace.diagnosis.finding import Diagnosis
    from tailrace.engines import windows
    from tailrace.errors import TailraceError
    from tailrace.experiment import read as read_experiment
    from tailrace.export import write_pcap
    from tailrace.join import join
    from tailrace.readers import read
    from tailrace.report import write_html as write_report
    from tailrace.report import write_perfetto
    from tailrace.sim import simulate

__all__ = [
    "Dataset",
    "Diagnosis",
    "TailraceError",
    "advise",
    "anonymise",
    "diagnose",
    "join",
    "read",
    "read_experiment",
    "simulate",
    "windows",
    "write_pcap",
    "write_perfetto",
    "write_report",
]

_HOMES = {
    "Dataset": ("tailrace.dataset", "Dataset"),
    "Diagnosis": ("tailrace.diagnosis.finding", "Diagnosis"),
    "TailraceError": ("tailrace.errors", "TailraceError"),
    "advise": ("tailrace.advise", "advise"),
    "anonymise": ("tailrace.anonymise", "anonymise"),
    "diagnose": ("tailrace.diagnosis", "diagnose"),
    "join": ("tailrace.join", "join"),
    "read": ("tailrace.readers", "read"),
    "read_experiment": ("tailrace.experiment", "read"),
    "simulate": ("tailrace.sim", "simulate"),
    "windows": ("tailrace.engines", "windows"),
    "write_pcap": ("tailrace.export", "write_pcap"),
    "write_perfetto": ("tailrace.report", "write_perfetto"),
    "write_report": ("tailrace.report", "write_html"),
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'tailrace' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
