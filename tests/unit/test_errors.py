"""Errors have the same sentence on both sides of a process."""

import pickle

import pytest

from tailrace.errors import InputError, OutputError, TailraceError, UsageError


@pytest.mark.parametrize(
    "error",
    [
        TailraceError("nothing is there", where="here", advice="look there"),
        UsageError("3 of 2", where="--seeds"),
        InputError("run/requests.parquet", "ends early", "record it again", column="end", row=3),
        OutputError("run", "no space left on device"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_comes_back_whole_from_a_worker(error: TailraceError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
    assert again.args == error.args
