"""Fetch with read_committed: the last stable offset, aborted transactions, and waits.

Also run against Apache Kafka (`--broker=kafka`), except marked tests.
"""

from __future__ import annotations

import select
from collections.abc import Iterator

import pytest

from harness.admin import new_name
from harness.brokers import Broker
from harness.committed_reads import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    aborted,
    committed_values,
    fetch_request,
    offset_at,
    read,
    seen,
)
from harness.requests import ask, batch, create_topic
from harness.transactions import TransactionalProducer, await_transactions, produce, producers_of
from harness.wire import FETCH, WireConnection
from penstock.protocol.apis import ApiKey, api
from penstock.protocol.codec import codec
from penstock.protocol.errors import ErrorCode
from penstock.protocol.headers import encode_request_header, read_response_header
from penstock.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from penstock.protocol.messages.fetch import FetchResponse

NONE = ErrorCode.NONE
VERSIONS = range(4, 19)
LATEST, EARLIEST, OF_LATEST_TIME = -1, -2, -3
NOTHING = (-1, -1)
LONG_MS = 60_000  # longer than any test
FETCH_VERSION = 12


@pytest.fixture
def connection(producing_connection: WireConnection) -> WireConnection:
    return producing_connection


@pytest.fixture
def other_connection(cluster: Broker) -> Iterator[WireConnection]:
    """For readers that wait while others write."""
    with WireConnection(cluster.port) as connection:
        yield connection


@pytest.fixture
def topic(topic_written: str) -> str:
    return topic_written


def producers(connection: WireConnection, count: int) -> list[TransactionalProducer]:
    return [TransactionalProducer.started(connection, new_name("writer")) for _ in range(count)]


def send_plain(connection: WireConnection, topic: str, value: bytes) -> int:
    answered = produce(connection, topic, batch(value))
    assert answered.error_code is NONE
    return answered.base_offset


# -- where readers stop


@pytest.mark.parametrize("version", VERSIONS)
def test_a_fetch_of_committed_records_in_any_version(
    connection: WireConnection, producer: TransactionalProducer, topic: str, version: int
) -> None:
    (other,) = producers(connection, 1)
    producer.send(topic, b"p")
    other.send(topic, b"o1", b"o2")
    send_plain(connection, topic, b"plain")

    def visible(isolation_level: int) -> tuple[object, ...]:
        data = read(connection, topic, version=version, isolation_level=isolation_level)
        assert (data.error_code, data.log_start_offset) == (NONE, 0 if version >= 5 else -1)
        assert data.records is not None
        return data.high_watermark, data.last_stable_offset, aborted(data), seen(data)

    everything: list[object] = [(0, [b"p"]), (1, [b"o1", b"o2"]), (3, [b"plain"])]
    assert visible(READ_COMMITTED) == (4, 0, [], [])
    assert visible(READ_UNCOMMITTED) == (4, 0, None, everything)

    producer.commit()
    everything += [(4, "commit")]
    assert visible(READ_COMMITTED) == (5, 1, [], everything[:1])
    assert visible(READ_UNCOMMITTED) == (5, 1, None, everything)

    left_out = [(other.producer_id, 1)]
    other.abort()
    everything += [(5, "abort")]
    assert visible(READ_COMMITTED) == (6, 6, left_out, everything)
    assert visible(READ_UNCOMMITTED) == (6, 6, None, everything)


def test_the_oldest_open_transaction_determines_the_last_stable_offset(
    connection: WireConnection, topic: str
) -> None:
    several = producers(connection, 4)
    for number, producer in enumerate(several):
        assert producer.send(topic, b"%d" % number) == number

    stable = []
    for number in (2, 0, 3, 1):
        several[number].abort()
        stable.append(read(connection, topic).last_stable_offset)

    assert stable == [0, 1, 1, 8]


def test_an_open_transaction_blocks_only_its_partitions(
    connection: WireConnection, producer: TransactionalProducer, topic: str
) -> None:
    for partition in (0, 1):
        producer.send(topic, b"a", partition=partition)
    produce(connection, topic, batch(b"b"), partition=2)
    producer.add({topic: [2]})

    assert [read(connection, topic, partition=index).last_stable_offset for index in range(3)] == [0, 0, 1]

    producer.commit()
    found = [read(connection, topic, partition=index) for index in range(3)]
    assert [each.last_stable_offset for each in found] == [2, 2, 2]
    assert seen(found[2]) == [(0, [b"b"]), (1, "commit")], "a partition that was added gets its marker"


