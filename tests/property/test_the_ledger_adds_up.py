"""For random systems: capacity = done + idle + the part of each cause + unaccounted, for each server and each step."""

from __future__ import annotations

import numpy as np
import pytest

from schema import problems
from tailrace import sim
from tailrace.dataset import Dataset
from tailrace.diagnosis import diagnose, tables, vlrt
from tailrace.diagnosis.constants import STEP_NS
from tailrace.diagnosis.judged import DONE, IDLE, UNACCOUNTED
from tailrace.diagnosis.ledger import account, recorded
from tailrace.diagnosis.ledger.account import Account
from tailrace.diagnosis.ledger.books import Books
from tailrace.diagnosis.ledger.extract import Extract
from tailrace.diagnosis.ledger.losses import Seen
from tailrace.diagnosis.queues import Times
from tailrace.diagnosis.serialise import as_dict
from tailrace.experiment import from_table
from tailrace.score import drawing, graphs
from tailrace.units import MILLISECOND

SEEDS = range(310, 316)


@pytest.fixture(scope="module", params=SEEDS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Even seeds are chains, odd ones graphs."""
    seed: int = request.param
    folder = tmp_path_factory.mktemp("run") / "run"
    sim.simulate(from_table((graphs if seed % 2 else drawing).draw(seed), f"seed {seed}"), folder)
    return Dataset.open(folder)


@pytest.fixture(scope="module")
def drawn_up(run: Dataset) -> Account:
    """One of 200 requests counts as very slow, so that each run has an account."""
    view = tables.look(run, 50 * MILLISECOND)
    slow = vlrt.find(view, int(np.percentile(view.requests["response_ns"].to_numpy(), 99.5)))
    columns = recorded.record(view, slow)
    assert columns is not None
    return account.draw_up(Seen(view, slow, columns.steps), columns)


def books_of(run: Dataset, drawn_up: Account, departure: Times) -> Books:
    calm = np.ones(len(drawn_up.recorded.steps), dtype=bool)
    return Books(tables.look(run, 50 * MILLISECOND).depth, calm, drawn_up, drawn_up.recorded.arrival, departure)


@pytest.fixture(scope="module")
def books(run: Dataset, drawn_up: Account) -> Books:
    """The replay is the recording itself."""
    return books_of(run, drawn_up, drawn_up.recorded.departure)


@pytest.fixture(scope="module")
def whole(books: Books) -> Extract:
    return books.extract(0, len(books.account.recorded.steps))


def test_shares_of_each_step_add_up_to_its_capacity(whole: Extract) -> None:
    for server in whole.servers:
        columns = whole.sheet(server, len(whole.begins)).columns
        assert columns is not None
        assert next(iter(columns.shares)) == DONE
        assert list(columns.shares)[-2:] == [UNACCOUNTED, IDLE]
        each = np.array(list(columns.shares.values()))
        assert each.min() >= 0.0
        assert np.allclose(each.sum(axis=0), 1.0, atol=1e-9)


def test_sums_add_up_to_the_nanosecond(books: Books) -> None:
    steps = len(books.account.recorded.steps)
    for first, last in ((0, steps), (steps // 3, steps // 2), (steps - 1, steps)):
        some = books.extract(first, last)
        for server in some.servers:
            sheet = some.sheet(server, 7)
            lost = sum(one.lost_ns for one in sheet.lost)
            assert sheet.capacity_ns == sheet.done_ns + sheet.idle_ns + lost + sheet.unaccounted_ns
            assert min(sheet.done_ns, sheet.idle_ns, sheet.unaccounted_ns, lost) >= 0


def test_a_server_without_calls_idles_while_it_is_empty(drawn_up: Account, whole: Extract) -> None:
    """It is empty while it idles, apart from what it lost meanwhile."""
    of = drawn_up.recorded
    callers = set(of.server[of.parent[of.parent >= 0]].tolist())
    alone = [s for s in whole.servers if of.number[s] not in callers and drawn_up.replay.cores[of.number[s]] == 1.0]
    assert alone
    for server in alone:
        here = of.server == of.number[server]
        begins, ends = of.start[here], of.departure[here]
        order = np.argsort(begins)
        reached = np.maximum.accumulate(np.concatenate(([0], ends[order])))
        empty = np.clip(np.append(begins[order], len(of.steps) * STEP_NS) - reached, 0, None).sum()
        sheet = whole.sheet(server, 1)
        taken = drawn_up.taken_of(server).sum() * STEP_NS
        assert empty - taken - STEP_NS <= sheet.idle_ns <= empty + STEP_NS


def test_a_diagnosis_fits_the_schema(run: Dataset) -> None:
    assert problems(as_dict(diagnose(run))) == []


def test_the_recording_is_like_itself(run: Dataset, drawn_up: Account, whole: Extract) -> None:
    assert whole.unlike(0.7, 1.4) == ()
    empty = books_of(run, drawn_up, drawn_up.recorded.arrival)
    nobody = empty.extract(0, len(whole.begins))
    assert set(nobody.unlike(0.7, 1.4)) == {
        server for server in whole.servers if whole.of[server].recorded.mean() >= 1.0
    }
