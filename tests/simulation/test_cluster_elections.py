"""The quorum of three controllers under the worst faults has at most one leader in each epoch, and loses nothing."""

from __future__ import annotations

import pytest

from simulator.clusters.elections import run_election_seed
from simulator.clusters.vote_trap import run_vote_trap

SEEDS_IN_SUITE = 60


def test_no_epoch_has_two_leaders_and_no_committed_record_is_lost(seed: int) -> None:
    run_election_seed(seed)


@pytest.mark.parametrize("trap_seed", range(3))
def test_a_voter_that_loses_power_remembers_its_vote(trap_seed: int) -> None:
    assert run_vote_trap(trap_seed), "the trap was not set"
