"""Produce in transactions: asked about first, once, and taken back by an end in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from harness.datapath import Cluster, DataNode, make_batch, partition_record, topic_id_of
from penstock.broker.context import CloseConnection
from penstock.broker.handlers.produce import handle
from penstock.broker.transaction_verification import TransactionVerifier
from penstock.coordinator.txn.transaction import TopicPartition
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from penstock.records.batch import Compression
from penstock.records.control import TxnMarkerEntry
from penstock.replication.transactions import append_marker

NOW = 1_700_000_000_000
Context = Callable[..., Any]
Errors = dict[TopicPartition, ErrorCode]


class Coordinator:
    """A coordinator with a configurable result, at once or later."""

    def __init__(self) -> None:
        self.answers: list[ErrorCode] = []
        self.asked: list[tuple[str, int, int, tuple[TopicPartition, ...], bool]] = []
        self.waiting: asyncio.Future[None] | None = None

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        verify_only: bool,
        is_version_2: bool,
    ) -> Errors | asyncio.Future[Errors]:
        assert verify_only is not is_version_2
        self.asked.append((transactional_id, producer_id, producer_epoch, tuple(partitions), verify_only))
        error = self.answers.pop(0) if self.answers else ErrorCode.NONE
        if self.waiting is not None:
            return asyncio.ensure_future(self._later(partitions, error))
        if error is ErrorCode.NOT_COORDINATOR:
            raise Refused(error, "elsewhere")
        return dict.fromkeys(partitions, error)

    async def _later(self, partitions: Sequence[TopicPartition], error: ErrorCode) -> Errors:
        assert self.waiting is not None
        await self.waiting
        if error is ErrorCode.NOT_COORDINATOR:
            raise Refused(error, "elsewhere")
        return dict.fromkeys(partitions, error)


@pytest.fixture
def coordinator(node: DataNode) -> Coordinator:
    coordinator: Any = Coordinator()
    broker = node.broker
    broker.transactions = coordinator
    broker.transaction_verifier = TransactionVerifier(coordinator, lambda: broker.settings)
    return coordinator  # type: ignore[no-any-return]


def produce(
    *batches: tuple[int, memoryview], acks: int = 1, transactional_id: str | None = "t"
) -> ProduceRequest:
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=30_000,
        topic_data=[
            TopicProduceData(
                name="orders",
                topic_id=topic_id_of("orders"),
                partition_data=[PartitionProduceData(index=index, records=batch) for index, batch in batches],
            )
        ],
    )


def batch(sequence: int = 0, *, producer_id: int = 7, epoch: int = 0, **options: Any) -> memoryview:
    return make_batch(
        b"x",
        timestamp=NOW,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        **{"is_transactional": True, **options},
    )


def large_batch() -> memoryview:
    """A small batch that is too large for the event loop when decompressed."""
    return make_batch(
        bytes(2 << 20),
        timestamp=NOW,
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
        compression=Compression.GZIP,
    )


def answers(response: Any) -> list[PartitionProduceResponse]:
    assert isinstance(response, ProduceResponse)
    (topic,) = response.responses
    return topic.partition_responses


def errors(response: Any) -> list[ErrorCode]:
    return [answer.error_code for answer in answers(response)]


@pytest.mark.parametrize("version", range(3, 14))
async def test_the_first_batch_is_asked_about_and_later_ones_are_not(
    node: DataNode, coordinator: Coordinator, context: Context, version: int
) -> None:
    for sequence in range(3):
        response = handle(node.broker, produce((0, batch(sequence))), context(version=version))
        assert errors(response) == [ErrorCode.NONE]

    assert coordinator.asked == [("t", 7, 0, (TopicPartition("orders", 0),), version < 12)]
    assert node.partition().last_stable_offset == 0


async def test_partitions_are_asked_about_together(
    cluster: Cluster, node: DataNode, coordinator: Coordinator, context: Context
) -> None:
    cluster.publish(*_more_partitions())

    response = handle(node.broker, produce((0, batch()), (1, batch()), (2, batch())), context(version=12))

    assert errors(response) == [ErrorCode.NONE] * 3
    ((_, _, _, partitions, _),) = coordinator.asked
    assert partitions == tuple(TopicPartition("orders", index) for index in range(3))


@pytest.mark.parametrize(
    ("version", "coordinator_error", "expected"),
    [
        (11, ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_ENOUGH_REPLICAS),
        (11, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_ENOUGH_REPLICAS),
        (11, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS),
        (12, ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_ENOUGH_REPLICAS),
        (12, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (10, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE),
        (11, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (12, ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
async def test_errors_of_the_coordinator_are_translated_for_producers(
    node: DataNode,
    coordinator: Coordinator,
    context: Context,
    version: int,
    coordinator_error: ErrorCode,
    expected: ErrorCode,
) -> None:
    coordinator.answers = [coordinator_error]

    response = handle(node.broker, produce((0, batch())), context(version=version))

    assert errors(response) == [expected]
    assert answers(response)[0].error_message
    assert node.partition().log.end_offset == 0


async def test_a_transaction_that_is_being_ended_is_waited_for(
    node: DataNode, coordinator: Coordinator, context: Context
) -> None:
    coordinator.answers = [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS]

    response = await handle(node.broker, produce((0, batch())), context(version=12))  # type: ignore[misc]

    assert errors(response) == [ErrorCode.NONE]
    assert len(coordinator.asked) == 3


async def test_the_end_of_the_previous_transaction_does_not_invalidate_the_guard(
    node: DataNode, coordinator: Coordinator, context: Context
) -> None:
    coordinator.answers = [ErrorCode.CONCURRENT_TRANSACTIONS]
    response = handle(node.broker, produce((0, batch(epoch=1))), context(version=12))
    append_marker(node.partition(), TxnMarkerEntry(7, 1, 0, True, 2), now_ms=NOW)

    assert errors(await response) == [ErrorCode.NONE]  # type: ignore[misc]
    assert node.partition().last_stable_offset == 1


async def test_waiting_for_a_transaction_that_does_not_end_has_an_end(
    node: DataNode, coordinator: Coordinator, context: Context
) -> None:
    coordinator.answers = [ErrorCode.CONCURRENT_TRANSACTIONS] * 1000

    response = await handle(node.broker, produce((0, batch())), context(version=12))  # type: ignore[misc]

    assert errors(response) == [ErrorCode.CONCURRENT_TRANSACTIONS]


@pytest.mark.parametrize("acks", [0, 1, -1])
async def test_records_outlive_the_request_while_the_coordinator_thinks(
    node: DataNode, coordinator: Coordinator, context: Context, acks: int
) -> None:
    coordinator.waiting = asyncio.get_running_loop().create_future()
    records = batch()
    response = handle(node.broker, produce((0, records), acks=acks), context(version=12))
    records[:] = bytes(len(records))  # the buffer is reused for the next request

    coordinator.waiting.set_result(None)
    answer = await response  # type: ignore[misc]

    assert answer is None if acks == 0 else errors(answer) == [ErrorCode.NONE]
    assert node.partition().log.end_offset == 1


async def test_a_late_refusal_is_returned(node: DataNode, coordinator: Coordinator, context: Context) -> None:
    coordinator.waiting = asyncio.get_running_loop().create_future()
    coordinator.answers = [ErrorCode.NOT_COORDINATOR]
    response = handle(node.broker, produce((0, batch())), context(version=12))
    coordinator.waiting.set_result(None)

    assert errors(await response) == [ErrorCode.NOT_ENOUGH_REPLICAS]  # type: ignore[misc]


async def test_an_end_in_between_invalidates_the_guard(
    node: DataNode, coordinator: Coordinator, context: Context
) -> None:
    coordinator.waiting = asyncio.get_running_loop().create_future()
    response = handle(node.broker, produce((0, batch())), context(version=11))
    append_marker(node.partition(), TxnMarkerEntry(7, 0, 0, False, 1), now_ms=NOW)

    coordinator.waiting.set_result(None)

    assert errors(await response) == [ErrorCode.INVALID_TXN_STATE]  # type: ignore[misc]
    assert node.partition().last_stable_offset == 1


async def test_a_disconnected_client_writes_nothing(
    node: DataNode, coordinator: Coordinator, context: Context
) -> None:
    coordinator.waiting = asyncio.get_running_loop().create_future()
    response: Any = handle(node.broker, produce((0, batch())), context(version=12))
    response.cancel()

    coordinator.waiting.set_result(None)
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert node.partition().log.end_offset == 0


async def test_a_slow_batch_waits_for_validation_and_verification(
    node: DataNode, coordinator: Coordinator, context: Context
) -> None:
    coordinator.waiting = asyncio.get_running_loop().create_future()
    response = handle(node.broker, produce((0, large_batch()), acks=-1), context(version=12))

    coordinator.waiting.set_result(None)

    assert errors(await response) == [ErrorCode.NONE]  # type: ignore[misc]
    assert node.partition().log.end_offset == 1


async def test_a_failure_in_the_slow_lane_still_gets_a_response(
    node: DataNode, coordinator: Coordinator, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise MemoryError

    monkeypatch.setattr("penstock.broker.handlers.produce.validate", fail)
    coordinator.waiting = asyncio.get_running_loop().create_future()
    response = handle(node.broker, produce((0, large_batch())), context(version=12))
    coordinator.waiting.set_result(None)

    with pytest.raises(MemoryError):
        await response  # type: ignore[misc]


@pytest.mark.parametrize("version", [11, 12])
async def test_strangers_leave_no_guards_behind(
    node: DataNode, coordinator: Coordinator, context: Context, version: int
) -> None:
    """Whatever they say that they are, and whether a partition is named once, twice, or by two of them."""
    guards = node.partition().log.producers.guards
    for stranger in range(10):
        coordinator.answers = [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
        once, again = batch(producer_id=stranger), batch(1, producer_id=stranger)
        handle(node.broker, produce((0, once), (0, again)), context(version=version))
        other = batch(producer_id=stranger + 100)
        handle(node.broker, produce((0, once), (0, other)), context(version=version))
    assert len(guards) == 0

    coordinator.answers = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    handle(node.broker, produce((0, batch(producer_id=7))), context(version=version))
    assert len(guards) == 1, "who tries again must not be overtaken meanwhile"


async def test_another_producer_does_not_invalidate_the_guard(
    node: DataNode, coordinator: Coordinator, context: Context
) -> None:
    coordinator.waiting = asyncio.get_running_loop().create_future()
    response = handle(node.broker, produce((0, batch())), context(version=12))
    waiting, coordinator.waiting = coordinator.waiting, None
    coordinator.answers = [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    refused = handle(node.broker, produce((0, batch()), transactional_id="other"), context(version=12))
    coordinator.waiting = waiting
    waiting.set_result(None)

    assert errors(refused) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert errors(await response) == [ErrorCode.NONE]  # type: ignore[misc]


@pytest.mark.parametrize("version", [11, 12])
async def test_a_batch_without_a_sequence_does_not_keep_the_next_one_out(
    node: DataNode, coordinator: Coordinator, context: Context, version: int
) -> None:
    """Such a request is refused, and must not change the state of the producer with this id."""
    broken = handle(node.broker, produce((0, batch(-1))), context(version=version))
    response = handle(node.broker, produce((0, batch(0))), context(version=version))

    assert (errors(broken), errors(response)) == ([ErrorCode.INVALID_RECORD], [ErrorCode.NONE])


async def test_two_producers_in_one_request_are_refused(
    cluster: Cluster, node: DataNode, coordinator: Coordinator, context: Context
) -> None:
    cluster.publish(*_more_partitions())
    request = produce((0, batch()), (1, batch(producer_id=8)))

    assert errors(handle(node.broker, request, context(version=12))) == (
        [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
    )
    request.acks = 0
    with pytest.raises(CloseConnection, match="one producer"):
        handle(node.broker, request, context(version=12))
    assert coordinator.asked == []


async def test_transactional_records_without_a_transactional_id_are_refused(
    node: DataNode, coordinator: Coordinator, context: Context
) -> None:
    request = produce((0, batch()), transactional_id=None)

    assert errors(handle(node.broker, request, context(version=12))) == [
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    ]


async def test_batches_outside_of_transactions_are_not_asked_about(
    node: DataNode, coordinator: Coordinator, context: Context
) -> None:
    """A producer with a transactional id may send such ones; they are ordinary."""
    response = handle(node.broker, produce((0, batch(is_transactional=False))), context(version=12))

    assert errors(response) == [ErrorCode.NONE]
    assert coordinator.asked == []


async def test_verification_can_be_switched_off_for_older_producers(
    node: DataNode, coordinator: Coordinator, context: Context
) -> None:
    node.broker.settings = node.broker.settings.with_dynamic(
        cluster={"transaction.partition.verification.enable": "false"}
    )

    assert errors(handle(node.broker, produce((0, batch())), context(version=11))) == [ErrorCode.NONE]
    assert coordinator.asked == []


def _more_partitions() -> list[object]:
    return [partition_record("orders", index) for index in (1, 2)]
