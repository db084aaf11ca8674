"""The core of a replica fetcher: what it asks for, and what it does with responses."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from penstock.protocol.types import Uuid
from penstock.records.errors import CorruptBatch
from penstock.replication.fetcher import FetcherCore, FetchSettings, Key, Truncation, Work
from penstock.replication.following import FetchPosition
from penstock.replication.quota import ReplicationQuota
from penstock.runtime.network import FileSlice
from penstock.storage.pages import ColdPages

TOPIC = Uuid(b"orders".ljust(16))
SETTINGS = FetchSettings(backoff_ms=1000)
SESSION = 77


@dataclass
class FakeReplica:
    """A follower whose log is a number."""

    index: int = 0
    leader_epoch: int = 5
    end_offset: int = 0
    epoch: int = 4
    start_offset: int = 0
    high_watermark: int = 0
    is_durable: bool = True
    is_throttled: bool = False
    is_current: bool = True
    topic: str = "orders"
    topic_id: Uuid = TOPIC
    failure: Exception | None = None
    appended: list[bytes] = field(default_factory=list)

    @property
    def key(self) -> Key:
        return self.topic_id, self.index

    def position(self) -> FetchPosition:
        return FetchPosition(self.end_offset, self.epoch, self.start_offset)

    def append(self, records: memoryview, *, high_watermark: int, start_offset: int, now_ms: int) -> None:
        if self.failure is not None:
            raise self.failure
        if records:
            self.appended.append(bytes(records))
            self.end_offset += len(records)
        self.high_watermark = min(high_watermark, self.end_offset)
        self.start_offset = max(self.start_offset, start_offset)

    def truncation_offset(self, epoch: int, end_offset: int) -> int:
        return min(end_offset, self.end_offset)


class Fetcher:
    """A core with a leader that is played by the test."""

    def __init__(self, *replicas: FakeReplica, **options: Any) -> None:
        self.core = FetcherCore(2, SETTINGS, **options)
        self.now_ms = 1000
        self.work = Work()
        for replica in replicas:
            self.core.add(replica)

    def request(self, *, broker_epoch: int = 9) -> FetchRequest | None:
        return self.core.next_request(self.now_ms, broker_epoch=broker_epoch)

    def named(self) -> dict[int, int] | None:
        """The fetch offsets of the next request by partition; None if there is no request."""
        request = self.request()
        if request is None:
            return None
        return {
            partition.partition: partition.fetch_offset
            for topic in request.topics
            for partition in topic.partitions
        }

    def respond(
        self, *partitions: PartitionData, error: ErrorCode = ErrorCode.NONE, session: int = SESSION
    ) -> Work:
        response = FetchResponse(
            error_code=error,
            session_id=session,
            responses=[FetchableTopicResponse(topic_id=TOPIC, partitions=list(partitions))],
        )
        self.work = Work()
        number, found = self.core.begin_response(response)
        if found == ErrorCode.NONE:
            for data in partitions:
                self.core.handle_partition(
                    number, TOPIC, data, self.work, now_ms=self.now_ms, wall_ms=self.now_ms
                )
        return self.work

    def open(self) -> None:
        """Open a session in which nothing is new."""
        assert self.request() is not None
        self.respond()


def data(
    index: int = 0,
    records: bytes = b"",
    *,
    error: ErrorCode = ErrorCode.NONE,
    high_watermark: int = 0,
    **fields: Any,
) -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=error,
        high_watermark=high_watermark,
        records=memoryview(records),
        **fields,
    )


def test_the_first_request_opens_a_session_with_all_partitions_and_does_not_wait() -> None:
    fetcher = Fetcher(FakeReplica(0, end_offset=7), FakeReplica(1, end_offset=8))

    request = fetcher.request()

    assert request is not None
    assert (request.session_id, request.session_epoch, request.max_wait_ms) == (0, 0, 0)
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (2, 9)
    (topic,) = request.topics
    assert [(each.partition, each.fetch_offset, each.last_fetched_epoch, each.current_leader_epoch)
            for each in topic.partitions] == [(0, 7, 4, 5), (1, 8, 4, 5)]  # fmt: skip


def test_later_requests_name_only_what_changed() -> None:
    fetcher = Fetcher(FakeReplica(0), FakeReplica(1))
    fetcher.open()
    assert fetcher.named() == {}

    fetcher.respond(data(1, b"abc"))

    request = fetcher.request()
    assert request is not None
    assert (request.session_id, request.session_epoch, request.max_wait_ms) == (SESSION, 2, 500)
    assert [(each.partition, each.fetch_offset) for topic in request.topics for each in topic.partitions] == [
        (1, 3)
    ]


def test_a_high_watermark_alone_changes_no_position() -> None:
    replica = FakeReplica(end_offset=5)
    fetcher = Fetcher(replica)
    fetcher.open()
    assert fetcher.named() == {}

    fetcher.respond(data(high_watermark=4))

    assert replica.high_watermark == 4
    assert fetcher.named() == {}


def test_a_new_log_start_offset_is_reported_to_the_leader() -> None:
    fetcher = Fetcher(FakeReplica(end_offset=5))
    fetcher.open()
    fetcher.request()

    fetcher.respond(data(high_watermark=5, log_start_offset=3))

    assert fetcher.named() == {0: 5}


def test_one_request_is_in_flight_unless_a_partition_is_added() -> None:
    fetcher = Fetcher(FakeReplica(0))
    fetcher.open()
    assert fetcher.named() == {}
    assert fetcher.named() is None

    fetcher.core.add(FakeReplica(1))

    assert fetcher.named() == {1: 0}
    fetcher.core.add(FakeReplica(2))
    assert fetcher.named() is None, "at most two"


def test_no_second_request_before_the_session_is_open() -> None:
    fetcher = Fetcher(FakeReplica(0))
    assert fetcher.request() is not None
    fetcher.core.add(FakeReplica(1))

    assert fetcher.request() is None
    fetcher.respond()
    assert fetcher.named() == {1: 0}


def test_records_that_an_earlier_response_had_are_ignored() -> None:
    replica = FakeReplica(0)
    fetcher = Fetcher(replica)
    fetcher.open()
    fetcher.request()
    fetcher.core.add(FakeReplica(1))
    fetcher.request()

    fetcher.respond(data(0, b"abc"))
    fetcher.respond(data(0, b"abc"))  # the leader had not seen the new position yet

    assert replica.appended == [b"abc"]


def test_the_high_watermark_of_a_repetition_counts() -> None:
    """It was ignored with the records, and the leader did not send it again."""
    replica = FakeReplica(0)
    fetcher = Fetcher(replica)
    fetcher.open()
    fetcher.request()
    fetcher.core.add(FakeReplica(1))
    fetcher.request()
    fetcher.respond(data(0, b"abc", high_watermark=0))

    fetcher.respond(data(0, b"abc", high_watermark=3))

    assert (replica.appended, replica.high_watermark) == ([b"abc"], 3)
    assert fetcher.named() == {0: 3}


def test_a_response_to_a_request_before_a_new_leader_epoch_is_ignored() -> None:
    old, new = FakeReplica(0), FakeReplica(0, leader_epoch=6)
    fetcher = Fetcher(old)
    fetcher.open()
    fetcher.request()
    fetcher.core.add(new)
    assert fetcher.named() == {0: 0}

    fetcher.respond(data(0, b"abc"))

    assert new.appended == []
    fetcher.respond(data(0, b"abc"))
    assert new.appended == [b"abc"]


def test_a_removed_partition_leaves_the_session() -> None:
    fetcher = Fetcher(FakeReplica(0), FakeReplica(1))
    fetcher.open()
    fetcher.core.remove((TOPIC, 0))

    request = fetcher.request()

    assert request is not None
    assert [(each.topic_id, each.partitions) for each in request.forgotten_topics_data] == [(TOPIC, [0])]


def test_nothing_is_fetched_without_partitions() -> None:
    fetcher = Fetcher(FakeReplica(0))
    fetcher.open()
    fetcher.core.remove((TOPIC, 0))

    assert fetcher.request() is None


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ],
)
def test_a_partition_with_an_error_backs_off_alone(error: ErrorCode) -> None:
    fetcher = Fetcher(FakeReplica(0), FakeReplica(1))
    fetcher.request()
    fetcher.respond(data(0, error=error), data(1, b"abc"))

    request = fetcher.request()
    assert request is not None
    assert [each.partitions for each in request.forgotten_topics_data] == [[0]]
    assert [(each.partition, each.fetch_offset) for topic in request.topics for each in topic.partitions] == [
        (1, 3)
    ]

    fetcher.respond()
    assert fetcher.core.next_ms == fetcher.now_ms + 20
    fetcher.now_ms += 20
    assert fetcher.named() == {0: 0}


def test_the_backoff_grows_to_the_setting_and_ends_with_a_success() -> None:
    fetcher = Fetcher(FakeReplica(0), FakeReplica(1))
    fetcher.open()
    waits = []
    for _ in range(8):
        fetcher.request()
        fetcher.respond(data(0, error=ErrorCode.UNKNOWN_LEADER_EPOCH))
        until_ms = fetcher.core.next_ms
        assert until_ms is not None
        waits.append(until_ms - fetcher.now_ms)
        fetcher.now_ms = until_ms
    assert waits == [20, 40, 80, 160, 320, 640, 1000, 1000]

    fetcher.request()
    fetcher.respond(data(0, b"abc"))
    fetcher.request()
    fetcher.respond(data(0, error=ErrorCode.UNKNOWN_LEADER_EPOCH))
    assert fetcher.core.next_ms == fetcher.now_ms + 20


def test_a_corrupt_batch_backs_off_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    replica = FakeReplica(0, failure=CorruptBatch("bad checksum"))
    fetcher = Fetcher(replica, FakeReplica(1))
    fetcher.open()
    for _ in range(3):
        fetcher.request()
        fetcher.respond(data(0, b"abc"))
        fetcher.now_ms += 1000

    (record,) = caplog.records
    assert record.getMessage() == (
        "records of orders-0 from offset 0 cannot be appended: bad checksum; fetching them again"
    )
    replica.failure = None
    fetcher.request()
    fetcher.respond(data(0, b"abc"))
    assert replica.appended == [b"abc"]


def test_an_unexpected_error_of_one_partition_does_not_stop_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The fetcher connected again and fetched the same bytes, for ever, for all partitions of the leader."""
    replica, other = FakeReplica(0, failure=KeyError("a bug")), FakeReplica(1)
    fetcher = Fetcher(replica, other)
    fetcher.open()
    for _ in range(3):
        fetcher.request()
        fetcher.respond(data(0, b"abc"), data(1, b"abc"))
        fetcher.now_ms += 10_000

    assert other.end_offset == 9
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.getMessage().startswith("orders-0 stays at offset 0 until")

    replica.failure = None
    replica.leader_epoch += 1
    fetcher.core.add(replica)
    assert fetcher.named() == {0: 0, 1: 9}


