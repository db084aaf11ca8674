"""Kafka's Java client as a program uses it: producer, consumer and admin, beyond what the tools do."""

from __future__ import annotations

import pytest

from compat.clients.java import run_java
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
    """All scenarios, run once in one JVM."""
    lines = run_java("ClientScenarios", cluster.bootstrap).splitlines()
    return dict(line.split("\t", 1) for line in lines)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_java_client(outcomes: dict[str, str], scenario: str) -> None:
    assert outcomes[scenario] == "ok"


def test_no_scenario_is_left_out(outcomes: dict[str, str]) -> None:
    assert tuple(outcomes) == SCENARIOS
