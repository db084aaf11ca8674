"""Faults are given by API and error names; misspelled names are rejected with a suggestion."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.protocol.apis import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.testing.faults import Faults, PendingFault
from penstock.testing.script import FaultKind, FaultScript


@pytest.fixture
def script() -> FaultScript:
    return FaultScript()


@pytest.fixture
def faults(script: FaultScript) -> Faults:
    return Faults(script.execute)


def test_a_fault_is_used_up_by_matching_requests(faults: Faults, script: FaultScript) -> None:
    faults.fail("Produce", "NOT_LEADER", times=2)

    assert script.next_for(ApiKey.FETCH) is None
    first, second = script.next_for(ApiKey.PRODUCE), script.next_for(ApiKey.PRODUCE)

    assert first is second is not None
    assert first.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert script.next_for(ApiKey.PRODUCE) is None


def test_faults_of_one_api_happen_in_order(faults: Faults, script: FaultScript) -> None:
    faults.drop_response("join_group")
    faults.delay(ApiKey.JOIN_GROUP, seconds=0.5)

    fates = [rule.kind for _ in range(2) if (rule := script.next_for(ApiKey.JOIN_GROUP))]

    assert fates == [FaultKind.DROP_RESPONSE, FaultKind.DELAY]


def test_pending_faults_are_listed_and_cleared(faults: Faults) -> None:
    faults.silence("Heartbeat", times=3)
    faults.drop_request("SyncGroup")

    assert faults.pending == [
        PendingFault("Heartbeat", "silence", 3),
        PendingFault("SyncGroup", "drop_request", 1),
    ]
    faults.clear()
    assert faults.pending == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("Prodce", "NOT_LEADER"), "unknown API 'Prodce'; did you mean Produce"),
        (
            ("Produce", "NOT_LEADER_OR_FOLOWER"),
            "'NOT_LEADER_OR_FOLOWER'; did you mean NOT_LEADER_OR_FOLLOWER",
        ),
        (("Produce", "NOT_LEADR"), "'NOT_LEADR'; did you mean NOT_LEADER_OR_FOLLOWER"),
        (("Produce", "NOT_"), "unknown or ambiguous error 'NOT_'"),
    ],
)
def test_a_misspelled_name_is_rejected_with_a_suggestion(
    faults: Faults, arguments: tuple[str, str], message: str
) -> None:
    with pytest.raises(ValueError, match=message.split(";")[0]) as refused:
        faults.fail(*arguments)
    assert message in str(refused.value)


def test_a_fault_happens_at_least_once(faults: Faults) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        faults.drop_request("Produce", times=0)


def test_an_unknown_command_only_lists_the_rules(script: FaultScript) -> None:
    answer: dict[str, Any] = script.execute({"do": "tell"})

    assert answer == {"rules": []}
