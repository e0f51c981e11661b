"""A change whose effect the twin of a recording predicts is applied to real servers, as root, and has this effect."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tailrace import experiment, readers, testbed
from tailrace.advise import claims
from tailrace.advise.proving import Proof
from tailrace.errors import TailraceError, UsageError
from tailrace.experiment import Experiment
from tailrace.study.engines import TESTBED, Progress
from tailrace.testbed import doctor, load, undoing
from tailrace.testbed.ledger import InUseError
from tailrace.testbed.servers import board
from tailrace.testbed.site import Site
from tailrace.units import SECOND

SITE = Site("tailrace-test")
SYNC = Path(__file__).parents[2] / "experiments/testbed/sync"
SMALL = ["workloads.steady.rate=500", "duration=5s", "ramp=2s", "tiers.web.workers=60", "tiers.web.calls.app.pool=60"]
STALL = "stalls=[{kind='freeze', place='app', at='2 s', for='800 ms'}]"


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    lacking = doctor.missing(doctor.examine(SITE))
    if lacking:
        pytest.skip(lacking)
    if not board.jar().exists():
        pytest.skip("the bulletin board is not built; `make testbed-setup` builds it")
    monkeypatch.setattr(load, "STEP_NS", 2 * SECOND)
    undoing.clean(SITE)
    yield
    shutil.rmtree(SITE.state)


def test_a_longer_backlog_does_what_the_twin_of_the_recording_predicts(machine: None, tmp_path: Path) -> None:
    engine = replace(
        TESTBED,
        make=lambda found, folder, progress: testbed.run(found, folder, readers.fill, site=SITE, progress=progress),
    )
    proof = Proof(experiment.read(SYNC, [*SMALL, STALL]), tmp_path, engine)
    told = claims.read(proof.advise(replications=2, seconds=20.0))
    backlog = next(claim for claim in told if ("tiers", "web", "backlog") in claim.changes)
    now, raised = proof.prove([told[0], backlog], best=1)
    assert now.found is not None
    assert now.found.vlrt > 100
    assert raised.found is not None
    assert raised.found.vlrt < now.found.vlrt / 10
    assert backlog.high < now.found.vlrt / 10


def test_a_testbed_that_is_in_use_says_nothing_of_a_change(tmp_path: Path) -> None:
    """The caller can wait for it; any other fault is why a change could not be measured."""
    nothing = claims.Claim("nothing", {}, 0.0, 0.0, 0.0)

    def proof(fault: TailraceError) -> Proof:
        def make(found: Experiment, folder: Path, progress: Progress) -> None:
            raise fault

        return Proof(experiment.read(SYNC), tmp_path, replace(TESTBED, make=make))

    with pytest.raises(InUseError):
        proof(InUseError(7)).prove([nothing], best=1)
    [row] = proof(UsageError("the disk is full")).prove([nothing], best=1)
    assert (row.found, row.why) == (None, "the disk is full")
