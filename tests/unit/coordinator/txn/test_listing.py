"""What is told about transactions to those who only look."""

from __future__ import annotations

import asyncio

import pytest

from harness.transaction_shards import ORDERS_0, ORDERS_1, PAYMENTS_0, TIMEOUT_MS, WALL_MS, Coordination, play
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_transactions import TopicData
from penstock.protocol.messages.list_transactions import ListTransactionsRequest


def listed(
    stage: Coordination,
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
    response = stage.coordinator.list(request)
    assert response.error_code is ErrorCode.NONE
    return {each.transactional_id: each.transaction_state for each in response.transaction_states}


def some(stage: Coordination) -> None:
    stage.partitions.is_holding = True
    for number, name in enumerate(["empty", "open", "committing", "done"]):
        me = (1000 + number, 0)
        assert stage.init(name) == me
        if name != "empty":
            stage.add(me, ORDERS_0, transactional_id=name)
        if name in ("committing", "done"):
            stage.end(me, is_commit=name == "committing", transactional_id=name)
        if name == "done":
            stage.partitions.held.pop()[2](ORDERS_0, ErrorCode.NONE)


ALL = {"empty": "Empty", "open": "Ongoing", "committing": "PrepareCommit", "done": "CompleteAbort"}


def test_all_transactions_are_listed_with_their_states() -> None:
    async def scenario(stage: Coordination) -> None:
        some(stage)
        assert listed(stage) == ALL

    play(scenario)


def test_they_are_chosen_by_state_producer_and_name() -> None:
    async def scenario(stage: Coordination) -> None:
        some(stage)
        assert set(listed(stage, "Ongoing", "Empty")) == {"open", "empty"}
        assert set(listed(stage, producer_ids=(1001, 1003, 5))) == {"open", "done"}
        assert set(listed(stage, "Ongoing", producer_ids=(1000,))) == set()
        assert set(listed(stage, pattern=".*n.*")) == {"open", "committing", "done"}
        assert set(listed(stage, pattern="n")) == set(), "all of the name has to match"
        assert listed(stage, pattern="") == ALL

    play(scenario)


def test_they_are_chosen_by_how_long_ago_they_began() -> None:
    async def scenario(stage: Coordination) -> None:
        some(stage)
        await asyncio.sleep(10)
        stage.init("young")
        stage.add((1004, 0), ORDERS_1, transactional_id="young")
        assert listed(stage, duration_ms=9_999) == ALL
        assert listed(stage, duration_ms=10_000) == {"empty": "Empty"}, "it did not begin, as in Kafka"
        assert set(listed(stage, duration_ms=0)) == set(ALL)
        await asyncio.sleep(0.002)
        assert set(listed(stage, duration_ms=0)) == {*ALL, "young"}

    play(scenario)


def test_states_that_nobody_knows_are_named() -> None:
    async def scenario(stage: Coordination) -> None:
        some(stage)
        request = ListTransactionsRequest(
            state_filters=["Ongoing", "ongoing", "Dead"], producer_id_filters=[]
        )
        response = stage.coordinator.list(request)
        assert response.unknown_state_filters == ["ongoing"]
        assert [each.transactional_id for each in response.transaction_states] == ["open"]
        assert listed(stage, "nonsense") == {}

    play(scenario)


def test_a_pattern_that_cannot_be_read_is_refused() -> None:
    async def scenario(stage: Coordination) -> None:
        with pytest.raises(Refused) as refused:
            listed(stage, pattern="(")
        assert refused.value.error is ErrorCode.INVALID_REGULAR_EXPRESSION

    play(scenario)


def test_while_some_are_being_loaded_none_are_listed() -> None:
    async def scenario(stage: Coordination) -> None:
        some(stage)
        stage.coordinator.resigned(0)
        stage.elect()
        with pytest.raises(Refused) as refused:
            listed(stage)
        assert refused.value.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert stage.coordinator.describe("t").error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await asyncio.sleep(1)
        assert set(listed(stage)) == set(ALL)

    play(scenario)


def test_what_is_not_committed_is_not_told() -> None:
    async def scenario(stage: Coordination) -> None:
        stage.init()
        stage.log.commits_at_once = False
        adding = stage.coordinator.add_partitions(
            "t", 1000, 0, [ORDERS_0], verify_only=False, is_version_2=True
        )
        assert listed(stage) == {"t": "Empty"}
        assert stage.coordinator.describe("t").transaction_state == "Empty"
        stage.log.commit()
        assert listed(stage) == {"t": "Ongoing"}
        assert isinstance(adding, asyncio.Future)
        await adding

    play(scenario)


def test_a_description_tells_everything() -> None:
    async def scenario(stage: Coordination) -> None:
        stage.init()
        stage.add((1000, 0), ORDERS_1, PAYMENTS_0, ORDERS_0)
        described = stage.coordinator.describe("t")
        assert (described.transactional_id, described.error_code) == ("t", ErrorCode.NONE)
        assert (described.transaction_state, described.transaction_timeout_ms) == ("Ongoing", TIMEOUT_MS)
        assert described.transaction_start_time_ms == WALL_MS
        assert (described.producer_id, described.producer_epoch) == (1000, 0)
        assert described.topics == [
            TopicData(topic="orders", partitions=[1, 0]),
            TopicData(topic="payments", partitions=[0]),
        ]
        assert stage.coordinator.describe("u").error_code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND

    play(scenario)


def test_of_a_prepared_transaction_the_identity_is_told_that_its_records_carry() -> None:
    async def scenario(stage: Coordination) -> None:
        stage.init()
        stage.add((1000, 0), ORDERS_0)
        stage.init(keep_prepared_txn=True)
        described = stage.coordinator.describe("t")
        assert (described.producer_id, described.producer_epoch) == (1000, 0)

    play(scenario)