def test_a_reader_between_the_last_stable_offset_and_the_high_watermark_waits(
    connection: WireConnection, producer: TransactionalProducer, topic: str
) -> None:
    producer.send(topic, b"a")
    producer.send(topic, b"b")

    for offset in (0, 1, 2):
        data = read(connection, topic, offset=offset)
        assert (data.error_code, data.high_watermark, data.last_stable_offset) == (NONE, 2, 0)
        assert (seen(data), aborted(data)) == ([], [])
    for offset in (-1, 3):
        beyond = read(connection, topic, offset=offset)
        assert (beyond.error_code, beyond.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert (beyond.last_stable_offset, aborted(beyond)) == (-1, None)


def test_an_open_transaction_whose_records_were_deleted_blocks_nothing(
    connection: WireConnection, producer: TransactionalProducer, topic: str
) -> None:
    producer.send(topic, b"a")
    send_plain(connection, topic, b"plain")
    deletion = DeleteRecordsTopic(
        name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=-1)]
    )
    (deleted,) = ask(connection, DeleteRecordsRequest(topics=[deletion], timeout_ms=10_000), 2).topics
    assert [each.low_watermark for each in deleted.partitions] == [2]

    data = read(connection, topic, offset=2)
    assert (data.error_code, data.last_stable_offset, data.log_start_offset) == (NONE, 2, 2)
    (known,) = producers_of(connection, topic).active_producers
    assert (known.producer_id, known.current_txn_start_offset) == (producer.producer_id, 0)

    producer.send(topic, b"b")
    assert read(connection, topic, offset=2).last_stable_offset == 2
    producer.commit()
    assert seen(read(connection, topic, offset=2)) == [(2, [b"b"]), (3, "commit")]


# -- aborted transactions


def test_a_fetch_lists_the_aborted_transactions_from_its_offset_on(
    connection: WireConnection, topic: str
) -> None:
    several = producers(connection, 4)
    for number, producer in enumerate(several):
        producer.send(topic, b"%d" % number)
    for number in (2, 0, 3, 1):
        several[number].abort()

    in_order_of_their_ends = [(several[number].producer_id, number) for number in (2, 0, 3, 1)]
    for offset, first in [(0, 0), (3, 0), (4, 0), (5, 1), (6, 2), (7, 3), (8, 4)]:
        assert aborted(read(connection, topic, offset=offset)) == in_order_of_their_ends[first:]


def test_interleaved_transactions_are_visible_or_not_as_a_whole(
    connection: WireConnection, topic: str
) -> None:
    keeper, dropper, mixed = producers(connection, 3)
    expected = []
    for step in range(12):
        for producer in (keeper, dropper, mixed):
            producer.send(topic, b"%d by %d" % (step, producer.producer_id))
        send_plain(connection, topic, b"%d" % step)
        if step % 2:
            keeper.commit()
        if step % 3 == 2:
            dropper.abort()
        if step % 4 == 3:
            (mixed.commit if step % 8 == 3 else mixed.abort)()
        expected += [b"%d by %d" % (step, keeper.producer_id)]
        expected += [b"%d by %d" % (step, mixed.producer_id)] if step < 4 or step >= 8 else []
        expected += [b"%d" % step]

    assert committed_values(read(connection, topic)) == expected

    data = read(connection, topic)
    for offset, _ in seen(data):  # from wherever a reader begins
        found = committed_values(read(connection, topic, offset=offset))
        assert found == expected[len(expected) - len(found) :]


def test_an_aborted_transaction_over_several_segments(
    connection: WireConnection, producer: TransactionalProducer
) -> None:
    topic = new_name("segments")
    create_topic(connection, topic, segment_bytes=str(1 << 20))
    (other,) = producers(connection, 1)
    other.send(topic, b"earlier")
    other.abort()
    for _ in range(8):  # two of them in a segment
        producer.send(topic, bytes(400_000))
    producer.abort()
    send_plain(connection, topic, b"later")

    mine, his = (producer.producer_id, 2), (other.producer_id, 0)
    for offset in range(12):
        data = read(connection, topic, offset=offset, partition_max_bytes=500_000)
        expected = ([his] if offset < 2 else []) + ([mine] if offset < 11 else [])
        assert [each for each in aborted(data) or [] if each in expected] == expected
        assert committed_values(data) == [value for at, value in [(11, b"later")] if at in dict(seen(data))]


def test_aborted_transactions_are_known_after_a_crash(broker: Broker) -> None:
    with WireConnection(broker.port) as connection:
        create_topic(connection, "orders")
        gone, kept, still_open = (
            TransactionalProducer.started(connection, name) for name in ("gone", "kept", "open")
        )
        for producer in (gone, kept, still_open):
            producer.send("orders", producer.transactional_id.encode())
        gone.abort()
        kept.commit()
        before = read(connection, "orders", isolation_level=READ_UNCOMMITTED)

    for stop in (broker.kill, broker.stop):
        stop()
        broker.start()
        with WireConnection(broker.port) as connection:
            await_transactions(connection, "open")
            data = read(connection, "orders")
            assert (data.high_watermark, data.last_stable_offset) == (5, 2)
            assert (aborted(data), committed_values(data)) == ([(gone.producer_id, 0)], [b"kept"])
            again = read(connection, "orders", isolation_level=READ_UNCOMMITTED)
            assert bytes(again.records or b"") == bytes(before.records or b"")

    with WireConnection(broker.port) as connection:
        still_open.connection = connection
        still_open.send("orders", b"goes on")
        still_open.commit()
        assert committed_values(read(connection, "orders")) == [b"kept", b"open", b"goes on"]


