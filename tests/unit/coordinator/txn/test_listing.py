"""DescribeTransactions and ListTransactions."""

from __future__ import annotations

import asyncio

import pytest

from harness.transaction_shards import ORDERS_0, ORDERS_1, PAYMENTS_0, TIMEOUT_MS, WALL_MS, Coordination, play
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_transactions import TopicData
from penstock.protocol.messages.list_transactions import ListTransactionsRequest


def listed(
    harness: Coordination,
    *states: str,
    producer_ids: tuple[int, ...] = (),
    duration_ms: int = -1,
    pattern: str | None = None,
) -> dict[str, str]:
    request = ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=list(producer_ids),
        duration_filter=duration_ms,
        transactional_id_pattern=pattern,
    )
    response = harness.coordinator.list(request)
    assert response.error_code is ErrorCode.NONE
    return {each.transactional_id: each.transaction_state for each in response.transaction_states}


def some(harness: Coordination) -> None:
    harness.partitions.is_holding = True
    for number, name in enumerate(["empty", "open", "committing", "done"]):
        me = (1000 + number, 0)
        assert harness.init(name) == me
        if name != "empty":
            harness.add(me, ORDERS_0, transactional_id=name)
        if name in ("committing", "done"):
            harness.end(me, is_commit=name == "committing", transactional_id=name)
        if name == "done":
            harness.partitions.held.pop()[2](ORDERS_0, ErrorCode.NONE)


ALL = {"empty": "Empty", "open": "Ongoing", "committing": "PrepareCommit", "done": "CompleteAbort"}


def test_all_transactions_are_listed_with_their_states() -> None:
    async def scenario(harness: Coordination) -> None:
        some(harness)
        assert listed(harness) == ALL

    play(scenario)


def test_transactions_are_filtered_by_state_producer_and_pattern() -> None:
    async def scenario(harness: Coordination) -> None:
        some(harness)
        assert set(listed(harness, "Ongoing", "Empty")) == {"open", "empty"}
        assert set(listed(harness, producer_ids=(1001, 1003, 5))) == {"open", "done"}
        assert set(listed(harness, "Ongoing", producer_ids=(1000,))) == set()
        assert set(listed(harness, pattern=".*n.*")) == {"open", "committing", "done"}
        assert set(listed(harness, pattern="n")) == set(), "all of the name has to match"
        assert listed(harness, pattern="") == ALL

    play(scenario)


def test_transactions_are_filtered_by_duration() -> None:
    async def scenario(harness: Coordination) -> None:
        some(harness)
        await asyncio.sleep(10)
        harness.init("young")
        harness.add((1004, 0), ORDERS_1, transactional_id="young")
        assert listed(harness, duration_ms=9_999) == ALL
        assert listed(harness, duration_ms=10_000) == {"empty": "Empty"}, "it did not begin, as in Kafka"
        assert set(listed(harness, duration_ms=0)) == set(ALL)
        await asyncio.sleep(0.002)
        assert set(listed(harness, duration_ms=0)) == {*ALL, "young"}

    play(scenario)


def test_unknown_state_filters_are_returned() -> None:
    async def scenario(harness: Coordination) -> None:
        some(harness)
        request = ListTransactionsRequest(
            state_filters=["Ongoing", "ongoing", "Dead"], producer_id_filters=[]
        )
        response = harness.coordinator.list(request)
        assert response.unknown_state_filters == ["ongoing"]
        assert [each.transactional_id for each in response.transaction_states] == ["open"]
        assert listed(harness, "nonsense") == {}

    play(scenario)


def test_an_invalid_pattern_is_refused() -> None:
    async def scenario(harness: Coordination) -> None:
        with pytest.raises(Refused) as refused:
            listed(harness, pattern="(")
        assert refused.value.error is ErrorCode.INVALID_REGULAR_EXPRESSION

    play(scenario)


def test_while_shards_are_loading_no_transactions_are_listed() -> None:
    async def scenario(harness: Coordination) -> None:
        some(harness)
        harness.coordinator.resigned(0)
        harness.elect()
        with pytest.raises(Refused) as refused:
            listed(harness)
        assert refused.value.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert harness.coordinator.describe("t").error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await asyncio.sleep(1)
        assert set(listed(harness)) == set(ALL)

    play(scenario)


def test_uncommitted_state_is_not_described() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.init()
        harness.log.commits_at_once = False
        adding = harness.coordinator.add_partitions(
            "t", 1000, 0, [ORDERS_0], verify_only=False, is_version_2=True
        )
        assert listed(harness) == {"t": "Empty"}
        assert harness.coordinator.describe("t").transaction_state == "Empty"
        harness.log.commit()
        assert listed(harness) == {"t": "Ongoing"}
        assert isinstance(adding, asyncio.Future)
        await adding

    play(scenario)


def test_describe_returns_all_fields() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.init()
        harness.add((1000, 0), ORDERS_1, PAYMENTS_0, ORDERS_0)
        described = harness.coordinator.describe("t")
        assert (described.transactional_id, described.error_code) == ("t", ErrorCode.NONE)
        assert (described.transaction_state, described.transaction_timeout_ms) == ("Ongoing", TIMEOUT_MS)
        assert described.transaction_start_time_ms == WALL_MS
        assert (described.producer_id, described.producer_epoch) == (1000, 0)
        assert described.topics == [
            TopicData(topic="orders", partitions=[1, 0]),
            TopicData(topic="payments", partitions=[0]),
        ]
        assert harness.coordinator.describe("u").error_code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND

    play(scenario)


def test_describe_returns_the_identity_in_the_records_of_a_prepared_transaction() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.init()
        harness.add((1000, 0), ORDERS_0)
        harness.init(keep_prepared_txn=True)
        described = harness.coordinator.describe("t")
        assert (described.producer_id, described.producer_epoch) == (1000, 0)

    play(scenario)
