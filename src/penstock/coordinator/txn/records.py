"""The record of `__transaction_state`: the state of a transactional id, in Kafka's format.

In memory the value is a `Transaction`, which `TransactionSerde` encodes and decodes. A cluster with transaction version
0 writes version 0, which has no tagged fields, so that Kafka before 4.0 can read it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache

from penstock.coordinator.result import NEWEST, CoordinatorRecord
from penstock.coordinator.serde import CorruptRecord, RecordSerde, writer_of
from penstock.coordinator.txn.transaction import State, TopicPartition, Transaction
from penstock.protocol.declare import field, record
from penstock.protocol.declare import struct as message_struct
from penstock.protocol.types import Int8, Int16, Int32, Int64
from penstock.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID


@record(key=0, versions=(0, 0))
class TransactionLogKey:
    transactional_id: str


@message_struct
class PartitionsSchema:
    topic: str
    partition_ids: list[Int32]


@record(key=0, versions=(0, 1), flexible=1)
class TransactionLogValue:
    """v1 is flexible, and has the tagged fields (KIP-890, KIP-939)."""

    producer_id: Int64
    previous_producer_id: Int64 = field(since=1, default=-1, tag=0)
    next_producer_id: Int64 = field(since=1, default=-1, tag=1)
    producer_epoch: Int16
    next_producer_epoch: Int16 = field(since=1, default=-1, tag=3)
    transaction_timeout_ms: Int32
    transaction_status: Int8
    transaction_partitions: list[PartitionsSchema] | None
    transaction_last_update_timestamp_ms: Int64
    transaction_start_timestamp_ms: Int64
    client_transaction_version: Int16 = field(since=1, default=0, tag=2)


TYPES: tuple[tuple[type, type], ...] = ((TransactionLogKey, TransactionLogValue),)


class TransactionSerde(RecordSerde):
    def __init__(self) -> None:
        super().__init__(TYPES)

    def encode(self, record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
        key, value, version = record
        if value is None:
            return write_key(key), None
        return write_key(key), write_value(value) if version == NEWEST else _write_old_value(value)

    def decode(self, key: bytes, value: bytes | None) -> tuple[TransactionLogKey, Transaction | None]:
        decoded_key, decoded = super().decode(key, value)
        return decoded_key, None if decoded is None else read_transaction(decoded)


def read_transaction(value: TransactionLogValue) -> Transaction:
    try:
        state = State(value.transaction_status)
    except ValueError as error:
        raise CorruptRecord(f"no transaction has the state {value.transaction_status}") from error
    next_epoch = value.next_producer_epoch
    if value.next_producer_id != NO_PRODUCER_ID and next_epoch == NO_PRODUCER_EPOCH:
        next_epoch = 0  # Kafka sets a next id when the epochs of the last one are exhausted
    return Transaction(
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions=tuple(
            TopicPartition(topic.topic, partition)
            for topic in value.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
        start_ms=value.transaction_start_timestamp_ms,
        update_ms=value.transaction_last_update_timestamp_ms,
        client_version=value.client_transaction_version,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        next_producer_epoch=next_epoch,
    )


def log_value(transaction: Transaction, version: int) -> TransactionLogValue:
    """The declared value."""
    topics = None
    if transaction.state is not State.EMPTY:
        topics = [
            PartitionsSchema(topic=topic, partition_ids=partitions)
            for topic, partitions in _by_topic(transaction.partitions).items()
        ]
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=topics,
        transaction_last_update_timestamp_ms=transaction.update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
    )
    if version >= 1:
        value.previous_producer_id = transaction.previous_producer_id
        value.next_producer_id = transaction.next_producer_id
        value.next_producer_epoch = transaction.next_producer_epoch
        value.client_transaction_version = transaction.client_version
    return value


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    return by_topic


# Written three times in every transaction, so it is encoded by hand: less than half of the codec's time (bench
# `transactions`). The codec encodes the rare cases.

KEY_TYPE = 0
VALUE_VERSION = 1
KEPT_LENGTH_MAX = 256  # of cached names; 4,096 of the longest would be 130 MB
ONE_BYTE_MAX = 0x7F  # of an unsigned varint

_pack_head = struct.Struct(">hqhiB").pack
_pack_tail = struct.Struct(">qqBBBqBBh").pack
_pack_partition = struct.Struct(">i").pack

_write_any_value = writer_of(TransactionLogValue, head=VALUE_VERSION, version=VALUE_VERSION)
_write_value_0 = writer_of(TransactionLogValue, head=0, version=0)


def write_key(key: TransactionLogKey) -> bytes:
    transactional_id = key.transactional_id
    if len(transactional_id) > KEPT_LENGTH_MAX:
        return _key_of.__wrapped__(transactional_id)
    return _key_of(transactional_id)


@lru_cache(maxsize=1 << 12)
def _key_of(transactional_id: str) -> bytes:
    name = transactional_id.encode()
    return struct.pack(">hh", KEY_TYPE, len(name)) + name


def write_value(transaction: Transaction) -> bytes:
    """In version 1."""
    partitions = _write_partitions(transaction)
    if (
        partitions is None
        or not transaction.client_version
        or transaction.previous_producer_id == NO_PRODUCER_ID
        or transaction.next_producer_id != NO_PRODUCER_ID
    ):
        return _write_any_value(log_value(transaction, VALUE_VERSION))
    head = _pack_head(
        VALUE_VERSION,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.timeout_ms,
        transaction.state,
    )
    tail = _pack_tail(
        transaction.update_ms,
        transaction.start_ms,
        2,  # tagged fields:
        0,  # the previous producer id,
        8,  # bytes
        transaction.previous_producer_id,
        2,  # the client's transaction version,
        2,  # bytes
        transaction.client_version,
    )
    return b"".join((head, partitions, tail))


def _write_partitions(transaction: Transaction) -> bytes | None:
    """None if a count or the length of a name needs more than one byte."""
    if transaction.state is State.EMPTY:
        return b"\0"  # null
    if not transaction.partitions:
        return b"\1"
    by_topic = _by_topic(transaction.partitions)
    if len(by_topic) >= ONE_BYTE_MAX:
        return None
    parts = [bytes((len(by_topic) + 1,))]
    for topic, partitions in by_topic.items():
        name = topic.encode()
        if len(name) >= ONE_BYTE_MAX or len(partitions) >= ONE_BYTE_MAX:
            return None
        parts += (bytes((len(name) + 1,)), name, bytes((len(partitions) + 1,)))
        parts += map(_pack_partition, partitions)
        parts.append(b"\0")  # no tagged fields
    return b"".join(parts)


def _write_old_value(transaction: Transaction) -> bytes:
    return _write_value_0(log_value(transaction, 0))