# -- readers that wait


def ask_without_waiting(connection: WireConnection, topic: str, **options: int) -> None:
    request = fetch_request(connection, topic, version=FETCH_VERSION, max_wait_ms=LONG_MS, **options)
    head = encode_request_header(ApiKey(FETCH), FETCH_VERSION, 1, "wire")
    connection.send_payload(head + codec(type(request), FETCH_VERSION).encode(request))


def is_answered(connection: WireConnection) -> bool:
    return bool(select.select([connection.socket], [], [], 0)[0])


def answer(connection: WireConnection) -> FetchResponse:
    payload = connection.receive_payload()
    _, position = read_response_header(memoryview(payload), ApiKey.FETCH, FETCH_VERSION)
    response, _ = codec(api(ApiKey.FETCH).response_class(), FETCH_VERSION).decode(payload, position)
    assert isinstance(response, FetchResponse)
    return response


def test_a_reader_is_woken_when_a_transaction_ends(
    connection: WireConnection,
    other_connection: WireConnection,
    producer: TransactionalProducer,
    topic: str,
) -> None:
    producer.send(topic, b"a")
    ask_without_waiting(other_connection, topic)

    producer.send(topic, b"b")
    send_plain(connection, topic, b"plain")
    assert not is_answered(other_connection), "these may not be seen yet"

    producer.commit()
    (answered,) = answer(other_connection).responses
    assert committed_values(answered.partitions[0]) == [b"a", b"b", b"plain"]


def test_a_reader_waits_for_enough_that_is_stable(
    connection: WireConnection,
    other_connection: WireConnection,
    producer: TransactionalProducer,
    topic: str,
) -> None:
    ask_without_waiting(other_connection, topic, min_bytes=1000)
    for _ in range(3):  # two thirds of the wanted bytes, in ended transactions
        producer.send(topic, bytes(60))
        producer.abort()
    producer.send(topic, bytes(2000))
    assert not is_answered(other_connection)

    producer.commit()
    (answered,) = answer(other_connection).responses
    assert committed_values(answered.partitions[0]) == [bytes(2000)]


def test_a_session_of_committed_records(
    connection: WireConnection,
    other_connection: WireConnection,
    producer: TransactionalProducer,
    topic: str,
) -> None:
    producer.send(topic, b"a")
    first = ask(connection, fetch_request(connection, topic, session=(0, 0)), FETCH_VERSION)
    assert [seen(each.partitions[0]) for each in first.responses] == [[]]
    assert first.session_id, "the broker has no room for another session"

    request = fetch_request(connection, topic, session=(first.session_id, 1), max_wait_ms=LONG_MS)
    request.topics = []
    head = encode_request_header(ApiKey(FETCH), FETCH_VERSION, 1, "wire")
    other_connection.send_payload(head + codec(type(request), FETCH_VERSION).encode(request))
    producer.abort()
    (answered,) = answer(other_connection).responses
    assert aborted(answered.partitions[0]) == [(producer.producer_id, 0)]
    assert seen(answered.partitions[0]) == [(0, [b"a"]), (1, "abort")]


# -- offsets


@pytest.mark.parametrize("version", range(2, 12))
def test_the_latest_committed_offset_is_the_last_stable_one(
    connection: WireConnection, producer: TransactionalProducer, topic: str, version: int
) -> None:
    send_plain(connection, topic, b"plain")
    producer.send(topic, b"a")
    send_plain(connection, topic, b"plain")

    def latest(isolation_level: int) -> int:
        return offset_at(connection, topic, LATEST, isolation_level=isolation_level, version=version)[0]

    assert (latest(READ_COMMITTED), latest(READ_UNCOMMITTED)) == (1, 3)
    producer.abort()
    assert (latest(READ_COMMITTED), latest(READ_UNCOMMITTED)) == (4, 4)


def test_offsets_by_time_are_limited_by_the_isolation_level(
    connection: WireConnection, producer: TransactionalProducer, topic: str
) -> None:
    def visible(timestamp: int) -> list[tuple[int, int]]:
        levels = (READ_COMMITTED, READ_UNCOMMITTED)
        return [offset_at(connection, topic, timestamp, isolation_level=level) for level in levels]

    producer.send(topic, b"a")
    first_ms = offset_at(connection, topic, 0, isolation_level=READ_UNCOMMITTED)[1]
    assert visible(EARLIEST) == [(0, -1), (0, -1)]
    assert visible(0) == [NOTHING, (0, first_ms)]
    assert visible(OF_LATEST_TIME) == [NOTHING, (0, first_ms)]

    producer.abort()
    assert visible(0) == [(0, first_ms), (0, first_ms)], (
        "aborted records count, because no record is looked at"
    )
    marked, same = visible(OF_LATEST_TIME)
    assert marked == same
    assert marked[0] in (0, 1)
    assert marked[1] >= first_ms
