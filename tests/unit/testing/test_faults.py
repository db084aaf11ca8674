"""Faults are named as people name them, and a slip is answered with the name that was meant."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.protocol.apis import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.testing.faults import Faults, PendingFault
from penstock.testing.script import Fate, Script


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def faults(script: Script) -> Faults:
    return Faults(script.obey)


def test_a_fault_is_used_up_by_the_requests_it_waits_for(faults: Faults, script: Script) -> None:
    faults.fail("Produce", "NOT_LEADER", times=2)

    assert script.next_for(ApiKey.FETCH) is None
    first, second = script.next_for(ApiKey.PRODUCE), script.next_for(ApiKey.PRODUCE)

    assert first is second is not None
    assert first.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert script.next_for(ApiKey.PRODUCE) is None


def test_faults_of_one_api_happen_in_their_order(faults: Faults, script: Script) -> None:
    faults.drop_response("join_group")
    faults.delay(ApiKey.JOIN_GROUP, seconds=0.5)

    fates = [rule.fate for _ in range(2) if (rule := script.next_for(ApiKey.JOIN_GROUP))]

    assert fates == [Fate.DROP_RESPONSE, Fate.DELAY]


def test_what_is_pending_is_told_and_forgotten(faults: Faults) -> None:
    faults.silence("Heartbeat", times=3)
    faults.drop_request("SyncGroup")

    assert faults.pending == [
        PendingFault("Heartbeat", "silence", 3),
        PendingFault("SyncGroup", "drop_request", 1),
    ]
    faults.clear()
    assert faults.pending == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("Prodce", "NOT_LEADER"), "no API 'Prodce'; did you mean Produce"),
        (
            ("Produce", "NOT_LEADER_OR_FOLOWER"),
            "'NOT_LEADER_OR_FOLOWER'; did you mean NOT_LEADER_OR_FOLLOWER",
        ),
        (("Produce", "NOT_LEADR"), "'NOT_LEADR'; did you mean NOT_LEADER_OR_FOLLOWER"),
        (("Produce", "NOT_"), "no one error is called 'NOT_'"),
    ],
)
def test_a_slip_is_answered_with_what_was_meant(
    faults: Faults, arguments: tuple[str, str], words: str
) -> None:
    with pytest.raises(ValueError, match=words.split(";")[0]) as refused:
        faults.fail(*arguments)
    assert words in str(refused.value)


def test_a_fault_happens_at_least_once(faults: Faults) -> None:
    with pytest.raises(ValueError, match="at least once"):
        faults.drop_request("Produce", times=0)


def test_an_unknown_command_only_tells(script: Script) -> None:
    answer: dict[str, Any] = script.obey({"do": "tell"})

    assert answer == {"rules": []}
