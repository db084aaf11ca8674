"""Bugs put into log compaction on purpose. The simulated pipelines must find them: see `harness.mutations`."""

from __future__ import annotations

from typing import Any

import pytest

from harness.mutations import Mutation, expect_detection
from penstock.storage.cleaning import cleaner, eligibility, run
from penstock.storage.cleaning.eligibility import Cleanable
from penstock.storage.cleaning.transactions import TransactionDecisions
from penstock.storage.log import Log
from simulator.clusters.pipelines import run_pipeline_seed

SEEDS_AT_MOST = 60  # half of them compact
WRONG_VALUE = "has the value|different last values|copied more than once|are not copied"


def keeps_the_records_of_aborted_transactions(patch: pytest.MonkeyPatch) -> None:
    decide = TransactionDecisions.decide

    def decide_and_keep(decisions: TransactionDecisions, *batch: Any) -> Any:
        decision = decide(decisions, *batch)
        return decision if batch[0].is_control else decision._replace(discards_records=False)

    patch.setattr(TransactionDecisions, "decide", decide_and_keep)


def compacts_open_transactions(patch: pytest.MonkeyPatch) -> None:
    find = eligibility.find_cleanable

    class WithoutTransactions:
        first_unstable_offset = None

        def __init__(self, log: Log) -> None:
            self._log = log

        def __getattr__(self, name: str) -> Any:
            return getattr(self._log, name)

    def find_cleanable(log: Log, **arguments: Any) -> Cleanable | None:
        return find(WithoutTransactions(log), **arguments)  # type: ignore[arg-type]

    for module in (cleaner, run):
        patch.setattr(module, "find_cleanable", find_cleanable)


def removes_tombstones_before_replicas_have_them(patch: pytest.MonkeyPatch) -> None:
    plan = run.Plan

    def make_plan(**fields: Any) -> run.Plan:
        return plan(**{**fields, "delete_retention_ms": 0})

    patch.setattr(run, "Plan", make_plan)


@pytest.mark.parametrize(
    ("mutation", "likely_seed"),
    [
        (keeps_the_records_of_aborted_transactions, 15),
        (compacts_open_transactions, 13),
        (removes_tombstones_before_replicas_have_them, 6),
    ],
)
def test_the_simulation_finds_this_bug_of_compaction(
    mutation: Mutation, likely_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`likely_seed` found it before, which saves time."""
    seeds = [likely_seed, *range(SEEDS_AT_MOST)]
    expect_detection(mutation, monkeypatch, seeds, run=run_pipeline_seed, match=WRONG_VALUE)
