"""Transactions over a plain socket, in any version: single requests, and a producer under the control of a test.

Results are easy to compare. Requests are retried only where a client must: while there is no coordinator yet, and
while markers of the previous transaction are being written.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from harness.offset_requests import topic_id_of
from harness.requests import ask, batch
from harness.waiting import wait_until
from harness.wire import WireConnection
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from penstock.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from penstock.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    PartitionResponse,
    TopicRequest,
)
from penstock.protocol.messages.describe_transactions import DescribeTransactionsRequest, TransactionState
from penstock.protocol.messages.end_txn import EndTxnRequest
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.protocol.messages.list_transactions import ListTransactionsRequest
from penstock.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from penstock.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

TRANSACTION = 1
"""The key type of FindCoordinator for transactions."""

TOPIC_ID_PRODUCE_VERSION = 13
BATCHED_ADD_VERSION = 4
EPOCH_TOLD_VERSION = 5  # of EndTxn
VERIFYING = 11  # the last version of Produce that only verifies
ADDING = 12  # the first version that adds partitions itself

NO_PRODUCER = -1

RETRIABLE = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)

Partitions = Mapping[str, Sequence[int]]
Errors = dict[tuple[str, int], ErrorCode]


class Identity(NamedTuple):
    """The result of InitProducerId and EndTxn: error code, and the next producer id and epoch."""

    error: ErrorCode
    producer_id: int
    producer_epoch: int


def await_transactions(connection: WireConnection, transactional_id: str) -> None:
    """Wait until transactions are served: the first request creates the internal topic."""

    def is_found() -> bool:
        request = FindCoordinatorRequest(key=transactional_id, key_type=TRANSACTION)
        found = ask(connection, request, 3)
        assert found.error_code in (ErrorCode.NONE, *RETRIABLE)
        return bool(found.error_code is ErrorCode.NONE)

    wait_until(is_found, f"{transactional_id} has a coordinator")
    wait_until(
        lambda: describe(connection, transactional_id).error_code not in RETRIABLE,
        f"{transactional_id} is served",
    )
    settled(lambda: init(connection, None), "there are producer ids")


def partition_of(name: str, *, partitions: int = 50) -> int:
    """The partition of an internal topic for a transactional id or group: Java's hash of a string."""
    hashed = 0
    for unit in struct.unpack(f">{len(name.encode('utf-16-be')) // 2}H", name.encode("utf-16-be")):
        hashed = (31 * hashed + unit) & 0xFFFFFFFF
    signed = hashed - (1 << 32) if hashed >> 31 else hashed
    return abs(signed) % partitions


def settled(attempt: Callable[[], Any], what: str) -> Any:
    """The first response that is not a reason to retry."""
    answers: list[Any] = []

    def is_settled() -> bool:
        answers.append(attempt())
        return not errors_of(answers[-1]).intersection(RETRIABLE)

    wait_until(is_settled, what)
    return answers[-1]


def errors_of(answer: Any) -> set[ErrorCode]:
    """All error codes of a response, of any shape."""
    if isinstance(answer, dict):
        return set(answer.values())
    if isinstance(answer, Identity):
        return {answer.error}
    return {answer if isinstance(answer, ErrorCode) else answer.error_code}


# -- single requests


def init(
    connection: WireConnection,
    transactional_id: str | None,
    *,
    version: int = 5,
    timeout_ms: int = 60_000,
    **fields: Any,
) -> Identity:
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, **fields
    )
    answered: InitProducerIdResponse = ask(connection, request, version)
    assert answered.throttle_time_ms == 0
    return Identity(ErrorCode(answered.error_code), answered.producer_id, answered.producer_epoch)


def add(
    connection: WireConnection,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    partitions: Partitions,
    *,
    version: int = 3,
    verify_only: bool = False,
) -> Errors:
    """The error code of each partition; the response must have no top-level error."""
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        verify_only=verify_only,
        topics=[
            AddPartitionsToTxnTopic(name=topic, partitions=list(indexes))
            for topic, indexes in partitions.items()
        ],
    )
    if version >= BATCHED_ADD_VERSION:
        return add_batched(connection, transaction, version=version)[transactional_id]
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=producer_epoch,
        v3_and_below_topics=transaction.topics,
    )
    return _added(ask(connection, request, version).results_by_topic_v3_and_below)


