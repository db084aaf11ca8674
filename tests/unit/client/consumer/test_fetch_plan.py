"""What is fetched from which node and when, and what responses mean."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.client import errors
from penstock.client.cluster import Cluster, Leader, LeaderChange, Node, PartitionInfo, Topic, TopicPartition
from penstock.client.consumer.fetch_plan import (
    ANSWERS_AHEAD,
    HURRIED_PAUSE_MS,
    Answer,
    FetchPlan,
    FetchSettings,
)
from penstock.client.consumer.positions import READ_REPLICA_MS, Need, Positions, ResetPolicy
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from penstock.protocol.types import Uuid
from penstock.records import kernel
from penstock.runtime.backoff import Backoff

ID = Uuid(bytes(15) + b"\x01")
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
NODE = 1
NOW_MS = 1_000


class Given:
    """Two partitions led by one node, and a plan for them."""

    def __init__(self, policy: str = "earliest", **settings: Any) -> None:
        self.positions = Positions(
            ResetPolicy(policy, lambda: 0), has_group=False, backoff=Backoff(100, 100, draw=lambda: 0.5)
        )
        self.positions.assign([P0, P1])
        for partition in (P0, P1):
            self.positions.seek(partition, 0)
        self.cluster = Cluster(
            nodes={NODE: Node(NODE, "one", 1), 2: Node(2, "two", 2)},
            topics={
                "orders": Topic("orders", ID, partitions=(PartitionInfo(0, 1, 4), PartitionInfo(1, 1, 4)))
            },
        )
        self.positions.follow_leaders(self.cluster)
        self.plan = FetchPlan(self.positions, FetchSettings(**settings))
        self.now_ms = NOW_MS

    def request(self, node_id: int = NODE) -> FetchRequest | None:
        wanted = self.plan.next_request(node_id, self.cluster, self.now_ms)
        return None if wanted is None else wanted[0]

    def asked(self, node_id: int = NODE) -> list[tuple[int, int]] | None:
        """Partitions and offsets of the next request."""
        request = self.request(node_id)
        if request is None:
            return None
        return [(each.partition, each.fetch_offset) for topic in request.topics for each in topic.partitions]

    def answer(self, *result: PartitionData, node_id: int = NODE, **fields: Any) -> Answer:
        topic = FetchableTopicResponse(topic_id=ID, partitions=list(result))
        response = FetchResponse(session_id=7, responses=[topic], **fields)
        return self.plan.answered(node_id, response, self.now_ms)


def result(partition: int, *, base_offset: int = 0, count: int = 0, **fields: Any) -> PartitionData:
    records = b""
    if count:
        rows = [(1, None, b"v", ())] * count
        records = bytes(kernel.build_batch(rows, base_offset=base_offset, leader_epoch=4))
    fields.setdefault("high_watermark", base_offset + count)
    return PartitionData(partition_index=partition, records=records, **fields)


def test_all_partitions_of_a_node_share_one_waiting_fetch() -> None:
    given = Given(wait_ms=300, bytes_min=9, rack="north")

    request = given.request()

    assert request is not None
    assert (request.max_wait_ms, request.min_bytes, request.rack_id) == (300, 9, "north")
    assert [each.current_leader_epoch for each in request.topics[0].partitions] == [4, 4]
    assert given.request() is None, "one request is under way at a time"
    assert given.plan.nodes(given.cluster, NOW_MS) == {NODE}
    assert given.request(2) is None


def test_responses_are_queued_and_more_is_fetched_if_there_is_more() -> None:
    given = Given()
    given.request()

    (fetched,) = given.answer(result(0, count=3, high_watermark=100), result(1)).fetched

    assert len(fetched.records.take(10)) == 3
    assert given.positions.of(P0).fetch_offset == 3
    assert given.positions.of(P0).high_watermark == 100
    assert given.asked() == [(0, 3)], "of the second partition nothing changed"


def test_at_the_log_end_the_next_fetch_waits_until_all_is_consumed() -> None:
    given = Given()
    given.positions.assign([P0])
    given.request()
    (fetched,) = given.answer(result(0, count=3)).fetched
    assert given.request() is None

    given.plan.finished(fetched, 0)

    request = given.request()
    assert request is not None
    assert request.max_wait_ms == 500


def test_a_few_responses_are_fetched_ahead() -> None:
    given = Given(partition_bytes_max=len(result(0, count=3).records or b""))
    given.positions.assign([P0])
    fetched = []
    for index in range(ANSWERS_AHEAD):
        assert given.request() is not None
        fetched += given.answer(result(0, base_offset=3 * index, count=3, high_watermark=100)).fetched

    assert given.request() is None
    given.plan.finished(fetched[0], 0)
    assert given.request() is not None


def test_next_to_buffered_partitions_fetches_do_not_wait() -> None:
    given = Given()
    given.request()
    given.answer(result(0, count=3), result(1))

    request = given.request()

    assert request is not None
    assert request.max_wait_ms == 0
    given.answer(result(1))
    assert given.request() is None
    assert given.plan.wake_at_ms(NODE, NOW_MS) == NOW_MS + HURRIED_PAUSE_MS
    given.now_ms += HURRIED_PAUSE_MS
    assert given.request() is not None


def test_memory_is_limited() -> None:
    given = Given(bytes_max=100)
    given.request()
    answer = given.answer(result(0, count=3, high_watermark=100))
    assert given.plan.buffered_bytes == answer.fetched[0].records.size_bytes

    given.answer(result(1))
    full = Given(bytes_max=50)
    full.request()
    full.answer(result(0, count=3))

    assert full.request() is None
    assert given.request() is not None
    given.plan.finished(answer.fetched[0], 0)
    assert given.plan.buffered_bytes == 0


def test_a_response_for_an_old_position_is_ignored() -> None:
    given = Given()
    given.request()
    given.positions.seek(P0, 50)

    assert given.answer(result(0, count=3)).fetched == []
    given.positions.follow_leaders(given.cluster)
    assert given.asked() == [(0, 50)]


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE])
def test_a_late_response_of_the_former_leader_is_ignored(error: ErrorCode) -> None:
    """It was paused, and its response came after the new leader's. Its records were returned a second time."""
    given = Given()
    given.request()
    moved = PartitionInfo(0, 2, 5), PartitionInfo(1, 1, 4)
    given.cluster = Cluster(
        nodes=given.cluster.nodes, topics={"orders": Topic("orders", ID, partitions=moved)}
    )
    given.positions.follow_leaders(given.cluster)
    assert given.asked(2) == [(0, 0)]
    given.answer(result(0, count=3), node_id=2)
    given.positions.of(P0).move(3, 5)  # the application has them

    answer = given.answer(result(0, count=1 if error is ErrorCode.NONE else 0, error_code=error))

    assert answer.fetched == []
    assert given.positions.of(P0).need is Need.NOTHING
    assert given.positions.of(P0).fetch_offset == 3


