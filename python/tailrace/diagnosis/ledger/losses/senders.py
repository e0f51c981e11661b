"""This module says who sent visits, and which of them are queries for names."""

from __future__ import annotations

import numpy as np

from tailrace.diagnosis.ledger.recorded import Recorded
from tailrace.diagnosis.queues import Times
from tailrace.diagnosis.view import View
from tailrace.diagnosis.words import listing

CLIENTS = "clients"


def is_asked_for_names(view: View, server: str) -> bool:
    """Return whether a server answers queries for names (DNS)."""
    return any(known.name == server and known.protocol == "dns" for known in view.topology.servers)


def callers(recorded: Recorded, visits: Times) -> str:
    """Return the names of all that sent these visits, as words."""
    numbers = np.unique(recorded.caller[visits]).tolist()
    return listing(sorted(recorded.servers[number] if number >= 0 else CLIENTS for number in numbers))
