"""Cores of the quorum keep Raft's rules in faulty worlds, and deliberate bugs do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.quorum.core import QuorumCore
from unit.quorum import core_bugs
from unit.quorum.core_simulation import Simulation
from unit.quorum.script_runner import Script, run_script

SEEDS_IN_SUITE = 25
SCRIPTS = Path(__file__).parent / "scripts"


def test_cores_keep_the_rules_of_raft(pytestconfig: pytest.Config) -> None:
    first = pytestconfig.getoption("--seed") or 0
    count = pytestconfig.getoption("--seeds") or SEEDS_IN_SUITE
    for seed in range(first, first + count):
        simulation = Simulation(seed)
        try:
            simulation.run()
        except Exception as error:
            error.add_note(f"seed {seed} repeats it: pytest {__file__} --seed {seed} --seeds 1")
            raise
        assert simulation.committed


@pytest.mark.parametrize(
    ("bug", "seed"),
    [
        (core_bugs.ElectsWithoutLogCheck, 1),
        (core_bugs.AcknowledgesBeforeSync, 98),
        (core_bugs.CountsItsUnsyncedLog, 5),
        (core_bugs.LeadsOnAfterRestart, 0),
        (core_bugs.TrustsLateAnswers, 1),
        (core_bugs.ForgetsToTruncate, 23),
        (core_bugs.KeepsTruncatedVoters, 17),
        (core_bugs.ChangesManyVotersAtOnce, 172),
    ],
)
def test_a_deliberate_bug_is_found(bug: Callable[..., QuorumCore], seed: int) -> None:
    assert core_bugs.find(bug, range(seed, seed + 1)) is not None


# Nodes 1 and 2 ask for votes in epoch 1. Node 3 votes for node 1, crashes, and is asked by node 2.
TWO_CANDIDATES = """
cluster 1 2 3
cut 1 2
drop
advance 1000 1 2
deliver 1 3
deliver 2 3
deliver 3 1
deliver 3 2
hold 3 {held}
deliver 1 3
deliver 3 1
fail 3
crash 3
restart 3
advance 20 2
deliver 2 3
deliver 3 2
"""


@pytest.mark.parametrize(
    ("make_core", "held", "leaders"),
    [
        (QuorumCore, "sync", [1]),
        (core_bugs.ForgetsVotes, "sync", [1, 2]),
        (QuorumCore, "save", [2]),
        (core_bugs.VotesBeforeItIsSaved, "save", [1, 2]),
    ],
)
def test_a_vote_that_is_lost_in_a_crash_elects_two_leaders(
    make_core: Callable[..., QuorumCore], held: str, leaders: list[int]
) -> None:
    script = Script(make_core)

    for command in TWO_CANDIDATES.format(held=held).strip().splitlines():
        script.run(command)

    cores = {node_id: replica.core for node_id, replica in script.replicas.items()}
    assert [node_id for node_id, core in cores.items() if core.is_leader and core.epoch == 1] == leaders


def test_a_leader_that_counts_older_epochs_commits_what_can_be_lost() -> None:
    with pytest.raises(AssertionError, match="high watermark"):
        run_script(SCRIPTS / "figure_8.txt", make_core=core_bugs.CommitsOldEpochs)