def test_a_diverging_epoch_makes_the_partition_busy_until_it_is_truncated() -> None:
    replica = FakeReplica(0, end_offset=10)
    fetcher = Fetcher(replica, FakeReplica(1))
    fetcher.open()
    fetcher.request()

    work = fetcher.respond(data(0, diverging_epoch=EpochEndOffset(epoch=3, end_offset=6)))

    assert work.truncations == [Truncation(replica.key, 6)]
    request = fetcher.request()
    assert request is not None
    assert [each.partitions for each in request.forgotten_topics_data] == [[0]]
    replica.end_offset = 6
    fetcher.core.ready(replica.key)
    assert fetcher.named() == {0: 6}


def test_an_offset_out_of_range_asks_for_a_reset() -> None:
    replica = FakeReplica(0, end_offset=10)
    fetcher = Fetcher(replica)
    fetcher.open()
    fetcher.request()

    assert fetcher.respond(data(0, error=ErrorCode.OFFSET_OUT_OF_RANGE)).resets == [replica.key]
    assert fetcher.request() is None
    fetcher.core.failed(replica.key, fetcher.now_ms)
    fetcher.now_ms += 1000
    assert fetcher.named() == {0: 10}


def test_pages_that_the_log_needs_are_loaded_and_the_records_fetched_again() -> None:
    file: Any = SimpleNamespace(path="/data/orders-0/0.index")
    piece = FileSlice(file, 0, 10)
    replica = FakeReplica(0, failure=ColdPages(piece))
    fetcher = Fetcher(replica)
    fetcher.open()
    fetcher.request()

    assert fetcher.respond(data(0, b"abc")).loads == [(replica.key, piece)]
    replica.failure = None
    fetcher.core.ready(replica.key)
    assert fetcher.named() == {0: 0}


