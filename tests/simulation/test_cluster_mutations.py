"""Bugs put into quorum and replication on purpose. The simulation must find them: see `harness.mutations`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.mutations import Mutation, expect_detection
from penstock.broker import replica_fetch
from penstock.controller import alter_partition
from penstock.quorum.ready import HardState
from penstock.quorum.roles.follower import Follower
from penstock.quorum.roles.prospective import Prospective
from penstock.quorum.roles.unattached import Unattached
from penstock.quorum.state_file import QuorumStateFile
from penstock.replication import isr, leadership
from penstock.replication.partition import Partition
from penstock.storage.log import Log
from simulator.clusters.elections import run_election_seed
from simulator.clusters.scenario import run_cluster_seed
from simulator.clusters.vote_trap import run_vote_trap

SEEDS_AT_MOST = 40


def acknowledges_before_replication(patch: pytest.MonkeyPatch) -> None:
    def move(partition: Partition, log: Log) -> None:
        former, end_offset = partition.high_watermark, log.durability.end_offset
        if end_offset > former:
            partition._set_high_watermark(log, end_offset)

    patch.setattr(Partition, "_move_high_watermark", move)


def counts_a_fenced_replica(patch: pytest.MonkeyPatch) -> None:
    for module, name in (
        (isr, "is_eligible"),
        (leadership, "is_eligible"),
        (alter_partition, "_is_eligible"),
    ):
        patch.setattr(module, name, lambda *_: True)


def forgets_to_truncate(patch: pytest.MonkeyPatch) -> None:
    """A leader does not report that the log of a follower diverges."""
    patch.setattr(replica_fetch, "diverging_epoch", lambda *_: None)


def elects_without_the_log_check(patch: pytest.MonkeyPatch) -> None:
    def without(role: type[Any]) -> None:
        grants = role.grants
        patch.setattr(role, "grants", lambda *arguments, **_: grants(*arguments, is_up_to_date=True))

    for role in (Follower, Prospective, Unattached):
        without(role)


def forgets_a_vote(patch: pytest.MonkeyPatch) -> None:
    save = QuorumStateFile.save

    def save_without(file: QuorumStateFile, state: HardState, **details: Any) -> None:
        save(file, replace(state, voted=None), **details)

    patch.setattr(QuorumStateFile, "save", save_without)


LOST = "promised|lost|out of range|differ below|OUT_OF_ORDER_SEQUENCE_NUMBER"
"""Records are missing or changed. An idempotent producer sees it first: its next sequence number does not fit."""


@pytest.mark.parametrize(
    ("mutation", "match"),
    [
        (acknowledges_before_replication, LOST),
        (counts_a_fenced_replica, "counts a fenced broker as in sync"),
        (forgets_to_truncate, LOST),
    ],
)
def test_the_simulation_finds_this_bug_of_replication(
    mutation: Mutation, match: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_detection(mutation, monkeypatch, range(SEEDS_AT_MOST), run=run_cluster_seed, match=match)


def test_the_simulation_finds_an_election_without_the_log_check(monkeypatch: pytest.MonkeyPatch) -> None:
    expect_detection(
        elects_without_the_log_check,
        monkeypatch,
        range(SEEDS_AT_MOST),
        run=run_election_seed,
        match="differs at offset|lost committed records",
    )


def test_the_simulation_finds_a_forgotten_vote(monkeypatch: pytest.MonkeyPatch) -> None:
    expect_detection(
        forgets_a_vote,
        monkeypatch,
        range(SEEDS_AT_MOST),
        run=run_vote_trap,
        match="both lead the quorum in epoch",
    )
