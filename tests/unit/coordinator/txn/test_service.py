"""TransactionCoordinator: errors, waiting for the log, producer ids, leadership."""

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


def test_a_transaction_from_start_to_end() -> None:
    async def scenario(harness: Coordination) -> None:
        assert harness.init() == (1000, 0)
        assert harness.add((1000, 0), ORDERS_0) is ErrorCode.NONE
        assert harness.commit((1000, 0)) == (1000, 1)

        (marker,) = harness.partitions.written[ORDERS_0]
        assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (1000, 1, 1)
        assert (marker.is_commit, marker.transaction_version) == (True, 2)
        assert harness.states() == [
            State.EMPTY,
            State.ONGOING,
            State.PREPARE_COMMIT,
            State.COMPLETE_COMMIT,
        ]

    play(scenario)


@pytest.mark.parametrize(
    ("version", "error"), [(3, ErrorCode.INVALID_PRODUCER_EPOCH), (4, ErrorCode.PRODUCER_FENCED)]
)
def test_old_versions_of_init_producer_id_get_invalid_producer_epoch(version: int, error: ErrorCode) -> None:
    async def scenario(harness: Coordination) -> None:
        harness.init()
        harness.init()
        assert harness.init(expected=(1000, 0), version=version) is error

    play(scenario)


@pytest.mark.parametrize(
    ("version", "error"), [(1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, ErrorCode.PRODUCER_FENCED)]
)
def test_old_versions_of_end_txn_get_invalid_producer_epoch(version: int, error: ErrorCode) -> None:
    async def scenario(harness: Coordination) -> None:
        harness.init()
        harness.init()
        assert harness.commit((1000, 0), version=version) is error

    play(scenario)


def test_requests_without_a_transactional_id_are_invalid() -> None:
    async def scenario(harness: Coordination) -> None:
        assert harness.init("") is ErrorCode.INVALID_REQUEST
        assert harness.add((1, 0), ORDERS_0, transactional_id="") is ErrorCode.INVALID_REQUEST
        assert harness.commit((1, 0), transactional_id="") is ErrorCode.INVALID_REQUEST
        assert harness.coordinator.describe("").error_code is ErrorCode.INVALID_REQUEST

    play(scenario)


def test_a_producer_sends_both_id_and_epoch_or_neither() -> None:
    async def scenario(harness: Coordination) -> None:
        assert harness.init(expected=(1000, -1)) is ErrorCode.INVALID_REQUEST
        assert harness.init(expected=(-1, 0)) is ErrorCode.INVALID_REQUEST

    play(scenario)


@pytest.mark.parametrize("timeout_ms", [-1, 0, 900_001, 2**31 - 1])
def test_a_timeout_out_of_bounds_is_refused(timeout_ms: int) -> None:
    async def scenario(harness: Coordination) -> None:
        assert harness.init(timeout_ms=timeout_ms) is ErrorCode.INVALID_TRANSACTION_TIMEOUT
        assert harness.init(timeout_ms=900_000) == (1000, 0)

    play(scenario)


def test_requests_are_refused_before_the_topic_exists_or_if_another_node_leads() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.coordinator.resigned(0)
        assert harness.init() is ErrorCode.NOT_COORDINATOR
        assert harness.coordinator.describe("t").error_code is ErrorCode.NOT_COORDINATOR

        harness.has_topic = False
        harness.announce()
        assert harness.init() is ErrorCode.COORDINATOR_NOT_AVAILABLE

    play(scenario)


def test_response_and_markers_wait_until_the_record_is_committed() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.init()
        harness.add((1000, 0), ORDERS_0)
        harness.log.commits_at_once = False

        ending = harness.coordinator.end(end_request((1000, 0), is_commit=True), version=5)
        assert isinstance(ending, asyncio.Future)
        assert harness.partitions.attempts == []

        harness.log.commit()
        assert (await ending).producer_epoch == 1
        assert harness.partitions.ends(ORDERS_0) == [True]
        assert harness.state() is State.COMPLETE_COMMIT
        assert harness.coordinator.describe("t").transaction_state == "PrepareCommit"
        harness.log.commit()
        assert harness.coordinator.describe("t").transaction_state == "CompleteCommit"

    play(scenario)


def test_no_markers_are_written_for_a_decision_that_was_not_committed() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.init()
        harness.add((1000, 0), ORDERS_0)
        harness.log.commits_at_once = False

        ending = harness.coordinator.end(end_request((1000, 0), is_commit=True), version=5)
        assert isinstance(ending, asyncio.Future)
        harness.log.lose_leadership()
        with pytest.raises(Refused) as refused:
            await ending
        assert refused.value.error is ErrorCode.NOT_COORDINATOR
        assert harness.partitions.attempts == []

    play(scenario)