def test_a_log_that_is_not_synced_yet_is_not_acknowledged() -> None:
    replica = FakeReplica(0)
    fetcher = Fetcher(replica)
    fetcher.open()
    fetcher.request()
    replica.is_durable = False
    fetcher.respond(data(0, b"abc"))

    assert fetcher.request() is None
    assert fetcher.core.take_unflushed() == [replica.key]
    replica.is_durable = True
    fetcher.core.ready(replica.key)
    assert fetcher.named() == {0: 3}


def test_a_failed_log_directory_backs_off() -> None:
    replica = FakeReplica(0, failure=Refused(ErrorCode.KAFKA_STORAGE_ERROR))
    fetcher = Fetcher(replica, FakeReplica(1))
    fetcher.open()
    fetcher.request()
    fetcher.respond(data(0, b"abc"), data(1, b"abc"))

    assert fetcher.named() == {1: 3}


@pytest.mark.parametrize(
    ("error", "session_id"),
    [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, SESSION),
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, SESSION),
    ],
)
def test_a_lost_session_is_opened_again_with_all_partitions(error: ErrorCode, session_id: int) -> None:
    """The id of a session that the leader still had was dropped, so that the leader never closed it."""
    fetcher = Fetcher(FakeReplica(0), FakeReplica(1))
    fetcher.open()
    fetcher.request()
    fetcher.respond(error=error, session=0)

    request = fetcher.request()

    assert request is not None
    assert (request.session_id, request.session_epoch) == (session_id, 0)
    assert [each.partition for topic in request.topics for each in topic.partitions] == [0, 1]


