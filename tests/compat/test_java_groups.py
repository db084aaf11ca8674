"""Kafka's Java client in groups, beyond reading and committing: fencing, patterns, changing topics, operators."""

from __future__ import annotations

import pytest

from compat.clients.java import run_scenarios
from harness.brokers import Broker

SCENARIOS = (
    "a-second-static-member-fences-the-first",
    "a-second-static-member-waits-for-the-first",
    "broker-side-pattern",
    "client-side-pattern",
    "committed-by-a-simple-consumer",
    "described-with-operations",
    "group-configs",
    "groups-listed-by-kind",
    "members-removed-by-an-operator",
    "offsets-of-several-groups",
    "partitions-added-classic",
    "partitions-added-consumer",
    "remaining-in-the-group",
    "too-slow-a-member-classic",
    "too-slow-a-member-consumer",
    "topic-deleted-classic",
    "topic-deleted-consumer",
)


@pytest.fixture(scope="module")
def outcomes(group_cluster: Broker) -> dict[str, str]:
    return run_scenarios(group_cluster.bootstrap, "groups")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_java_groups(outcomes: dict[str, str], scenario: str) -> None:
    assert outcomes[scenario] == "ok"


def test_all_scenarios_are_listed(outcomes: dict[str, str]) -> None:
    assert tuple(outcomes) == SCENARIOS