def test_consecutive_requests_do_not_wait_for_the_log_in_between() -> None:
    """Kafka answers CONCURRENT_TRANSACTIONS while a write is not committed. Here each request waits for it."""

    async def scenario(harness: Coordination) -> None:
        harness.log.commits_at_once = False
        init = harness.coordinator.init_producer_id(init_request(), version=5)
        added = harness.coordinator.add_partitions(
            "t", 1000, 0, [ORDERS_0], verify_only=False, is_version_2=True
        )
        verified = harness.coordinator.add_partitions(
            "t", 1000, 0, [ORDERS_0], verify_only=True, is_version_2=True
        )
        waiting = [init, added, verified]
        assert all(isinstance(each, asyncio.Future) and not each.done() for each in waiting)

        harness.log.commit()
        assert isinstance(init, asyncio.Future)
        assert (await init).producer_id == 1000
        assert isinstance(added, asyncio.Future)
        assert isinstance(verified, asyncio.Future)
        assert await added == await verified == {ORDERS_0: ErrorCode.NONE}

    play(scenario)


def test_producer_ids_that_are_not_available_are_fetched_and_the_response_waits() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.producer_ids.is_at_hand = False
        requests = [
            InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000) for name in "abc"
        ]
        waiting = [harness.coordinator.init_producer_id(request, version=5) for request in requests]
        responses = [await each for each in waiting if isinstance(each, asyncio.Future)]

        assert sorted(response.producer_id for response in responses) == [1000, 1001, 1002]
        assert harness.init("a") == (responses[0].producer_id, 1)

    play(scenario)


def test_a_fetched_producer_id_that_was_not_needed_is_used_next() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.producer_ids.is_at_hand = False
        waiting = [harness.coordinator.init_producer_id(init_request(), version=5) for _ in range(2)]
        responses = [await each for each in waiting if isinstance(each, asyncio.Future)]
        assert [(each.producer_id, each.producer_epoch) for each in responses] == [(1000, 0), (1000, 1)]

        assert harness.init("other") == (1001, 0)

    play(scenario)


@pytest.mark.parametrize("error", [ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT])
def test_a_client_retries_if_the_controller_gives_no_producer_ids(error: ErrorCode) -> None:
    """With an error that every producer retries: other errors are fatal for Java producers before 2.5."""

    async def scenario(harness: Coordination) -> None:
        harness.producer_ids.is_at_hand = False
        harness.producer_ids.refusal = error
        waiting = harness.coordinator.init_producer_id(init_request(), version=5)
        assert isinstance(waiting, asyncio.Future)
        with pytest.raises(Refused) as refused:
            await waiting
        assert refused.value.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    play(scenario)


def test_old_versions_get_invalid_producer_epoch_also_after_waiting_for_an_id() -> None:
    """The epochs are exhausted, and two other requests take the id that was fetched."""

    async def scenario(harness: Coordination) -> None:
        harness.put(Transaction(7, LAST_EPOCH, 60_000, State.EMPTY, (), -1, WALL_MS))
        harness.producer_ids.is_at_hand = False
        requests = [init_request(), init_request(), init_request(producer_id=7, producer_epoch=LAST_EPOCH)]
        waiting = [harness.coordinator.init_producer_id(request, version=3) for request in requests]
        *ahead, fenced = await asyncio.gather(
            *(each for each in waiting if isinstance(each, asyncio.Future)), return_exceptions=True
        )
        assert [(each.producer_id, each.producer_epoch) for each in ahead] == [(1000, 0), (1000, 1)]
        assert isinstance(fenced, Refused)
        assert fenced.error is ErrorCode.INVALID_PRODUCER_EPOCH

    play(scenario)


def test_closing_fails_requests_that_wait_for_producer_ids() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.producer_ids.is_at_hand = False
        waiting = harness.coordinator.init_producer_id(init_request(), version=5)
        assert isinstance(waiting, asyncio.Future)
        await harness.coordinator.close()
        assert waiting.cancelled()

    play(scenario)


def test_markers_have_the_leader_epoch_of_the_shards_partition() -> None:
    async def scenario(harness: Coordination) -> None:
        for _ in range(3):
            harness.elect()
        harness.init()
        harness.add((1000, 0), ORDERS_0)
        harness.abort((1000, 0))
        assert [marker.coordinator_epoch for marker in harness.partitions.written[ORDERS_0]] == [4]

    play(scenario)
