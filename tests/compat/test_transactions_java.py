"""Kafka's Java client in transactions, beyond the usual loop: fencing, timeouts, offsets, operators."""

from __future__ import annotations

import pytest

from compat.clients.java import run_scenarios
from harness.brokers import Broker

SCENARIOS = (
    "a-second-producer-fences-the-first",
    "empty-transactions",
    "ends-of-readers",
    "fenced-by-an-operator",
    "listed-and-described",
    "offsets-of-an-unknown-member",
    "offsets-pending",
    "producers-described",
    "rolled-back-is-not-read",
    "rolled-back-when-time-is-up",
    "terminated-by-an-operator",
    "timeout-too-long",
    "too-large-a-record",
    "topics-and-partitions-at-once",
    "unfinished-when-the-producer-comes-back",
)


@pytest.fixture(scope="module")
def outcomes(transaction_cluster: Broker) -> dict[str, str]:
    return run_scenarios(transaction_cluster.bootstrap, "transactions")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_java_transactions(outcomes: dict[str, str], scenario: str) -> None:
    assert outcomes[scenario] == "ok"


def test_all_scenarios_are_listed(outcomes: dict[str, str]) -> None:
    assert tuple(outcomes) == SCENARIOS
