"""Produce: acknowledgements, errors, and versions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from harness.datapath import Cluster, DataNode, make_batch, partition_record, topic_id_of
from penstock.broker.context import CloseConnection
from penstock.broker.handlers.produce import handle
from penstock.protocol.codec import codec
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from penstock.records import kernel
from penstock.records.batch import Compression
from penstock.records.convert import down_convert
from penstock.runtime.disk import RealFile

ALL = -1
Context = Callable[..., Any]


def produce(
    records: Any, *, acks: int = 1, topic: str = "orders", index: int = 0, timeout_ms: int = 30_000
) -> ProduceRequest:
    return ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            TopicProduceData(
                name=topic,
                topic_id=topic_id_of(topic),
                partition_data=[PartitionProduceData(index=index, records=records)],
            )
        ],
    )


def only(response: Any) -> PartitionProduceResponse:
    assert isinstance(response, ProduceResponse)
    (topic,) = response.responses
    (partition,) = topic.partition_responses
    return partition


# -- success


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("acks", [1, ALL])
async def test_a_batch_is_written_and_acknowledged_at_once(
    node: DataNode, context: Context, version: int, acks: int
) -> None:
    handle(node.broker, produce(make_batch(b"first")), context(version=9))

    response = handle(node.broker, produce(make_batch(b"a", b"b"), acks=acks), context(version=version))

    answer = only(response)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 1)
    assert (answer.log_append_time_ms, answer.log_start_offset) == (-1, 0)
    assert node.partition().high_watermark == 3
    codec(ProduceResponse, version).encode(response)


async def test_acks_0_has_no_response(node: DataNode, context: Context) -> None:
    assert handle(node.broker, produce(make_batch(b"a"), acks=0), context(version=9)) is None
    assert node.partition().high_watermark == 1


async def test_acks_0_that_fails_closes_the_connection(node: DataNode, context: Context) -> None:
    with pytest.raises(CloseConnection, match="absent-0"):
        handle(node.broker, produce(make_batch(b"a"), acks=0, topic="absent"), context(version=9))


async def test_log_append_time_is_returned(cluster: Cluster, node: DataNode, context: Context) -> None:
    cluster.set("orders", "message.timestamp.type", "LogAppendTime")
    before = node.runtime.clock.wall_ms()

    answer = only(handle(node.broker, produce(make_batch(b"a", timestamp=5)), context(version=9)))

    assert before <= answer.log_append_time_ms <= node.runtime.clock.wall_ms()


async def test_each_partition_has_its_own_result(cluster: Cluster, node: DataNode, context: Context) -> None:
    cluster.publish(partition_record("orders", 1))
    request = produce(make_batch(b"a"))
    request.topic_data[0].partition_data += [
        PartitionProduceData(index=1, records=make_batch(b"b")),
        PartitionProduceData(index=7, records=make_batch(b"c")),
    ]
    request.topic_data += produce(make_batch(b"d"), topic="absent").topic_data

    response = handle(node.broker, request, context(version=9))

    assert [
        (topic.name, partition.index, partition.error_code)
        for topic in response.responses
        for partition in topic.partition_responses
    ] == [
        ("orders", 0, ErrorCode.NONE),
        ("orders", 1, ErrorCode.NONE),
        ("orders", 7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("absent", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1)])
async def test_old_producers_send_message_sets(
    node: DataNode, context: Context, version: int, magic: int
) -> None:
    old = memoryview(down_convert(make_batch(b"a", b"b"), magic=magic))

    answer = only(handle(node.broker, produce(old), context(version=version)))

    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
    piece = node.partition().read(0, max_bytes=1000, at_least_one=True)
    assert piece is not None
    assert [record.value for record in kernel.iterate_records(piece.read())] == [b"a", b"b"]


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1)])
async def test_message_sets_are_not_taken_for_batches_of_transactions(
    node: DataNode, context: Context, version: int, magic: int
) -> None:
    """The byte with the transactional bit of a batch is part of the key (v0) or timestamp (v1) of a message set."""
    key, time = b"\xff" * 20, 0x1_10FF_FFFF
    old = memoryview(down_convert(make_batch(b"a" * 40, key=key, timestamp=time), magic=magic))

    answer = only(handle(node.broker, produce(old), context(version=version)))

    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)


# -- idempotence


async def test_a_retry_gets_the_offset_of_the_first_attempt(node: DataNode, context: Context) -> None:
    def sent() -> ProduceRequest:
        return produce(make_batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0), acks=ALL)

    first = only(handle(node.broker, sent(), context(version=9)))
    handle(node.broker, produce(make_batch(b"between")), context(version=9))
    again = only(handle(node.broker, sent(), context(version=9)))

    assert (again.error_code, again.base_offset) == (ErrorCode.NONE, first.base_offset)
    assert node.partition().high_watermark == 2


async def test_a_sequence_gap_is_refused_with_a_message(node: DataNode, context: Context) -> None:
    request = produce(make_batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0))
    handle(node.broker, request, context(version=9))

    gap = produce(make_batch(b"c", producer_id=1, producer_epoch=0, base_sequence=5))
    answer = only(handle(node.broker, gap, context(version=9)))

    assert answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert answer.base_offset == -1
    assert answer.error_message


# -- refusal


@pytest.mark.parametrize("acks", [2, -2, 100])
async def test_other_numbers_of_acks_are_refused(node: DataNode, context: Context, acks: int) -> None:
    answer = only(handle(node.broker, produce(make_batch(b"a"), acks=acks), context(version=9)))

    assert answer.error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert node.partition().high_watermark == 0


@pytest.mark.parametrize("records", [None, memoryview(b"")])
async def test_a_partition_without_records_is_refused(
    node: DataNode, context: Context, records: memoryview | None
) -> None:
    answer = only(handle(node.broker, produce(records), context(version=9)))

    assert answer.error_code == ErrorCode.INVALID_RECORD


async def test_a_topic_is_named_by_id_from_version_13_on(node: DataNode, context: Context) -> None:
    request = produce(make_batch(b"a"))
    request.topic_data[0].name = "not looked at"
    assert only(handle(node.broker, request, context(version=13))).error_code == ErrorCode.NONE

    unknown = only(handle(node.broker, produce(make_batch(b"a"), topic="absent"), context(version=13)))
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_spoilt_records_are_named(cluster: Cluster, node: DataNode, context: Context) -> None:
    cluster.set("orders", "cleanup.policy", "compact")

    response = handle(node.broker, produce(make_batch(b"a", b"b")), context(version=8))

    answer = only(response)
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [fault.batch_index for fault in answer.record_errors] == [0, 1]
    codec(ProduceResponse, 8).encode(response)
    codec(ProduceResponse, 3).encode(response)


async def test_clients_do_not_write_to_internal_topics(
    cluster: Cluster, node: DataNode, context: Context
) -> None:
    cluster.add_topic("__consumer_offsets")
    request = produce(make_batch(b"a"), topic="__consumer_offsets")

    stranger = only(handle(node.broker, request, context(version=9)))
    admin = only(handle(node.broker, request, context(version=9, client_id="__admin_client")))

    assert stranger.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert admin.error_code == ErrorCode.NONE


async def test_a_client_that_uses_the_wrong_broker_gets_the_current_leader(
    cluster: Cluster, node: DataNode, context: Context
) -> None:
    cluster.add_broker(2)
    cluster.add_topic("theirs", replicas=(2, 1))
    request = produce(make_batch(b"a"), topic="theirs")

    older = handle(node.broker, request, context(version=9))
    newer = handle(node.broker, request, context(version=10))
    newest = handle(node.broker, request, context(version=13))

    assert older.node_endpoints == []
    for response in (newer, newest):
        answer = only(response)
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (2, 0)
        assert [(at.node_id, at.host, at.port) for at in response.node_endpoints] == [
            (2, "plaintext-2", 9002)
        ]
    codec(ProduceResponse, 9).encode(older)
    codec(ProduceResponse, 13).encode(newest)


@pytest.mark.parametrize(
    ("version", "error"), [(3, ErrorCode.NOT_LEADER_OR_FOLLOWER), (4, ErrorCode.KAFKA_STORAGE_ERROR)]
)
async def test_a_failed_disk_is_reported_with_an_error_that_the_client_knows(
    node: DataNode, context: Context, version: int, error: ErrorCode
) -> None:
    node.partition().go_offline()

    answer = only(handle(node.broker, produce(make_batch(b"a")), context(version=version)))

    assert answer.error_code == error


# -- waiting


async def test_acks_all_waits_for_the_replicas(cluster: Cluster, node: DataNode, context: Context) -> None:
    cluster.add_topic("copied", replicas=(1, 2))
    partition = node.partition("copied")

    waiting = handle(node.broker, produce(make_batch(b"a"), acks=ALL, topic="copied"), context(version=9))
    assert isinstance(waiting, asyncio.Future)
    leader_only = handle(node.broker, produce(make_batch(b"b"), acks=1, topic="copied"), context(version=9))
    assert only(leader_only).base_offset == 1
    await asyncio.sleep(0)
    assert not waiting.done()

    partition.follower_fetched(2, end_offset=1, start_offset=0, leader_epoch=0, now_ms=0)

    answer = only(await waiting)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)


async def test_acks_all_times_out(cluster: Cluster, node: DataNode, context: Context) -> None:
    cluster.add_topic("copied", replicas=(1, 2))

    response = await handle(
        node.broker, produce(make_batch(b"a"), acks=ALL, topic="copied", timeout_ms=0), context(version=9)
    )

    assert only(response).error_code == ErrorCode.REQUEST_TIMED_OUT


async def test_produce_requests_that_timed_out_or_lost_their_connection_are_not_kept(
    cluster: Cluster, node: DataNode, context: Context
) -> None:
    """They used to stay until the high watermark moved, without bound."""
    cluster.add_topic("copied", replicas=(1, 2))
    waits = node.partition("copied").purgatory.commits

    for number in range(100):
        is_late = number % 2 == 0
        request = produce(make_batch(b"a"), acks=ALL, topic="copied", timeout_ms=0 if is_late else 86_400_000)
        waiting = handle(node.broker, request, context(version=9))
        assert isinstance(waiting, asyncio.Future)
        if is_late:
            assert only(await waiting).error_code == ErrorCode.REQUEST_TIMED_OUT
        else:
            waiting.cancel()
        await asyncio.sleep(0)

    assert len(waits) <= 1


async def test_a_batch_committed_with_too_few_in_sync_replicas_gets_an_error(
    cluster: Cluster, node: DataNode, context: Context
) -> None:
    cluster.add_topic("copied", replicas=(1, 2), settings={"min.insync.replicas": "2"})
    waiting = handle(node.broker, produce(make_batch(b"a"), acks=ALL, topic="copied"), context(version=9))

    cluster.publish(partition_record("copied", 0, replicas=(1, 2), isr=(1,)))

    assert only(await waiting).error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


async def test_a_leader_change_completes_waiting_requests_with_an_error(
    cluster: Cluster, node: DataNode, context: Context
) -> None:
    cluster.add_topic("copied", replicas=(1, 2))
    waiting = handle(node.broker, produce(make_batch(b"a"), acks=ALL, topic="copied"), context(version=9))

    cluster.publish(partition_record("copied", 0, replicas=(1, 2), leader=2, leader_epoch=1))

    assert only(await waiting).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_client_that_disconnects_while_it_waits_does_not_disturb_others(
    cluster: Cluster, node: DataNode, context: Context
) -> None:
    cluster.add_topic("copied", replicas=(1, 2))
    waiting = handle(node.broker, produce(make_batch(b"a"), acks=ALL, topic="copied"), context(version=9))

    waiting.cancel()
    node.partition("copied").follower_fetched(2, end_offset=1, start_offset=0, leader_epoch=0, now_ms=0)

    assert node.partition("copied").high_watermark == 1


@pytest.mark.parametrize("acks", [1, ALL])
async def test_with_a_flush_policy_the_response_comes_after_the_sync(
    cluster: Cluster, node: DataNode, context: Context, acks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.set("orders", "flush.messages", "1")
    synced: list[str] = []
    sync = RealFile.sync
    monkeypatch.setattr(RealFile, "sync", lambda file: (sync(file), synced.append(file.path)))

    waiting = [
        handle(node.broker, produce(make_batch(b"a"), acks=acks), context(version=9)) for _ in range(20)
    ]
    assert all(isinstance(answer, asyncio.Future) for answer in waiting)
    answers = [only(response) for response in await asyncio.gather(*waiting)]

    assert [answer.base_offset for answer in answers] == list(range(20))
    assert {answer.error_code for answer in answers} == {ErrorCode.NONE}
    assert 1 <= len([path for path in synced if path.endswith(".log")]) < 20  # one sync serves many


async def test_zstd_needs_version_7(node: DataNode, context: Context) -> None:
    records = make_batch(b"a", compression=Compression.ZSTD)

    answer = only(handle(node.broker, produce(records), context(version=6)))

    assert answer.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


# -- records that take long to look at


def large_batch(**options: Any) -> memoryview:
    """A few hundred bytes that become two megabytes."""
    return make_batch(bytes(1 << 20), bytes(1 << 20), compression=Compression.ZSTD, **options)


class HeldConnection:
    """Records the calls of a handler on its connection."""

    def __init__(self) -> None:
        self.held_by: list[asyncio.Future[Any]] = []
        self.is_closed = False

    def hold(self, work: asyncio.Future[Any]) -> None:
        self.held_by.append(work)

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize("acks", [1, ALL])
async def test_a_batch_that_is_slow_to_validate_is_written(
    node: DataNode, context: Context, acks: int
) -> None:
    asked = context(version=9)
    asked.connection = connection = HeldConnection()
    sent = large_batch()

    waiting = handle(node.broker, produce(sent, acks=acks), asked)
    assert isinstance(waiting, asyncio.Future)
    assert node.partition().high_watermark == 0
    sent[:] = bytes(len(sent))  # the request's buffer is used again
    (held_by,) = connection.held_by
    answer = only(await waiting)

    assert held_by.done()
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
    assert node.partition().high_watermark == 2


async def test_a_batch_that_is_slow_to_validate_may_be_refused(node: DataNode, context: Context) -> None:
    sent = large_batch(producer_id=1, producer_epoch=0, base_sequence=0)
    await handle(node.broker, produce(sent), context(version=9))
    gap = large_batch(producer_id=1, producer_epoch=0, base_sequence=9)

    answer = only(await handle(node.broker, produce(gap), context(version=9)))

    assert answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert answer.base_offset == -1


async def test_acks_0_with_slow_records_closes_the_connection_only_if_they_are_refused(
    node: DataNode, context: Context
) -> None:
    for sequence, is_closed in ((0, False), (9, True)):
        asked = context(version=9)
        asked.connection = connection = HeldConnection()
        sent = large_batch(producer_id=1, producer_epoch=0, base_sequence=sequence)

        assert handle(node.broker, produce(sent, acks=0), asked) is None
        await connection.held_by[0]
        await asyncio.sleep(0)

        assert connection.is_closed == is_closed


async def test_all_partitions_of_a_request_share_one_effort(
    cluster: Cluster, node: DataNode, context: Context
) -> None:
    for index in range(1, 4):
        cluster.publish(partition_record("orders", index))
    request = produce(None)
    request.topic_data[0].partition_data = [
        PartitionProduceData(index=index, records=make_batch(bytes(400_000), compression=Compression.ZSTD))
        for index in range(4)
    ]

    waiting = handle(node.broker, request, context(version=9))
    assert [node.partition(index=index).high_watermark for index in range(4)] == [1, 1, 0, 0]
    response = await waiting

    answers = response.responses[0].partition_responses
    assert [(answer.index, answer.error_code) for answer in answers] == [
        (index, ErrorCode.NONE) for index in range(4)
    ]
    assert [node.partition(index=index).high_watermark for index in range(4)] == [1, 1, 1, 1]


async def test_a_request_can_time_out_in_the_slow_lane(node: DataNode, context: Context) -> None:
    somebody = threading.Event()
    node.broker.slow_lane.run(somebody.wait, host="another")
    waiting = handle(node.broker, produce(large_batch(), timeout_ms=1), context(version=9))

    assert only(await waiting).error_code == ErrorCode.REQUEST_TIMED_OUT
    somebody.set()


async def test_a_produce_request_that_timed_out_in_the_slow_lane_leaves_no_wait_behind(
    cluster: Cluster, node: DataNode, context: Context
) -> None:
    cluster.add_topic("copied", replicas=(1, 2))
    somebody = threading.Event()
    node.broker.slow_lane.run(somebody.wait, host="another")
    asked = context(version=9)
    asked.connection = connection = HeldConnection()
    waiting = handle(node.broker, produce(large_batch(), acks=ALL, topic="copied", timeout_ms=1), asked)
    assert only(await waiting).error_code == ErrorCode.REQUEST_TIMED_OUT

    somebody.set()
    await connection.held_by[0]

    assert node.partition("copied").log.end_offset == 2
    assert len(node.partition("copied").purgatory.commits) == 0


async def test_a_request_in_the_slow_lane_ends_when_the_lane_is_closed(
    node: DataNode, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It held its connection forever."""
    admitted: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    monkeypatch.setattr(node.broker.slow_lane, "run", lambda *_, **__: admitted)
    asked = context(version=9)
    asked.connection = connection = HeldConnection()
    waiting = handle(node.broker, produce(large_batch()), asked)

    admitted.cancel()
    await connection.held_by[0]

    with pytest.raises(asyncio.CancelledError):
        await waiting