def test_paused_partitions_leave_the_session() -> None:
    given = Given()
    given.positions.of(P0).is_paused = True

    assert given.asked() == [(1, 0)]


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_TOPIC_ID]
)
def test_a_moved_leader_makes_metadata_stale_and_is_retried_later(code: ErrorCode) -> None:
    given = Given()
    given.request()

    answer = given.answer(
        result(0, error_code=code, current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=5)),
        node_endpoints=[NodeEndpoint(node_id=2, host="two", port=2)],
    )

    assert answer.is_stale
    assert answer.leaders == [LeaderChange(P0, Leader(2, 5))]
    assert answer.nodes == [Node(2, "two", 2)]
    assert not given.positions.of(P0).is_fetchable(NOW_MS)
    assert given.positions.of(P0).is_fetchable(NOW_MS + 100)


def test_errors_for_the_application_are_reported() -> None:
    given = Given()
    given.request()

    answer = given.answer(result(0, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))

    assert answer.has_errors
    assert isinstance(given.positions.take_error(), errors.AuthorizationError)


def test_an_offset_out_of_range_is_reset_by_policy() -> None:
    given = Given()
    given.request()

    given.answer(result(0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE))

    assert given.positions.of(P0).need is Need.RESET


def test_a_read_replica_is_used_until_it_fails_or_expires() -> None:
    given = Given(rack="north")
    given.request()
    given.answer(result(0, preferred_read_replica=2))
    assert given.plan.nodes(given.cluster, NOW_MS) == {1, 2}

    assert given.asked(2) == [(0, 0)]
    given.answer(result(0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE), node_id=2)

    assert given.positions.of(P0).need is Need.NOTHING, "a follower may only be behind"
    request = given.request(1)
    assert request is not None, "the leader is asked for both, of which it knows already"
    assert (request.topics, request.forgotten_topics_data) == ([], [])
    given.answer(result(0, preferred_read_replica=2))
    given.now_ms += READ_REPLICA_MS
    assert given.plan.nodes(given.cluster, given.now_ms) == {1}


def test_without_a_response_everything_is_fetched_again_later() -> None:
    given = Given()
    given.request()

    given.plan.failed(NODE, NOW_MS)

    assert given.request() is None
    given.now_ms += 100
    assert given.asked() == [(0, 0), (1, 0)]


def test_a_lost_session_is_reopened_at_once() -> None:
    given = Given()
    given.request()
    given.answer(result(0), result(1))
    given.request()

    given.answer(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)

    assert given.asked() == [(0, 0), (1, 0)]


def test_read_committed_consumers_do_not_see_aborted_records() -> None:
    given = Given(isolation_level=1)
    given.request()
    rows = [(1, None, b"v", ())]
    batch = kernel.build_batch(rows, producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
    data = PartitionData(
        partition_index=0,
        high_watermark=10,
        last_stable_offset=4,
        records=bytes(batch),
        aborted_transactions=[AbortedTransaction(producer_id=5, first_offset=0)],
    )

    (fetched,) = given.answer(data).fetched

    assert fetched.records.take(10) == []
    assert given.positions.of(P0).end_offset == 4


def test_an_open_session_is_closed() -> None:
    given = Given()
    assert given.plan.last_request(NODE) is None
    given.request()
    given.answer(result(0))

    last = given.plan.last_request(NODE)

    assert last is not None
    assert (last[0].session_id, last[0].session_epoch) == (7, -1)


def test_consuming_does_not_look_at_other_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """It looked at all of them for each portion of each: polling 5,000 partitions took 20 s of CPU."""
    given = Given()
    given.request()
    (fetched,) = given.answer(result(0, count=3), result(1)).fetched
    monkeypatch.setattr(Positions, "__iter__", _fail)

    assert given.plan.finished(fetched, NOW_MS)


def test_a_partition_that_a_read_has_finished_is_not_fetched() -> None:
    given = Given()
    given.request()
    first, _ = given.answer(result(0, count=3), result(1, count=3)).fetched
    first.state.is_parked = True

    assert not given.plan.finished(first, NOW_MS)


def test_dropped_data_is_fetched_again() -> None:
    given = Given()
    given.request()
    (fetched,) = given.answer(result(0, count=3), result(1)).fetched
    generation = fetched.state.generation
    fetched.state.move(1, 4)
    fetched.is_cut = True

    given.plan.finished(fetched, NOW_MS)

    assert (fetched.state.fetch_offset, fetched.state.generation) == (1, generation + 1)


def _fail(self: Positions) -> Any:
    raise AssertionError("all partitions were looked at")
