"""Kafka's Java client in programs: producer, consumer and admin, beyond what the tools use."""

from __future__ import annotations

import pytest

from compat.clients.java import run_scenarios
from harness.brokers import Broker

SCENARIOS = (
    "acks",
    "auto-create",
    "cluster",
    "configs",
    "consumer-metadata",
    "describe-many-topics",
    "fetch-session",
    "idempotent-producer",
    "list-offsets",
    "log-append-time",
    "log-dirs",
    "offset-policies",
    "producers",
    "quorum",
    "read-committed",
    "small-fetches",
    "too-large",
    "topic-ids",
    "topic-made-again",
    "validate-only",
)


@pytest.fixture(scope="module")
def outcomes(cluster: Broker) -> dict[str, str]:
    return run_scenarios(cluster.bootstrap)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_java_client(outcomes: dict[str, str], scenario: str) -> None:
    assert outcomes[scenario] == "ok"


def test_all_scenarios_are_listed(outcomes: dict[str, str]) -> None:
    assert tuple(outcomes) == SCENARIOS
