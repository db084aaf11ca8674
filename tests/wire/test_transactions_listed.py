"""Transactions listed and described, by every filter. Also run against Apache Kafka (`--broker=kafka`)."""

from __future__ import annotations

import pytest

from harness.admin import new_name
from harness.requests import ask
from harness.transactions import TransactionalProducer, describe, listed
from harness.wire import WireConnection
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    TopicData,
    TransactionState,
)
from penstock.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

DAY_MS = 86_400_000
NOTHING = {
    "transaction_state": "",
    "transaction_timeout_ms": 0,
    "transaction_start_time_ms": 0,
    "producer_id": 0,
    "producer_epoch": 0,
    "topics": [],
}


@pytest.fixture
def connection(producing_connection: WireConnection) -> WireConnection:
    return producing_connection


@pytest.fixture
def several(connection: WireConnection, topic_written: str) -> dict[str, TransactionalProducer]:
    """One producer in each state that lasts."""
    found = {
        state: TransactionalProducer.started(connection, new_name("listed"))
        for state in ("Empty", "Ongoing", "CompleteCommit", "CompleteAbort")
    }
    for state, producer in found.items():
        if state != "Empty":
            producer.send(topic_written, b"a")
    found["CompleteCommit"].commit()
    found["CompleteAbort"].abort()
    return found


@pytest.mark.parametrize("version", range(3))
def test_transactions_are_listed_in_any_version(
    connection: WireConnection, several: dict[str, TransactionalProducer], version: int
) -> None:
    found = listed(connection, version=version)

    assert {
        name: found[name] for name in found if name in {each.transactional_id for each in several.values()}
    } == {producer.transactional_id: (producer.producer_id, state) for state, producer in several.items()}


def test_transactions_are_filtered(
    connection: WireConnection, several: dict[str, TransactionalProducer]
) -> None:
    ids = {producer.transactional_id: state for state, producer in several.items()}

    def states(**filters: object) -> list[str]:
        found = listed(connection, **filters)
        return [ids[name] for name in ids if name in found]

    everything = ["Empty", "Ongoing", "CompleteCommit", "CompleteAbort"]
    one = several["Ongoing"]
    assert states() == everything
    assert states(states=["Ongoing"]) == ["Ongoing"]
    assert states(states=["CompleteAbort", "Empty"]) == ["Empty", "CompleteAbort"]
    assert states(states=["PrepareCommit", "PrepareAbort", "Dead", "PrepareEpochFence"]) == []
    assert states(producers=[one.producer_id, several["Empty"].producer_id]) == ["Empty", "Ongoing"]
    assert states(producers=[one.producer_id], states=["Empty"]) == []
    assert states(producers=[-1, 1 << 60]) == []
    assert states(duration_filter=DAY_MS) == ["Empty"], "one that has not begun has done so long ago"
    assert "Ongoing" in states(duration_filter=0)
    assert states(duration_filter=-7) == everything
    assert states(transactional_id_pattern=None) == everything
    assert states(transactional_id_pattern="") == everything
    assert states(transactional_id_pattern="listed-.*") == everything
    assert states(transactional_id_pattern="(?i)LISTED-[0-9]+") == everything
    assert states(transactional_id_pattern="listed") == [], "all of the id has to match"
    assert states(transactional_id_pattern=one.transactional_id) == ["Ongoing"]
    assert states(transactional_id_pattern="listed-.*", states=["Empty"]) == ["Empty"]


def ask_for_list(connection: WireConnection, version: int = 2, **filters: object) -> ListTransactionsResponse:
    request = ListTransactionsRequest(**{"state_filters": [], "producer_id_filters": [], **filters})
    answered = ask(connection, request, version)
    assert isinstance(answered, ListTransactionsResponse)
    return answered


@pytest.mark.parametrize("version", range(3))
def test_unknown_states_are_returned(
    connection: WireConnection, several: dict[str, TransactionalProducer], version: int
) -> None:
    mine = [several["Ongoing"].producer_id]

    some = ask_for_list(
        connection, version, state_filters=["Ongoing", "Dancing", "ongoing"], producer_id_filters=mine
    )
    assert some.error_code is ErrorCode.NONE
    assert sorted(some.unknown_state_filters) == ["Dancing", "ongoing"]
    assert [each.producer_id for each in some.transaction_states] == mine

    none = ask_for_list(connection, version, state_filters=["Dancing"])
    assert (none.error_code, none.unknown_state_filters) == (ErrorCode.NONE, ["Dancing"])
    assert none.transaction_states == []


@pytest.mark.parametrize("pattern", ["[", "listed-(?=1).*", "*"])
def test_a_pattern_that_is_none_is_refused(
    connection: WireConnection, several: dict[str, TransactionalProducer], pattern: str
) -> None:
    answered = ask_for_list(connection, transactional_id_pattern=pattern)

    assert (answered.error_code, answered.transaction_states) == (ErrorCode.INVALID_REGULAR_EXPRESSION, [])


def test_transactions_are_described(
    connection: WireConnection, several: dict[str, TransactionalProducer], topic_written: str
) -> None:
    for state, producer in several.items():
        described = describe(connection, producer.transactional_id)
        assert (described.transaction_start_time_ms > 0) == (state != "Empty")
        assert described == TransactionState(
            error_code=ErrorCode.NONE,
            transactional_id=producer.transactional_id,
            transaction_state=state,
            transaction_timeout_ms=60_000,
            transaction_start_time_ms=described.transaction_start_time_ms,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            topics=[TopicData(topic=topic_written, partitions=[0])] if state == "Ongoing" else [],
        )


def test_several_are_described_at_once_and_in_order(
    connection: WireConnection, several: dict[str, TransactionalProducer]
) -> None:
    known, nobody = several["Empty"].transactional_id, new_name("nobody")
    request = DescribeTransactionsRequest(transactional_ids=[nobody, known, ""])

    answered = ask(connection, request, 0).transaction_states

    assert answered == [
        TransactionState(error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id=nobody, **NOTHING),
        describe(connection, known),
        TransactionState(error_code=ErrorCode.INVALID_REQUEST, transactional_id="", **NOTHING),
    ]
    assert ask(connection, DescribeTransactionsRequest(transactional_ids=[]), 0).transaction_states == []


@pytest.mark.penstock_only("Kafka describes a transaction as often as it is named")
def test_a_small_request_does_not_cause_a_huge_response(
    connection: WireConnection, several: dict[str, TransactionalProducer]
) -> None:
    name = several["Ongoing"].transactional_id
    request = DescribeTransactionsRequest(transactional_ids=[name] * 1000)

    assert ask(connection, request, 0).transaction_states == [describe(connection, name)]
