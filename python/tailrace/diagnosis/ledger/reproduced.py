"""This module says when a replay is a model of an episode."""

REPRODUCED = (0.5, 2.0)
"""These limits apply to the very slow requests of the replay divided by those of the recording. Counts of models have
errors of up to two fifths, but still show what is necessary. Outside these limits, the replay is no model of the
episode."""
TOLERATED = 2
"""A difference of so many requests is chance, however few there are."""


def is_reproduced(recorded: int, replayed: int) -> bool:
    """Return whether a replay with so many very slow requests is a model of an episode."""
    low, high = REPRODUCED
    return low * recorded - TOLERATED <= replayed <= high * recorded + TOLERATED
