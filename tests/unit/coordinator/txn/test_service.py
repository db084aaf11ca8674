"""The coordinator as handlers and the node see it: errors, waiting for the log, producer ids, who leads."""

from __future__ import annotations

import asyncio

import pytest

from harness.transaction_shards import ORDERS_0, WALL_MS, Coordination, end_request, play
from penstock.coordinator.txn.transaction import LAST_EPOCH, State, Transaction
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest


def init_request(**fields: int) -> InitProducerIdRequest:
    return InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000, **fields)


def test_a_transaction_from_its_begin_to_its_end() -> None:
    async def scenario(stage: Coordination) -> None:
        assert stage.init() == (1000, 0)
        assert stage.add((1000, 0), ORDERS_0) is ErrorCode.NONE
        assert stage.commit((1000, 0)) == (1000, 1)

        (marker,) = stage.partitions.written[ORDERS_0]
        assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (1000, 1, 1)
        assert (marker.is_commit, marker.transaction_version) == (True, 2)
        assert stage.states() == [
            State.EMPTY,
            State.ONGOING,
            State.PREPARE_COMMIT,
            State.COMPLETE_COMMIT,
        ]

    play(scenario)


@pytest.mark.parametrize(
    ("version", "error"), [(3, ErrorCode.INVALID_PRODUCER_EPOCH), (4, ErrorCode.PRODUCER_FENCED)]
)
def test_fencing_has_another_name_in_old_versions_of_init(version: int, error: ErrorCode) -> None:
    async def scenario(stage: Coordination) -> None:
        stage.init()
        stage.init()
        assert stage.init(expected=(1000, 0), version=version) is error

    play(scenario)


@pytest.mark.parametrize(
    ("version", "error"), [(1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, ErrorCode.PRODUCER_FENCED)]
)
def test_fencing_has_another_name_in_old_versions_of_end(version: int, error: ErrorCode) -> None:
    async def scenario(stage: Coordination) -> None:
        stage.init()
        stage.init()
        assert stage.commit((1000, 0), version=version) is error

    play(scenario)


def test_requests_without_a_transactional_id_are_invalid() -> None:
    async def scenario(stage: Coordination) -> None:
        assert stage.init("") is ErrorCode.INVALID_REQUEST
        assert stage.add((1, 0), ORDERS_0, transactional_id="") is ErrorCode.INVALID_REQUEST
        assert stage.commit((1, 0), transactional_id="") is ErrorCode.INVALID_REQUEST
        assert stage.coordinator.describe("").error_code is ErrorCode.INVALID_REQUEST

    play(scenario)


def test_a_producer_names_id_and_epoch_or_neither() -> None:
    async def scenario(stage: Coordination) -> None:
        assert stage.init(expected=(1000, -1)) is ErrorCode.INVALID_REQUEST
        assert stage.init(expected=(-1, 0)) is ErrorCode.INVALID_REQUEST

    play(scenario)


@pytest.mark.parametrize("timeout_ms", [-1, 0, 900_001, 2**31 - 1])
def test_a_timeout_out_of_bounds_is_refused(timeout_ms: int) -> None:
    async def scenario(stage: Coordination) -> None:
        assert stage.init(timeout_ms=timeout_ms) is ErrorCode.INVALID_TRANSACTION_TIMEOUT
        assert stage.init(timeout_ms=900_000) == (1000, 0)

    play(scenario)


def test_nothing_is_known_before_the_topic_exists_or_where_another_node_leads() -> None:
    async def scenario(stage: Coordination) -> None:
        stage.coordinator.resigned(0)
        assert stage.init() is ErrorCode.NOT_COORDINATOR
        assert stage.coordinator.describe("t").error_code is ErrorCode.NOT_COORDINATOR

        stage.has_topic = False
        stage.announce()
        assert stage.init() is ErrorCode.COORDINATOR_NOT_AVAILABLE

    play(scenario)


def test_an_answer_waits_until_its_record_is_committed_and_markers_wait_with_it() -> None:
    async def scenario(stage: Coordination) -> None:
        stage.init()
        stage.add((1000, 0), ORDERS_0)
        stage.log.commits_at_once = False

        ending = stage.coordinator.end(end_request((1000, 0), is_commit=True), version=5)
        assert isinstance(ending, asyncio.Future)
        assert stage.partitions.attempts == []

        stage.log.commit()
        assert (await ending).producer_epoch == 1
        assert stage.partitions.ends(ORDERS_0) == [True]
        assert stage.state() is State.COMPLETE_COMMIT
        assert stage.coordinator.describe("t").transaction_state == "PrepareCommit"
        stage.log.commit()
        assert stage.coordinator.describe("t").transaction_state == "CompleteCommit"

    play(scenario)


