"""The schedule of repeated SYNs: the machine's kernel can be made to behave like an older one.

The schedule of 6.5 and later begins with four repetitions 1 s apart (`net.ipv4.tcp_syn_linear_timeouts`); without them
it is that of 3.1 to 6.4. The first timeout of 3 s of kernels before 3.1 cannot be set.
"""

from __future__ import annotations

from pathlib import Path

from tailrace.experiment import Experiment

_LINEAR = "net.ipv4.tcp_syn_linear_timeouts"
_LINEAR_BY_KERNEL = {"linux-6.5": "4", "linux-3.3": "0"}


def problem(experiment: Experiment) -> str | None:
    """Why the experiment's schedule is not available here."""
    wanted = experiment.kernel.syn
    if wanted not in _LINEAR_BY_KERNEL:
        return f"this machine's kernel can do {' and '.join(_LINEAR_BY_KERNEL)}: --set kernel.syn=linux-6.5"
    if wanted == "linux-6.5" and not _has_linear():
        return "this machine's kernel is older than 6.5: --set kernel.syn=linux-3.3"
    return None


def sysctls(experiment: Experiment) -> dict[str, str]:
    return {_LINEAR: _LINEAR_BY_KERNEL[str(experiment.kernel.syn)]} if _has_linear() else {}


def _has_linear() -> bool:
    return (Path("/proc/sys") / _LINEAR.replace(".", "/")).exists()
