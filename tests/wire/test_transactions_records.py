"""The bytes of transactions in logs: markers, records of `__transaction_state` and of `__consumer_offsets`.

The expected bytes are built here with `struct` only, independently of the broker. Also run against Apache Kafka
(`--broker=kafka`).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import pytest

from harness.admin import new_name
from harness.committed_reads import READ_UNCOMMITTED, read
from harness.group_requests import await_coordinator
from harness.offset_requests import topic_id_of
from harness.requests import ask
from harness.transactions import (
    TransactionalProducer,
    add_offsets,
    await_state,
    describe,
    init,
    partition_of,
    settled,
)
from harness.wire import WireConnection
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from penstock.records import kernel
from penstock.records.batch import BatchHeader, Record

STATE_TOPIC = "__transaction_state"
TRANSACTIONAL, CONTROL = 0x10, 0x20
EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = range(6)
NEVER_MS = -1


@pytest.fixture
def connection(producing_connection: WireConnection) -> WireConnection:
    return producing_connection


@pytest.fixture
def topic(topic_written: str) -> str:
    return topic_written


def records_of(
    connection: WireConnection, topic: str, partition: int = 0
) -> list[tuple[BatchHeader, list[Record]]]:
    """All batches of a short partition."""
    found = []
    offset = 0
    while True:
        data = read(connection, topic, partition=partition, offset=offset, isolation_level=READ_UNCOMMITTED)
        position = 0
        for header in kernel.read_headers(data.records or b""):
            found.append((header, list(kernel.iterate_records(data.records, position))))
            position += header.size_bytes
            offset = header.next_offset
        if offset >= data.high_watermark:
            return found


# -- markers


@pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("version", [4, 5])
def test_a_marker_is_one_control_record(
    connection: WireConnection, producer: TransactionalProducer, topic: str, version: int, is_commit: bool
) -> None:
    producer.send(topic, b"a", b"b")
    mine, epoch = producer.identity
    (producer.commit if is_commit else producer.abort)(version=version)

    _, (header, (record,)) = records_of(connection, topic)

    assert (header.base_offset, header.last_offset, header.record_count) == (2, 2, 1)
    assert (header.leader_epoch, header.magic) == (0, 2)
    assert header.attributes == TRANSACTIONAL | CONTROL
    assert (header.producer_id, header.producer_epoch) == (mine, epoch + (version >= 5))
    assert header.base_sequence == -1
    assert header.base_timestamp == header.max_timestamp == record.timestamp
    assert (record.key, record.headers) == (struct.pack(">hh", 0, is_commit), ())
    assert record.value == struct.pack(">hi", 0, 0), "a version and the epoch of the coordinator"
    assert header.size_bytes == 61 + 17


# -- the log of transactions


class State(NamedTuple):
    """The fields of a record, without its timestamps."""

    producer_id: int
    producer_epoch: int
    status: int
    partitions: dict[str, list[int]] | None = None
    client_version: int = 0
    timeout_ms: int = 60_000

    def encoded(self, *, updated_ms: int, started_ms: int) -> bytes:
        """Version 1 of the value."""
        head = struct.pack(">hqhib", 1, self.producer_id, self.producer_epoch, self.timeout_ms, self.status)
        count = 0 if self.partitions is None else len(self.partitions) + 1
        topics = [_topic(name, indexes) for name, indexes in (self.partitions or {}).items()]
        times = struct.pack(">qq", updated_ms, started_ms)
        return head + bytes([count]) + b"".join(topics) + times + self.tagged_fields()

    def tagged_fields(self) -> bytes:
        """The producer's id before this one, and the client's transaction version."""
        fields = [b"\0\x08" + struct.pack(">q", self.producer_id)]
        if self.client_version:
            fields.append(b"\2\2" + struct.pack(">h", self.client_version))
        return bytes([len(fields)]) + b"".join(fields)

    def times_in(self, value: bytes) -> tuple[int, int]:
        """When the record was written, and when the transaction began."""
        updated_ms, started_ms = struct.unpack_from(">qq", value, len(value) - len(self.tagged_fields()) - 16)
        return updated_ms, started_ms


def _topic(name: str, partitions: list[int]) -> bytes:
    indexes = b"".join(struct.pack(">i", index) for index in partitions)
    return bytes([len(name) + 1]) + name.encode() + bytes([len(partitions) + 1]) + indexes + b"\0"


def states_of(connection: WireConnection, transactional_id: str) -> list[bytes | None]:
    """The values of all records of one transactional id; each must have its own batch."""
    name = transactional_id.encode()
    key = struct.pack(">hh", 0, len(name)) + name
    found = []
    for header, records in records_of(connection, STATE_TOPIC, partition_of(transactional_id)):
        values = [record.value for record in records if record.key == key]
        if values:
            assert (header.attributes, header.producer_id, header.record_count) == (0, -1, 1)
            found += values
    return found


def check_states(connection: WireConnection, transactional_id: str, expected: list[State]) -> None:
    found = states_of(connection, transactional_id)
    assert len(found) == len(expected)
    begun_ms: int | None = None
    for value, state in zip(found, expected, strict=True):
        assert value is not None
        updated_ms, started_ms = state.times_in(value)
        assert value == state.encoded(updated_ms=updated_ms, started_ms=started_ms)
        if state.status == EMPTY:
            assert started_ms == NEVER_MS
        else:
            begun_ms = updated_ms if begun_ms is None else begun_ms
            assert started_ms == begun_ms <= updated_ms
        if state.status in (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT):
            begun_ms = None


def test_records_of_older_producers(
    connection: WireConnection, producer: TransactionalProducer, topic: str
) -> None:
    mine, epoch = producer.identity
    producer.add({topic: [0]})
    producer.add({topic: [0, 1]})
    producer.add({topic: [1]})
    producer.commit(version=4)
    producer.add({topic: [2]})
    producer.abort(version=4)

    check_states(
        connection,
        producer.transactional_id,
        [
            State(mine, 0, EMPTY),
            State(mine, epoch, EMPTY),
            State(mine, epoch, ONGOING, {topic: [0]}),
            State(mine, epoch, ONGOING, {topic: [0, 1]}),
            State(mine, epoch, PREPARE_COMMIT, {topic: [0, 1]}),
            State(mine, epoch, COMPLETE_COMMIT, {}),
            State(mine, epoch, ONGOING, {topic: [2]}),
            State(mine, epoch, PREPARE_ABORT, {topic: [2]}),
            State(mine, epoch, COMPLETE_ABORT, {}),
        ],
    )


def test_records_of_newer_producers(
    connection: WireConnection, producer: TransactionalProducer, topic: str
) -> None:
    mine, epoch = producer.identity
    producer.send(topic, b"a")
    producer.send(topic, b"b")
    producer.send(topic, b"c", partition=1)
    producer.commit()
    producer.send(topic, b"d")
    producer.abort()
    producer.init()

    check_states(
        connection,
        producer.transactional_id,
        [
            State(mine, 0, EMPTY),
            State(mine, epoch, EMPTY),
            State(mine, epoch, ONGOING, {topic: [0]}, 2),
            State(mine, epoch, ONGOING, {topic: [0, 1]}, 2),
            State(mine, epoch + 1, PREPARE_COMMIT, {topic: [0, 1]}, 2),
            State(mine, epoch + 1, COMPLETE_COMMIT, {}, 2),
            State(mine, epoch + 1, ONGOING, {topic: [0]}, 2),
            State(mine, epoch + 2, PREPARE_ABORT, {topic: [0]}, 2),
            State(mine, epoch + 2, COMPLETE_ABORT, {}, 2),
            State(mine, epoch + 3, EMPTY, None, 2),
        ],
    )


def test_records_of_an_init_that_aborts(
    connection: WireConnection, producer: TransactionalProducer, topic: str
) -> None:
    mine, epoch = producer.identity
    producer.add({topic: [1]})
    name = producer.transactional_id
    refused = init(connection, name, timeout_ms=30_000)
    assert refused.error is ErrorCode.CONCURRENT_TRANSACTIONS
    await_state(connection, name, "CompleteAbort")
    settled(lambda: init(connection, name, timeout_ms=30_000), "there is a new epoch")

    check_states(
        connection,
        name,
        [
            State(mine, 0, EMPTY),
            State(mine, epoch, EMPTY),
            State(mine, epoch, ONGOING, {topic: [1]}),
            State(mine, epoch + 1, PREPARE_ABORT, {topic: [1]}, 2),
            State(mine, epoch + 1, COMPLETE_ABORT, {}, 2),
            State(mine, epoch + 2, EMPTY, None, 2, timeout_ms=30_000),
        ],
    )


def test_records_of_an_empty_transaction(connection: WireConnection, producer: TransactionalProducer) -> None:
    mine, epoch = producer.identity
    producer.add({})
    producer.commit()
    producer.abort()

    check_states(
        connection,
        producer.transactional_id,
        [
            State(mine, 0, EMPTY),
            State(mine, epoch, EMPTY),
            State(mine, epoch, ONGOING, {}),
            State(mine, epoch + 1, PREPARE_COMMIT, {}, 2),
            State(mine, epoch + 1, COMPLETE_COMMIT, {}, 2),
            State(mine, epoch + 2, PREPARE_ABORT, {}, 2),
            State(mine, epoch + 2, COMPLETE_ABORT, {}, 2),
        ],
    )


def test_records_of_a_transaction_with_offsets(
    connection: WireConnection, producer: TransactionalProducer
) -> None:
    group = new_name("readers")
    await_coordinator(connection, group)
    mine, epoch = producer.identity
    answered = add_offsets(connection, producer.transactional_id, mine, epoch, group)
    assert answered is ErrorCode.NONE
    producer.commit(version=4)

    offsets = {"__consumer_offsets": [partition_of(group)]}
    check_states(
        connection,
        producer.transactional_id,
        [
            State(mine, 0, EMPTY),
            State(mine, epoch, EMPTY),
            State(mine, epoch, ONGOING, offsets),
            State(mine, epoch, PREPARE_COMMIT, offsets),
            State(mine, epoch, COMPLETE_COMMIT, {}),
        ],
    )


@pytest.mark.parametrize("stem", ["x" * 30_000, "ümläut", "\N{GRINNING FACE}", "a\0b", "../x", " "])
def test_any_text_is_a_transactional_id(connection: WireConnection, stem: str) -> None:
    """And belongs to the partition that every tool expects."""
    name = stem + new_name("")
    producer = TransactionalProducer.started(connection, name)

    assert states_of(connection, name) != []
    assert describe(connection, name).producer_id == producer.producer_id


# -- the log of groups


def test_records_of_offsets_in_a_transaction(
    connection: WireConnection, producer: TransactionalProducer, topic: str
) -> None:
    group, note = new_name("readers"), "a note"
    await_coordinator(connection, group)
    mine, epoch = producer.identity
    partitions = [
        TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata=note),
        TxnOffsetCommitRequestPartition(
            partition_index=1, committed_offset=8, committed_leader_epoch=3, committed_metadata=None
        ),
    ]
    request = TxnOffsetCommitRequest(
        transactional_id=producer.transactional_id,
        group_id=group,
        producer_id=mine,
        producer_epoch=epoch,
        topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=partitions)],
    )
    (answered,) = ask(connection, request, 5).topics
    assert {each.error_code for each in answered.partitions} == {ErrorCode.NONE}
    producer.commit()

    found = [
        (header, records)
        for header, records in records_of(connection, "__consumer_offsets", partition_of(group))
        if header.producer_id == mine
    ]
    (offsets, (first, second)), (marker, (end,)) = found
    assert (offsets.attributes, offsets.producer_epoch) == (TRANSACTIONAL, epoch)
    assert offsets.base_sequence in (-1, 0), "Kafka writes 0 into all of them, and looks at none"
    names = _text(group) + _text(topic)
    assert first.key == struct.pack(">h", 1) + names + struct.pack(">i", 0)
    assert second.key == struct.pack(">h", 1) + names + struct.pack(">i", 1)
    for record, prefix in [
        (first, struct.pack(">hqi", 4, 7, -1) + b"\7a note"),
        (second, struct.pack(">hqi", 4, 8, 3) + b"\1"),
    ]:
        value, at = record.value or b"", len(prefix)
        (committed_ms,) = struct.unpack_from(">q", value, at)
        assert value[:at] == prefix
        assert 0 < committed_ms <= offsets.max_timestamp
        # Kafka leaves the topic's id out of offsets in transactions, and only there.
        assert value[at + 8 :] in (b"\0", b"\1\0\x10" + topic_id_of(connection, topic))
    assert (marker.attributes, marker.producer_epoch) == (TRANSACTIONAL | CONTROL, epoch + 1)
    assert (end.key, end.value) == (struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 0))


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()