def add_to_one(
    connection: WireConnection,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    topic: str,
    **options: Any,
) -> ErrorCode:
    """The error code of adding the first partition of a topic."""
    answered = add(connection, transactional_id, producer_id, producer_epoch, {topic: [0]}, **options)
    return answered[topic, 0]


def add_batched(
    connection: WireConnection, *transactions: AddPartitionsToTxnTransaction, version: int = 5
) -> dict[str, Errors]:
    """Several transactions in one request, as brokers send them."""
    answered = ask(connection, AddPartitionsToTxnRequest(transactions=list(transactions)), version)
    assert answered.error_code is ErrorCode.NONE
    found = {each.transactional_id: _added(each.topic_results) for each in answered.results_by_transaction}
    assert len(found) == len(answered.results_by_transaction)
    return found


def _added(results: Sequence[Any]) -> Errors:
    return {
        (topic.name, partition.partition_index): ErrorCode(partition.partition_error_code)
        for topic in results
        for partition in topic.results_by_partition
    }


def add_offsets(
    connection: WireConnection,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    group: str,
    *,
    version: int = 4,
) -> ErrorCode:
    request = AddOffsetsToTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        group_id=group,
    )
    return ErrorCode(ask(connection, request, version).error_code)


def end(
    connection: WireConnection,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    *,
    committed: bool = True,
    version: int = 5,
) -> Identity:
    request = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        committed=committed,
    )
    answered = ask(connection, request, version)
    return Identity(ErrorCode(answered.error_code), answered.producer_id, answered.producer_epoch)


def produce(
    connection: WireConnection,
    topic: str,
    records: bytes,
    *,
    partition: int = 0,
    transactional_id: str | None = None,
    version: int = ADDING,
    acks: int = -1,
) -> PartitionProduceResponse:
    named = (
        {"name": topic}
        if version < TOPIC_ID_PRODUCE_VERSION
        else {"topic_id": topic_id_of(connection, topic)}
    )
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=10_000,
        topic_data=[
            TopicProduceData(**named, partition_data=[PartitionProduceData(index=partition, records=records)])
        ],
    )
    (answered,) = ask(connection, request, version).responses
    (answer,) = answered.partition_responses
    assert isinstance(answer, PartitionProduceResponse)
    return answer


def marker(
    producer_id: int,
    producer_epoch: int,
    partitions: Partitions,
    *,
    committed: bool = True,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
) -> WritableTxnMarker:
    return WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transaction_result=committed,
        coordinator_epoch=coordinator_epoch,
        transaction_version=transaction_version,
        topics=[
            WritableTxnMarkerTopic(name=topic, partition_indexes=list(indexes))
            for topic, indexes in partitions.items()
        ],
    )


def write_markers(
    connection: WireConnection, *markers: WritableTxnMarker, version: int = 2
) -> dict[int, Errors]:
    """By producer id, the error code of each partition."""
    answered = ask(connection, WriteTxnMarkersRequest(markers=list(markers)), version).markers
    found = {
        each.producer_id: {
            (topic.name, partition.partition_index): ErrorCode(partition.error_code)
            for topic in each.topics
            for partition in topic.partitions
        }
        for each in answered
    }
    assert len(found) == len(answered)
    return found


def describe(connection: WireConnection, transactional_id: str) -> TransactionState:
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    (state,) = ask(connection, request, 0).transaction_states
    assert isinstance(state, TransactionState)
    assert state.transactional_id == transactional_id
    return state


def state_of(connection: WireConnection, transactional_id: str) -> str:
    return describe(connection, transactional_id).transaction_state


def await_state(connection: WireConnection, transactional_id: str, state: str) -> None:
    wait_until(
        lambda: state_of(connection, transactional_id) == state,
        f"the transaction of {transactional_id} is {state}",
    )


def listed(
    connection: WireConnection,
    *,
    version: int = 2,
    states: Sequence[str] = (),
    producers: Sequence[int] = (),
    **filters: Any,
) -> dict[str, tuple[int, str]]:
    """Producer id and state of each transactional id."""
    request = ListTransactionsRequest(
        state_filters=list(states), producer_id_filters=list(producers), **filters
    )
    answered = ask(connection, request, version)
    assert (answered.error_code, answered.unknown_state_filters) == (ErrorCode.NONE, [])
    return {
        each.transactional_id: (each.producer_id, each.transaction_state)
        for each in answered.transaction_states
    }