def test_after_a_disconnection_the_old_session_is_replaced() -> None:
    fetcher = Fetcher(FakeReplica(0))
    fetcher.open()
    fetcher.request()
    fetcher.core.disconnected()

    request = fetcher.request()

    assert request is not None
    assert (request.session_id, request.session_epoch) == (SESSION, 0)


def test_a_leader_without_room_for_a_session_gets_all_partitions_each_time() -> None:
    fetcher = Fetcher(FakeReplica(0), FakeReplica(1))
    fetcher.request()
    fetcher.respond(session=0)

    for _ in range(2):
        request = fetcher.request()
        assert request is not None
        assert (request.session_epoch, request.max_wait_ms) == (0, 500)
        assert [each.partition for topic in request.topics for each in topic.partitions] == [0, 1]
        fetcher.respond(session=0)


def test_a_new_broker_epoch_opens_a_new_session() -> None:
    fetcher = Fetcher(FakeReplica(0))
    fetcher.open()

    request = fetcher.request(broker_epoch=10)

    assert request is not None
    assert request.session_epoch == 0
    assert request.replica_state.replica_epoch == 10


def test_a_throttled_replica_that_is_behind_waits_for_its_quota() -> None:
    replica = FakeReplica(0, is_throttled=True)
    fetcher = Fetcher(replica, FakeReplica(1), quota=ReplicationQuota(lambda: 10))
    fetcher.open()
    fetcher.request()

    fetcher.respond(data(0, b"x" * 30, high_watermark=1000))

    request = fetcher.request()
    assert request is not None
    assert not request.topics
    assert [each.partitions for each in request.forgotten_topics_data] == [[0]]
    fetcher.respond()
    fetcher.now_ms += 2000
    assert fetcher.named() == {0: 30}


def test_a_throttled_replica_in_sync_does_not_wait() -> None:
    replica = FakeReplica(0, is_throttled=True)
    fetcher = Fetcher(replica, quota=ReplicationQuota(lambda: 10))
    fetcher.open()
    fetcher.request()

    fetcher.respond(data(0, b"x" * 30, high_watermark=30))

    assert fetcher.named() == {0: 30}
