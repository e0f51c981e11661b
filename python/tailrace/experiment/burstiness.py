"""Bursty think times of a given index of dispersion I (Mi, Casale, Cherkasova, Smirni, ICAC'09).

There are two modes, slow L and fast S. A think time drawn in mode i is exponential with mean m_i; after each draw the
mode changes with probability a (L → S) or b (S → L). With π the share of draws in each mode and g = 1 - a - b:

    E[Z] = π_L m_L + π_S m_S          SCV = 2 (π_L m_L² + π_S m_S²) / E[Z]² - 1
    I = SCV + 2 π_L π_S ((m_L - m_S) / E[Z])² g / (1 - g)

m_S and m_L are fitted to the total demand D, N clients and a knob f as in the published generator, whose eleven
matrices this code reproduces.
"""

from __future__ import annotations

from dataclasses import dataclass

from tailrace.experiment.workloads import Closed


@dataclass(frozen=True)
class Modes:
    """Mean think times in ns, and the chance of leaving each mode after a draw."""

    slow: float
    fast: float
    to_fast: float
    to_slow: float

    @property
    def share_slow(self) -> float:
        return self.to_slow / (self.to_fast + self.to_slow)

    @property
    def mean(self) -> float:
        return self.share_slow * self.slow + (1 - self.share_slow) * self.fast

    @property
    def scv(self) -> float:
        slow = self.share_slow
        return 2 * (slow * self.slow**2 + (1 - slow) * self.fast**2) / self.mean**2 - 1

    @property
    def index_of_dispersion(self) -> float:
        gamma = 1 - self.to_fast - self.to_slow
        spread = self.share_slow * (1 - self.share_slow) * ((self.slow - self.fast) / self.mean) ** 2
        return self.scv + 2 * spread * gamma / (1 - gamma)


def fit(workload: Closed) -> Modes:
    """The modes of a workload whose `problem` is None."""
    fast, slow = _means(workload)
    share_slow = (workload.think - fast) / (slow - fast)
    share_fast = 1 - share_slow
    scv = _scv(workload, fast, slow)
    spread = 2 * share_slow * share_fast * (slow - fast) ** 2 / workload.think**2
    g = (workload.index_of_dispersion - scv) / spread
    return Modes(slow, fast, to_fast=share_fast / (1 + g), to_slow=share_slow / (1 + g))


def problem(workload: Closed) -> str | None:
    """Why no such modes exist; the sentence begins with the key."""
    fast, slow = _means(workload)
    if not fast < workload.think < slow:
        return "burst_knob must make the fast mode faster and the slow mode slower than the think time; raise it"
    least = _scv(workload, fast, slow)
    if workload.index_of_dispersion <= least:
        return f"index_of_dispersion must be 1 or above {least:.3g}, got {workload.index_of_dispersion:g}"
    return None


def _means(workload: Closed) -> tuple[float, float]:
    clients = workload.clients / workload.client_processes
    fast = workload.burst_demand / workload.burst_knob
    return fast, workload.burst_knob * max(clients * workload.burst_demand, workload.think)


def _scv(workload: Closed, fast: float, slow: float) -> float:
    share_slow = (workload.think - fast) / (slow - fast)
    return 2 * (share_slow * slow**2 + (1 - share_slow) * fast**2) / workload.think**2 - 1