def producers_of(connection: WireConnection, topic: str, partition: int = 0) -> PartitionResponse:
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[partition])])
    (answered,) = ask(connection, request, 0).topics
    (found,) = answered.partitions
    assert (answered.name, found.partition_index) == (topic, partition)
    assert isinstance(found, PartitionResponse)
    return found


# -- a producer


@dataclass
class TransactionalProducer:
    """One producer with a transactional id. It counts its sequence numbers and uses the epochs that it gets."""

    connection: WireConnection
    transactional_id: str
    timeout_ms: int = 60_000
    producer_id: int = NO_PRODUCER
    producer_epoch: int = NO_PRODUCER
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)

    @classmethod
    def started(
        cls, connection: WireConnection, transactional_id: str, *, timeout_ms: int = 60_000
    ) -> TransactionalProducer:
        producer = cls(connection, transactional_id, timeout_ms)
        await_transactions(connection, transactional_id)
        producer.init()
        return producer

    @property
    def identity(self) -> tuple[int, int]:
        return self.producer_id, self.producer_epoch

    def init(self) -> None:
        answered: Identity = settled(
            lambda: init(self.connection, self.transactional_id, timeout_ms=self.timeout_ms),
            f"{self.transactional_id} has an epoch",
        )
        assert answered.error is ErrorCode.NONE
        self.go_on_with(answered)

    def go_on_with(self, identity: Identity) -> None:
        if (identity.producer_id, identity.producer_epoch) != self.identity:
            self.producer_id, self.producer_epoch = identity.producer_id, identity.producer_epoch
            self.sequences.clear()

    def batch(self, topic: str, *values: bytes, partition: int = 0, **options: Any) -> bytes:
        """The next batch for a partition, not counted yet."""
        fields = {
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
            "base_sequence": self.sequences.get((topic, partition), 0),
            "is_transactional": True,
        }
        return batch(*values, **{**fields, **options})

    def attempt(
        self, topic: str, *values: bytes, partition: int = 0, version: int = ADDING, **options: Any
    ) -> PartitionProduceResponse:
        """Send a batch, and count it if accepted. Waits for an earlier transaction that is still ending."""
        records = self.batch(topic, *values, partition=partition, **options)
        answered: PartitionProduceResponse = settled(
            lambda: produce(
                self.connection,
                topic,
                records,
                partition=partition,
                transactional_id=self.transactional_id,
                version=version,
            ),
            f"{topic}-{partition} accepts or rejects a batch",
        )
        if answered.error_code is ErrorCode.NONE:
            self.sequences[topic, partition] = self.sequences.get((topic, partition), 0) + len(values)
        return answered

    def send(self, topic: str, *values: bytes, partition: int = 0, version: int = ADDING) -> int:
        """Send a batch that must be accepted; its base offset."""
        answered = self.attempt(topic, *values, partition=partition, version=version)
        assert answered.error_code is ErrorCode.NONE, answered
        return answered.base_offset

    def transaction(self, partitions: Partitions) -> AddPartitionsToTxnTransaction:
        """One transaction for a request with several that adds partitions."""
        return AddPartitionsToTxnTransaction(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=list(indexes))
                for topic, indexes in partitions.items()
            ],
        )

    def add(self, partitions: Partitions, *, version: int = 3) -> Errors:
        found: Errors = settled(
            lambda: add(self.connection, self.transactional_id, *self.identity, partitions, version=version),
            "partitions are added or rejected",
        )
        return found

    def end(self, *, committed: bool, version: int = 5) -> Identity:
        """Send once; the result does not change this producer."""
        return end(
            self.connection, self.transactional_id, *self.identity, committed=committed, version=version
        )

    def commit(self, *, version: int = 5) -> None:
        self._ended(committed=True, version=version)

    def abort(self, *, version: int = 5) -> None:
        self._ended(committed=False, version=version)

    def _ended(self, *, committed: bool, version: int) -> None:
        """End the transaction and wait until all its markers are written."""
        ended = self.end(committed=committed, version=version)
        assert ended.error is ErrorCode.NONE, ended
        if version >= EPOCH_TOLD_VERSION:
            self.go_on_with(ended)
        await_state(
            self.connection, self.transactional_id, "CompleteCommit" if committed else "CompleteAbort"
        )
