"""Scripted transactions of version 2 and of older versions, and errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from harness.fake_consumer import FakeConsumer
from harness.scripted_cluster import HANG_UP, NOTHING, Led, ScriptedCluster
from harness.scripted_log import ScriptedLogs
from penstock import errors
from penstock.aio import PreparedTransaction, Producer
from penstock.client.prepared_transaction import RecordPlace
from penstock.protocol.apis import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from penstock.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from penstock.protocol.messages.api_versions import ApiVersionsRequest, FinalizedFeatureKey
from penstock.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.protocol.messages.produce import ProduceRequest
from penstock.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

Test = Callable[[Producer], Coroutine[Any, Any, None]]


class World(ScriptedCluster):
    """A coordinator that grants everything; scripts change that."""

    def __init__(self, level: int) -> None:
        super().__init__()
        self.level = level
        self.logs = ScriptedLogs()
        self.epoch = 4
        self.topics["orders"] = {index: Led(leader=1, epoch=1) for index in range(2)}
        self.versions[ApiKey.PRODUCE] = (3, 12)
        grant = self._api_versions
        self.answer(ApiVersionsRequest, lambda request, node: self._with_feature(grant(request, node)))
        self.answer(ProduceRequest, self.logs.produce)
        self.answer(InitProducerIdRequest, self.initialize)
        self.answer(AddPartitionsToTxnRequest, self.add_partitions)
        self.answer(
            AddOffsetsToTxnRequest, lambda request, node: AddOffsetsToTxnResponse(error_code=ErrorCode.NONE)
        )
        self.answer(TxnOffsetCommitRequest, self.commit_offsets)
        self.answer(EndTxnRequest, self.end)

    def _with_feature(self, response: Any) -> Any:
        response.finalized_features = [
            FinalizedFeatureKey(name="transaction.version", max_version_level=self.level, min_version_level=0)
        ]
        return response

    def initialize(self, request: Any, node: Any) -> Any:
        self.epoch += 1
        return InitProducerIdResponse(producer_id=50, producer_epoch=self.epoch)

    def add_partitions(self, request: Any, node: Any, code: ErrorCode = ErrorCode.NONE) -> Any:
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
                        for index in topic.partitions
                    ],
                )
                for topic in request.v3_and_below_topics
            ]
        )

    def commit_offsets(self, request: Any, node: Any, code: ErrorCode = ErrorCode.NONE) -> Any:
        return TxnOffsetCommitResponse(
            topics=[
                TxnOffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        TxnOffsetCommitResponsePartition(
                            partition_index=each.partition_index, error_code=code
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def end(self, request: Any, node: Any) -> Any:
        if self.level < 2:
            return EndTxnResponse()
        self.epoch += 1
        return EndTxnResponse(producer_id=50, producer_epoch=self.epoch)

    def asked(self, *kinds: type[Any]) -> list[Any]:
        return [
            request for node in self.nodes.values() for request in node.asked if isinstance(request, kinds)
        ]

    def with_producer(self, test: Test, **settings: Any) -> None:
        async def main() -> None:
            settings.setdefault("transactional_id", "writer")
            async with Producer(
                self.bootstrap, network=self.network, clock=self.clock, **settings
            ) as producer:
                await test(producer)

        try:
            self.run(main)
        finally:
            self.loop.close()


@pytest.fixture(params=[0, 2], ids=["explicit", "implicit"])
def world(request: pytest.FixtureRequest) -> World:
    return World(request.param)


@pytest.fixture
def explicit() -> World:
    return World(1)


@pytest.fixture
def implicit() -> World:
    return World(2)


def test_requests_of_transactions_before_version_2(explicit: World) -> None:
    async def test(producer: Producer) -> None:
        for _ in range(2):
            async with producer.transaction() as transaction:
                await producer.send("orders", "a", partition=0)
                await producer.send("orders", "b", partition=1)
                await transaction.send_offsets({("input", 0): 5}, "group")

    explicit.with_producer(test)
    kinds = (AddPartitionsToTxnRequest, AddOffsetsToTxnRequest, TxnOffsetCommitRequest, EndTxnRequest)
    names = [type(request).__name__ for request in explicit.asked(*kinds)]
    assert sorted(names) == sorted([kind.__name__ for kind in kinds] * 2)
    assert [header.producer_epoch for header in explicit.logs["orders", 0].headers] == [5, 5]
    assert [header.base_sequence for header in explicit.logs["orders", 0].headers] == [0, 1]
    assert all(header.is_transactional for header in explicit.logs["orders", 0].headers)


def test_requests_of_transactions_of_version_2(implicit: World) -> None:
    async def test(producer: Producer) -> None:
        for _ in range(2):
            async with producer.transaction() as transaction:
                await producer.send("orders", "a", partition=0)
                await transaction.send_offsets({("input", 0): 5}, "group")

    implicit.with_producer(test)
    assert implicit.asked(AddPartitionsToTxnRequest, AddOffsetsToTxnRequest) == []
    assert [(each.committed, each.producer_epoch) for each in implicit.asked(EndTxnRequest)] == [
        (True, 5),
        (True, 6),
    ]
    assert [header.producer_epoch for header in implicit.logs["orders", 0].headers] == [5, 6]
    assert [header.base_sequence for header in implicit.logs["orders", 0].headers] == [0, 0]


def test_an_empty_transaction_sends_no_end_txn(world: World) -> None:
    async def test(producer: Producer) -> None:
        async with producer.transaction():
            pass

    world.with_producer(test)
    assert world.asked(EndTxnRequest) == []


def test_a_coordinator_that_moves_loads_and_disconnects_is_retried(world: World) -> None:
    world.answer_in_turn(
        InitProducerIdRequest,
        HANG_UP,
        InitProducerIdResponse(error_code=ErrorCode.NOT_COORDINATOR, producer_epoch=-1),
        InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, producer_epoch=-1),
        InitProducerIdResponse(error_code=ErrorCode.CONCURRENT_TRANSACTIONS, producer_epoch=-1),
    )
    world.answer_in_turn(
        EndTxnRequest,
        HANG_UP,
        EndTxnResponse(error_code=ErrorCode.CONCURRENT_TRANSACTIONS),
        EndTxnResponse(error_code=ErrorCode.NOT_COORDINATOR),
    )

    async def test(producer: Producer) -> None:
        async with producer.transaction():
            await producer.send("orders", "a", partition=0)

    world.with_producer(test)
    assert world.logs["orders", 0].values == ["a"]


def test_a_cancelled_commit_does_not_rewind_the_consumer(world: World) -> None:
    """The commit may have succeeded. The same messages were returned again, and processed twice."""
    world.answer_in_turn(EndTxnRequest, NOTHING)
    consumer = FakeConsumer()

    async def test(producer: Producer) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1), producer.transaction(consumer=consumer):
                await producer.send("orders", "a", partition=0)
        assert consumer.offset == 10
        with pytest.raises(errors.IllegalState):
            async with producer.transaction(consumer=consumer):
                pass
        assert consumer.offset == 10
        await producer.commit()

    world.with_producer(test)
    assert (consumer.offset, consumer.committed) == (10, 10)
    assert [each.committed for each in world.asked(EndTxnRequest)] == [True, True]


def test_a_commit_cancelled_before_it_is_sent_rewinds_the_consumer(world: World) -> None:
    world.answer(ProduceRequest, lambda request, node: NOTHING)
    consumer = FakeConsumer()

    async def test(producer: Producer) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1), producer.transaction(consumer=consumer):
                await producer.send("orders", "a", partition=0)

    world.with_producer(test, request_timeout_ms=2000, delivery_timeout_ms=3000, linger_ms=0)
    assert consumer.offset == 0
    assert True not in [each.committed for each in world.asked(EndTxnRequest)]


def test_a_rewind_that_another_thread_prevents_is_raised(implicit: World) -> None:
    def in_use() -> None:
        raise errors.ConcurrentUse

    consumer = FakeConsumer()
    consumer.rewind = in_use  # type: ignore[method-assign]

    async def test(producer: Producer) -> None:
        with pytest.raises(errors.ConcurrentUse) as raised:
            async with producer.transaction(consumer=consumer):
                raise ValueError
        assert isinstance(raised.value.__context__, ValueError)

    implicit.with_producer(test)


def test_rejected_partitions_allow_only_abort(explicit: World) -> None:
    explicit.answer(
        AddPartitionsToTxnRequest,
        lambda request, node: explicit.add_partitions(request, node, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    )

    async def test(producer: Producer) -> None:
        await producer.begin()
        receipt = await producer.send("orders", "a", partition=0)
        with pytest.raises(errors.TransactionAborted, match="TOPIC_AUTHORIZATION_FAILED"):
            await producer.commit()
        await producer.abort()
        with pytest.raises(errors.TransactionAborted):
            await receipt
        explicit.answer(AddPartitionsToTxnRequest, explicit.add_partitions)
        async with producer.transaction():
            await producer.send("orders", "b", partition=0)

    explicit.with_producer(test)
    assert explicit.logs["orders", 0].values == ["b"]


def refuse_once(world: World, code: ErrorCode) -> None:
    """The first batch is rejected; all others are written."""
    refused = False

    def script(request: Any, node: Any) -> Any:
        nonlocal refused
        if not refused:
            refused = True
            return world.logs.refuse(request, code)
        return world.logs.produce(request, node)

    world.answer(ProduceRequest, script)


def test_a_rejected_batch_fails_the_commit_and_the_next_transaction_works(world: World) -> None:
    refuse_once(world, ErrorCode.INVALID_RECORD)

    async def test(producer: Producer) -> None:
        with pytest.raises(errors.TransactionAborted, match="INVALID_RECORD"):
            async with producer.transaction():
                await producer.send("orders", "a", partition=0)
        for value in "bc":
            async with producer.transaction():
                await producer.send("orders", value, partition=0)

    world.with_producer(test)
    assert world.logs["orders", 0].values == ["b", "c"]
    assert [each.committed for each in world.asked(EndTxnRequest)] == [False, True, True]
    # The sequence numbers of the rejected batch were lost, so they restart under a new epoch.
    epochs = [header.producer_epoch for header in world.logs["orders", 0].headers]
    assert epochs == ([6, 6] if world.level < 2 else [6, 7])


def test_a_fenced_producer_raises_from_every_call(world: World) -> None:
    world.answer(
        EndTxnRequest, lambda request, node: EndTxnResponse(error_code=ErrorCode.INVALID_PRODUCER_EPOCH)
    )

    async def test(producer: Producer) -> None:
        with pytest.raises(errors.ProducerFenced, match="writer"):
            async with producer.transaction():
                await producer.send("orders", "a", partition=0)
        for call in (producer.begin, producer.abort, producer.commit):
            with pytest.raises(errors.ProducerFenced):
                await call()
        with pytest.raises(errors.ProducerFenced):
            await producer.send("orders", "b")

    world.with_producer(test)


def test_a_producer_fenced_by_a_partition_raises_from_its_first_call(world: World) -> None:
    """The commit and the receipts raised TransactionAborted; only the abort reported the newer producer."""
    world.answer(
        ProduceRequest,
        lambda request, node: world.logs.refuse(request, ErrorCode.INVALID_PRODUCER_EPOCH),
    )
    world.answer(EndTxnRequest, lambda request, node: EndTxnResponse(error_code=ErrorCode.PRODUCER_FENCED))

    async def test(producer: Producer) -> None:
        await producer.begin()
        sent = await producer.send("orders", "a", partition=0)
        unsent = [await producer.send("orders", "b", partition=index) for index in range(2)]
        with pytest.raises(errors.ProducerFenced, match="writer"):
            await producer.commit()
        for receipt in (sent, *unsent):
            with pytest.raises(errors.ProducerFenced):
                await receipt
        prepared = PreparedTransaction("writer", 50, 5)
        for call in (
            producer.begin(),
            producer.send("orders", "c"),
            producer.send_offsets({("input", 0): 5}, "group"),
            producer.flush(),
            producer.commit(),
            producer.abort(),
            producer.init_transactions(),
            producer.prepare_transaction(),
            producer.complete_transaction(prepared),
        ):
            with pytest.raises(errors.ProducerFenced):
                await call

    world.with_producer(test, max_in_flight_requests_per_connection=1)
    assert len(world.asked(EndTxnRequest)) == 1


def test_receipts_of_a_fenced_producer_raise_without_any_other_call(world: World) -> None:
    world.answer(
        ProduceRequest,
        lambda request, node: world.logs.refuse(request, ErrorCode.INVALID_PRODUCER_EPOCH),
    )
    world.answer(EndTxnRequest, lambda request, node: EndTxnResponse(error_code=ErrorCode.PRODUCER_FENCED))

    async def test(producer: Producer) -> None:
        await producer.begin()
        with pytest.raises(errors.ProducerFenced):
            await (await producer.send("orders", "a", partition=0))
        with pytest.raises(errors.ProducerFenced):
            await producer.abort()

    world.with_producer(test)


def test_a_transaction_that_timed_out_is_aborted_and_the_next_one_works(world: World) -> None:
    """The epoch is rejected then too, but the coordinator does not call the producer fenced."""
    refuse_once(world, ErrorCode.INVALID_PRODUCER_EPOCH)

    async def test(producer: Producer) -> None:
        with pytest.raises(errors.TransactionAborted, match="INVALID_PRODUCER_EPOCH"):
            async with producer.transaction():
                await producer.send("orders", "a", partition=0)
        async with producer.transaction():
            await producer.send("orders", "b", partition=0)

    world.with_producer(test)
    assert world.logs["orders", 0].values == ["b"]
    assert [each.committed for each in world.asked(EndTxnRequest)] == [False, True]


def test_an_abort_can_be_repeated_if_the_coordinator_does_not_respond(world: World) -> None:
    refuse_once(world, ErrorCode.INVALID_PRODUCER_EPOCH)
    is_silent = True
    world.answer(EndTxnRequest, lambda request, node: HANG_UP if is_silent else world.end(request, node))

    async def test(producer: Producer) -> None:
        nonlocal is_silent
        await producer.begin()
        with pytest.raises(errors.InvalidProducerEpoch):
            await (await producer.send("orders", "a", partition=0))
        is_silent = False
        await producer.abort()
        async with producer.transaction():
            await producer.send("orders", "b", partition=0)

    world.with_producer(test, max_block_ms=2000)
    assert world.logs["orders", 0].values == ["b"]


def test_offsets_of_a_removed_member_fail_the_transaction(world: World) -> None:
    world.answer(
        TxnOffsetCommitRequest,
        lambda request, node: world.commit_offsets(request, node, ErrorCode.ILLEGAL_GENERATION),
    )

    async def test(producer: Producer) -> None:
        with pytest.raises(errors.IllegalGeneration):
            async with producer.transaction() as transaction:
                await transaction.send_offsets({("input", 0): 5}, "group")

    world.with_producer(test)
    assert [each.committed for each in world.asked(EndTxnRequest)] == [False]


def test_a_timed_out_commit_can_be_repeated(world: World) -> None:
    world.answer(EndTxnRequest, lambda request, node: NOTHING)

    async def test(producer: Producer) -> None:
        await producer.begin()
        await producer.send("orders", "a", partition=0)
        with pytest.raises(errors.TimedOut):
            await producer.commit()
        with pytest.raises(errors.IllegalState, match="outcome of the commit is unknown"):
            await producer.abort()
        world.answer(EndTxnRequest, world.end)
        world.nodes[1].hang_up()
        await producer.commit()
        async with producer.transaction():
            await producer.send("orders", "b", partition=0)

    world.with_producer(test, max_block_ms=2000, request_timeout_ms=1000, delivery_timeout_ms=10_000)
    assert world.logs["orders", 0].values == ["a", "b"]


def test_a_commit_that_waits_for_batches_rejects_new_records(world: World) -> None:
    """What another thread sent meanwhile was written after the end of the transaction, and stopped the producer."""
    refusals: list[Exception] = []

    async def test(producer: Producer) -> None:
        async def send_on() -> None:
            while True:
                try:
                    await producer.send("orders", "other", partition=1)
                except errors.IllegalState as error:
                    refusals.append(error)
                await asyncio.sleep(0.001)

        await producer.begin()
        other = asyncio.create_task(send_on())
        for _ in range(5):
            await producer.send("orders", "mine", partition=0)
            await producer.commit()
            await producer.begin()
        other.cancel()
        await producer.commit()
        await asyncio.gather(other, return_exceptions=True)

    world.with_producer(test, linger_ms=0)
    assert world.logs["orders", 0].values == ["mine"] * 5
    assert "commit" in str(refusals[0])


def test_a_block_cancelled_while_it_commits_is_aborted(world: World) -> None:
    world.answer(ProduceRequest, lambda request, node: NOTHING)

    async def test(producer: Producer) -> None:
        async def block() -> None:
            async with asyncio.timeout(0.1), producer.transaction():
                await producer.send("orders", "a", partition=0)
                world.loop.call_later(0.5, world.answer, ProduceRequest, world.logs.produce)
                world.loop.call_later(0.5, world.nodes[1].hang_up)

        with pytest.raises(TimeoutError):
            await block()
        async with producer.transaction():
            await producer.send("orders", "b", partition=1)

    world.with_producer(test)
    assert [each.committed for each in world.asked(EndTxnRequest)] == [False, True]


def test_closing_aborts_an_open_transaction(world: World) -> None:
    async def test(producer: Producer) -> None:
        await producer.begin()
        await (await producer.send("orders", "a", partition=0))

    world.with_producer(test)
    assert [each.committed for each in world.asked(EndTxnRequest)] == [False]


def test_abort_drops_unsent_records_and_reports_it(world: World) -> None:
    async def test(producer: Producer) -> None:
        await producer.begin()
        receipt = await producer.send("orders", "a", partition=0)
        await producer.abort()
        with pytest.raises(errors.TransactionAborted):
            await receipt
        await producer.flush()

    world.with_producer(test, linger_ms=60_000, delivery_timeout_ms=120_000)
    assert world.logs["orders", 0].values == []


# Prepared transactions


def test_closing_leaves_a_prepared_transaction_open(world: World) -> None:
    kept: list[PreparedTransaction] = []

    async def test(producer: Producer) -> None:
        await producer.begin()
        await producer.send("orders", "a", partition=1)
        kept.append(await producer.prepare_transaction())

    world.with_producer(test, linger_ms=60_000, delivery_timeout_ms=120_000)
    assert world.logs["orders", 1].values == ["a"]
    assert world.asked(EndTxnRequest) == []
    assert kept == [PreparedTransaction("writer", 50, 5, RecordPlace("orders", 1, 0))]


def test_prepare_reports_a_rejected_record(world: World) -> None:
    world.answer(
        ProduceRequest, lambda request, node: world.logs.refuse(request, ErrorCode.MESSAGE_TOO_LARGE)
    )

    async def test(producer: Producer) -> None:
        await producer.begin()
        await producer.send("orders", "a", partition=0)
        with pytest.raises(errors.TransactionAborted, match="MESSAGE_TOO_LARGE"):
            await producer.prepare_transaction()
        await producer.abort()

    world.with_producer(test)


def test_two_phase_commit_is_requested_without_a_timeout(implicit: World) -> None:
    async def test(producer: Producer) -> None:
        await producer.begin()

    implicit.with_producer(test, transaction_two_phase_commit_enable=True)
    (request,) = implicit.asked(InitProducerIdRequest)
    assert (request.enable_2pc, request.keep_prepared_txn) == (True, False)
    assert request.transaction_timeout_ms == 2**31 - 1


def test_a_broker_without_two_phase_commit_has_its_own_error(implicit: World) -> None:
    implicit.versions[ApiKey.INIT_PRODUCER_ID] = (0, 5)

    async def test(producer: Producer) -> None:
        for begin in (producer.begin, producer.init_transactions):
            with pytest.raises(errors.TwoPhaseCommitUnavailable, match="writer"):
                await begin()

    implicit.with_producer(test, transaction_two_phase_commit_enable=True)
    assert implicit.asked(InitProducerIdRequest) == []


def test_a_forbidden_transactional_id_is_not_blamed_on_two_phase_commit(implicit: World) -> None:
    refusal = InitProducerIdResponse(
        error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, producer_epoch=-1
    )
    implicit.answer(InitProducerIdRequest, lambda request, node: refusal)

    async def test(producer: Producer) -> None:
        with pytest.raises(errors.TransactionalIdAuthorizationFailed):
            await producer.begin()

    implicit.with_producer(test)


def test_a_found_prepared_transaction_is_ended_with_the_new_epoch(world: World) -> None:
    found = InitProducerIdResponse(
        producer_id=60, producer_epoch=1, ongoing_txn_producer_id=50, ongoing_txn_producer_epoch=3
    )
    world.answer(InitProducerIdRequest, lambda request, node: found)

    async def test(producer: Producer) -> None:
        prepared = await producer.init_transactions(keep_prepared=True)
        assert prepared == PreparedTransaction("writer", 50, 3)
        assert await producer.complete_transaction(prepared)
        with pytest.raises(errors.IllegalState, match="no transaction is prepared"):
            await producer.complete_transaction(prepared)

    world.with_producer(test)
    (end,) = world.asked(EndTxnRequest)
    assert (end.producer_id, end.producer_epoch, end.committed) == (60, 1, True)


def test_a_transactional_id_is_taken_over_without_the_old_producer_id(world: World) -> None:
    async def test(producer: Producer) -> None:
        for _ in range(2):
            assert await producer.init_transactions() is None
            await producer.begin()
            await producer.send("orders", "a", partition=0)
            await producer.prepare_transaction()

    world.with_producer(test)
    assert [request.producer_id for request in world.asked(InitProducerIdRequest)] == [-1, -1]
    assert [header.base_sequence for header in world.logs["orders", 0].headers] == [0, 0]
