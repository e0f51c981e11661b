"""This module says who sent visits."""

from __future__ import annotations

import numpy as np

from tailrace.diagnosis.ledger.recorded import Recorded
from tailrace.diagnosis.queues import Times
from tailrace.diagnosis.words import listing

CLIENTS = "clients"


def callers(recorded: Recorded, visits: Times) -> str:
    """Return the names of all that sent these visits, as words."""
    numbers = np.unique(recorded.caller[visits]).tolist()
    return listing(sorted(recorded.servers[number] if number >= 0 else CLIENTS for number in numbers))