def test_a_decision_that_is_lost_with_its_leader_reaches_no_partition() -> None:
    async def scenario(stage: Coordination) -> None:
        stage.init()
        stage.add((1000, 0), ORDERS_0)
        stage.log.commits_at_once = False

        ending = stage.coordinator.end(end_request((1000, 0), is_commit=True), version=5)
        assert isinstance(ending, asyncio.Future)
        stage.log.lose_leadership()
        with pytest.raises(Refused) as refused:
            await ending
        assert refused.value.error is ErrorCode.NOT_COORDINATOR
        assert stage.partitions.attempts == []

    play(scenario)


def test_requests_that_follow_each_other_need_not_wait_for_the_log_in_between() -> None:
    """Kafka answers CONCURRENT_TRANSACTIONS while a write is under way. Here each waits for what it saw."""

    async def scenario(stage: Coordination) -> None:
        stage.log.commits_at_once = False
        init = stage.coordinator.init_producer_id(init_request(), version=5)
        added = stage.coordinator.add_partitions(
            "t", 1000, 0, [ORDERS_0], verify_only=False, is_version_2=True
        )
        verified = stage.coordinator.add_partitions(
            "t", 1000, 0, [ORDERS_0], verify_only=True, is_version_2=True
        )
        waiting = [init, added, verified]
        assert all(isinstance(each, asyncio.Future) and not each.done() for each in waiting)

        stage.log.commit()
        assert isinstance(init, asyncio.Future)
        assert (await init).producer_id == 1000
        assert isinstance(added, asyncio.Future)
        assert isinstance(verified, asyncio.Future)
        assert await added == await verified == {ORDERS_0: ErrorCode.NONE}

    play(scenario)


def test_producer_ids_that_are_not_at_hand_are_fetched_and_the_answer_waits() -> None:
    async def scenario(stage: Coordination) -> None:
        stage.producer_ids.is_at_hand = False
        requests = [
            InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000) for name in "abc"
        ]
        waiting = [stage.coordinator.init_producer_id(request, version=5) for request in requests]
        responses = [await each for each in waiting if isinstance(each, asyncio.Future)]

        assert sorted(response.producer_id for response in responses) == [1000, 1001, 1002]
        assert stage.init("a") == (responses[0].producer_id, 1)

    play(scenario)


def test_an_id_that_was_fetched_and_not_needed_goes_to_the_next() -> None:
    async def scenario(stage: Coordination) -> None:
        stage.producer_ids.is_at_hand = False
        waiting = [stage.coordinator.init_producer_id(init_request(), version=5) for _ in range(2)]
        responses = [await each for each in waiting if isinstance(each, asyncio.Future)]
        assert [(each.producer_id, each.producer_epoch) for each in responses] == [(1000, 0), (1000, 1)]

        assert stage.init("other") == (1001, 0)

    play(scenario)


@pytest.mark.parametrize("error", [ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT])
def test_a_controller_that_gives_no_ids_is_a_reason_to_try_again(error: ErrorCode) -> None:
    """By a name that every producer knows: to those of Java before 2.5 any other is the end."""

    async def scenario(stage: Coordination) -> None:
        stage.producer_ids.is_at_hand = False
        stage.producer_ids.refusal = error
        waiting = stage.coordinator.init_producer_id(init_request(), version=5)
        assert isinstance(waiting, asyncio.Future)
        with pytest.raises(Refused) as refused:
            await waiting
        assert refused.value.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    play(scenario)


def test_fencing_has_another_name_in_old_versions_also_after_waiting_for_an_id() -> None:
    """The producer's epochs are used up, and two others get ahead of it while an id is fetched."""

    async def scenario(stage: Coordination) -> None:
        stage.put(Transaction(7, LAST_EPOCH, 60_000, State.EMPTY, (), -1, WALL_MS))
        stage.producer_ids.is_at_hand = False
        requests = [init_request(), init_request(), init_request(producer_id=7, producer_epoch=LAST_EPOCH)]
        waiting = [stage.coordinator.init_producer_id(request, version=3) for request in requests]
        *ahead, fenced = await asyncio.gather(
            *(each for each in waiting if isinstance(each, asyncio.Future)), return_exceptions=True
        )
        assert [(each.producer_id, each.producer_epoch) for each in ahead] == [(1000, 0), (1000, 1)]
        assert isinstance(fenced, Refused)
        assert fenced.error is ErrorCode.INVALID_PRODUCER_EPOCH

    play(scenario)


def test_closing_ends_those_who_wait_for_ids() -> None:
    async def scenario(stage: Coordination) -> None:
        stage.producer_ids.is_at_hand = False
        waiting = stage.coordinator.init_producer_id(init_request(), version=5)
        assert isinstance(waiting, asyncio.Future)
        await stage.coordinator.close()
        assert waiting.cancelled()

    play(scenario)


def test_markers_carry_the_leader_epoch_of_the_shards_partition() -> None:
    async def scenario(stage: Coordination) -> None:
        for _ in range(3):
            stage.elect()
        stage.init()
        stage.add((1000, 0), ORDERS_0)
        stage.abort((1000, 0))
        assert [marker.coordinator_epoch for marker in stage.partitions.written[ORDERS_0]] == [4]

    play(scenario)
