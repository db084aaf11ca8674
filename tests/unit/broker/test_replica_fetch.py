"""Fetches of followers: sessions in which only what is due is read, throttling, and reading from followers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from harness.datapath import Cluster, DataNode, partition_record, topic_id_of
from harness.fetching import answers, append, fetch, only, values
from penstock.broker.handlers.fetch import handle
from penstock.broker.replica_fetch import ReplicaFetch
from penstock.broker.replica_selector import LEADER, preferred_read_replica
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import FetchRequest, ForgottenTopic, ReplicaState
from penstock.replication.partition import Partition
from penstock.runtime.network import FileSlice
from penstock.storage.pages import ColdPages

Context = Callable[..., Any]
VERSION = 18
FOLLOWER = 2


class Follower:
    """A follower of one node, which plays with its fetch session."""

    def __init__(self, node: DataNode, context: Context, *, broker_epoch: int = 2) -> None:
        self._node = node
        self._context = context
        self.broker_epoch = broker_epoch
        self.session_id = 0
        self.epoch = 0

    def request(
        self, *partitions: tuple[str, int, int], forget: Sequence[int] = (), **options: Any
    ) -> FetchRequest:
        request = fetch(*partitions, session=(self.session_id, self.epoch), **options)
        if forget:
            request.forgotten_topics_data = [
                ForgottenTopic(topic_id=topic_id_of("copied"), partitions=list(forget))
            ]
        request.replica_state = ReplicaState(replica_id=FOLLOWER, replica_epoch=self.broker_epoch)
        return request

    def fetch(self, *partitions: tuple[str, int, int], **options: Any) -> Any:
        request = self.request(*partitions, **options)
        self.epoch += 1
        response = handle(self._node.broker, request, self._context(version=VERSION))
        if not isinstance(response, asyncio.Future):
            self.session_id = response.session_id
        return response


@pytest.fixture
def follower(cluster: Cluster, node: DataNode, context: Context) -> Follower:
    cluster.add_topic("copied", partitions=3, replicas=(1, FOLLOWER))
    return Follower(node, context)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The partitions that were read, in order."""
    indexes: list[int] = []
    read = ReplicaFetch._read_target

    def counted(fetched: ReplicaFetch, target: Any, *arguments: Any, **options: Any) -> Any:
        indexes.append(target.wanted.partition)
        return read(fetched, target, *arguments, **options)

    monkeypatch.setattr(ReplicaFetch, "_read_target", counted)
    return indexes


@pytest.fixture
def cold(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Partitions of "copied" whose next read finds that its pages are not in memory."""
    indexes: set[int] = set()
    read = Partition.read

    def read_cold(partition: Partition, offset: int, **options: Any) -> FileSlice | None:
        piece = read(partition, offset, **options)
        if partition.topic == "copied" and partition.index in indexes and piece is not None:
            indexes.remove(partition.index)
            raise ColdPages(piece)
        return piece

    monkeypatch.setattr(Partition, "read", read_cold)
    return indexes


def open_session(follower: Follower) -> None:
    follower.fetch(("copied", 0, 0), ("copied", 1, 0), ("copied", 2, 0))
    assert follower.session_id > 0


async def test_only_partitions_with_something_new_are_read(
    node: DataNode, follower: Follower, reads: list[int]
) -> None:
    open_session(follower)
    assert answers(follower.fetch()) == []
    reads.clear()

    append(node, b"a", topic="copied", index=1)

    assert values(only(follower.fetch())) == [b"a"]
    assert reads == [1]


async def test_records_that_the_follower_has_not_taken_are_sent_again(
    node: DataNode, follower: Follower
) -> None:
    open_session(follower)
    append(node, b"a", topic="copied", index=1)
    assert values(only(follower.fetch())) == [b"a"]

    assert values(only(follower.fetch())) == [b"a"]
    assert only(follower.fetch(("copied", 1, 1))).high_watermark == 1
    assert answers(follower.fetch()) == []


async def test_the_high_watermark_is_sent_once_and_does_not_end_a_wait(
    node: DataNode, follower: Follower
) -> None:
    open_session(follower)
    append(node, b"a", topic="copied", index=1)
    follower.fetch()
    waiting = follower.fetch(("copied", 1, 1), max_wait_ms=30)
    assert isinstance(waiting, asyncio.Future)
    assert node.partition("copied", 1).high_watermark == 1

    assert only(await waiting).high_watermark == 1
    assert answers(follower.fetch()) == []


async def test_an_append_ends_the_wait_of_a_session(node: DataNode, follower: Follower) -> None:
    open_session(follower)
    waiting = follower.fetch(max_wait_ms=60_000)

    append(node, b"a", topic="copied", index=2)

    assert values(only(await waiting)) == [b"a"]


async def test_the_next_request_of_a_session_ends_the_wait_of_the_one_before(
    node: DataNode, follower: Follower
) -> None:
    """A partition that was added had to wait until the fetch of the others timed out."""
    open_session(follower)
    first = follower.fetch(max_wait_ms=60_000)
    second = follower.fetch(("copied", 0, 0), max_wait_ms=60_000)
    await asyncio.sleep(0)

    assert first.done()
    assert (first.result().error_code, answers(first.result())) == (ErrorCode.NONE, [])
    append(node, b"a", topic="copied")
    assert values(only(await second)) == [b"a"]


async def test_the_next_request_while_pages_are_loaded_does_not_end_the_session(
    node: DataNode, follower: Follower, cold: set[int]
) -> None:
    """The response was INVALID_FETCH_SESSION_EPOCH: its records were lost, and the follower started over."""
    open_session(follower)
    append(node, b"a", topic="copied", index=0)
    cold.add(0)
    first = follower.fetch()
    assert not cold, "its pages are being loaded"

    second = follower.fetch(("copied", 1, 0), max_wait_ms=60_000)

    assert values(only(await first)) == [b"a"]
    assert values(answers(await second)[0]) == [b"a"], "the follower has not acknowledged it"
    append(node, b"b", topic="copied", index=1)
    third = follower.fetch(("copied", 0, 1))
    assert [values(data) for data in answers(third)] == [[], [b"b"]]


async def test_a_request_that_ends_a_wait_whose_pages_are_not_in_memory_does_not_end_the_session(
    node: DataNode, follower: Follower, cold: set[int]
) -> None:
    open_session(follower)
    append(node, b"a", topic="copied", index=0)
    first = follower.fetch(min_bytes=10_000, max_wait_ms=60_000)
    cold.add(0)

    second = follower.fetch(("copied", 1, 0))

    assert not cold, "the first request had to read again"
    assert values(only(await first)) == [b"a"]
    assert (await second).error_code == ErrorCode.NONE


async def test_requests_that_arrive_while_pages_are_loaded_are_answered_in_their_order(
    node: DataNode, follower: Follower, cold: set[int]
) -> None:
    open_session(follower)
    append(node, b"a", topic="copied", index=0)
    cold.add(0)
    answered: list[int] = []
    requests = [follower.fetch()]
    cold.add(0)  # for the second request too
    requests += [follower.fetch(("copied", index, 0), max_wait_ms=60_000) for index in (1, 2, 0)]
    for number, request in enumerate(requests):
        request.add_done_callback(lambda _, number=number: answered.append(number))

    await asyncio.wait(requests)

    assert answered == [0, 1, 2, 3]
    assert {request.result().error_code for request in requests} == {ErrorCode.NONE}
    assert follower.fetch().error_code == ErrorCode.NONE


async def test_a_position_is_recorded_only_after_the_request_before_it_was_answered(
    node: DataNode, follower: Follower, cold: set[int]
) -> None:
    open_session(follower)
    append(node, b"a", topic="copied", index=0)
    append(node, b"b", topic="copied", index=1)
    cold.add(0)
    first = follower.fetch()

    second = follower.fetch(("copied", 1, 1))

    assert node.partition("copied", 1).high_watermark == 0
    assert [values(data) for data in answers(await first)] == [[b"a"], [b"b"]]
    assert [(data.partition_index, data.high_watermark) for data in answers(await second)] == [(0, 0), (1, 1)]


async def test_a_position_that_was_refused_is_still_refused_after_pages_were_loaded(
    cluster: Cluster, node: DataNode, follower: Follower, cold: set[int]
) -> None:
    """The second read did not check it again: the follower got records without being a replica."""
    cluster.add_topic("moving")  # the assignment that adds the follower has not arrived here
    append(node, b"a", topic="copied")
    cold.add(0)

    response = await follower.fetch(("moving", 0, 0), ("copied", 0, 0), current_leader_epoch=0)

    assert not cold
    assert [(data.error_code, values(data)) for data in answers(response)] == [
        (ErrorCode.UNKNOWN_LEADER_EPOCH, []),
        (ErrorCode.NONE, [b"a"]),
    ]


async def test_offsets_that_the_follower_may_have_ignored_are_sent_again(
    cluster: Cluster, node: DataNode, context: Context
) -> None:
    """The follower ignored a response with a new high watermark, and did not learn it until the next one."""
    cluster.add_topic("copied", partitions=2, replicas=(1, FOLLOWER, 3), isr=(1, 3))
    partition = node.partition("copied")
    follower = Follower(node, context)
    follower.fetch(("copied", 0, 0))
    append(node, b"a", topic="copied")
    assert only(follower.fetch()).high_watermark == 0
    partition.follower_fetched(3, end_offset=1, start_offset=0, leader_epoch=0, now_ms=1)
    # Sent before the first response arrived. The follower ignores what the second repeats.
    repeated = answers(follower.fetch(("copied", 1, 0)))[0]
    assert (values(repeated), repeated.high_watermark) == ([b"a"], 1)

    acknowledged = only(follower.fetch(("copied", 0, 1)))

    assert acknowledged.high_watermark == 1
    assert answers(follower.fetch()) == []


async def test_offsets_are_sent_again_to_a_follower_that_starts_again_where_it_was(
    follower: Follower,
) -> None:
    """It ignores responses to requests before it was truncated, or before a new leader epoch."""
    open_session(follower)

    assert only(follower.fetch(("copied", 1, 0))).high_watermark == 0
    assert answers(follower.fetch()) == []


async def test_unchanged_offsets_are_not_sent_again_to_a_follower_that_acknowledges_records(
    cluster: Cluster, node: DataNode, context: Context
) -> None:
    cluster.add_topic("copied", replicas=(1, FOLLOWER, 3))  # 3 has not fetched: nothing is committed
    follower = Follower(node, context)
    follower.fetch(("copied", 0, 0))
    append(node, b"a", topic="copied")
    assert only(follower.fetch()).high_watermark == 0

    assert answers(follower.fetch(("copied", 0, 1))) == []


async def test_offsets_that_are_sent_again_do_not_end_a_wait(node: DataNode, follower: Follower) -> None:
    node.broker.selects_replicas = True
    open_session(follower)

    waiting = follower.fetch(("copied", 0, 0), max_wait_ms=30)

    assert isinstance(waiting, asyncio.Future), "nothing changed"
    assert only(await waiting).high_watermark == 0


async def test_a_new_leader_epoch_ends_the_wait(cluster: Cluster, node: DataNode, follower: Follower) -> None:
    follower.fetch(("copied", 0, 0), current_leader_epoch=0)
    waiting = follower.fetch(max_wait_ms=60_000)

    cluster.publish(partition_record("copied", 0, replicas=(1, FOLLOWER), leader_epoch=3))

    assert only(await waiting).error_code == ErrorCode.FENCED_LEADER_EPOCH


async def test_partitions_take_turns_when_a_response_is_full(node: DataNode, follower: Follower) -> None:
    open_session(follower)
    for index in range(3):
        append(node, b"x" * 1000, topic="copied", index=index)

    served = [
        [data.partition_index for data in answers(follower.fetch(max_bytes=1500)) if data.records]
        for _ in range(6)
    ]

    assert served == [[0], [1], [2], [0], [1], [2]]


async def test_a_follower_that_disconnects_leaves_no_watch(node: DataNode, follower: Follower) -> None:
    waiting = follower.fetch(("copied", 0, 0), max_wait_ms=60_000)
    purgatory = node.partition("copied").purgatory
    assert len(purgatory.watches) == 1

    waiting.cancel()
    await asyncio.sleep(0)

    assert not purgatory.watches


def watch_counts(node: DataNode) -> list[int]:
    return [len(node.partition("copied", index).purgatory.watches) for index in range(3)]


async def test_a_waiting_fetch_of_a_session_that_was_replaced_leaves_no_watch(
    node: DataNode, follower: Follower
) -> None:
    """When its timer fired, it watched all partitions again, for a session that nobody uses."""
    open_session(follower)
    waiting = follower.fetch(max_wait_ms=60_000)

    follower.epoch = 0  # it has lost the connection, which the leader has not noticed
    open_session(follower)

    assert waiting.done(), "it is answered at once"
    assert waiting.result().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert watch_counts(node) == [1, 1, 1]


async def test_a_late_request_on_an_old_connection_does_not_keep_a_follower_out_of_the_isr(
    node: DataNode, follower: Follower, context: Context
) -> None:
    """The leader believed the old position for good, because requests do not name idle partitions."""
    late = Follower(node, context)  # sent before the connection was lost
    append(node, b"a", topic="copied")
    follower.fetch(("copied", 0, 1))
    replica = node.partition("copied").followers.get(FOLLOWER)
    assert replica is not None

    late.fetch(("copied", 0, 0))
    assert replica.end_offset == 0
    assert follower.fetch().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    follower.session_id, follower.epoch = 0, 0  # as it does after this error
    follower.fetch(("copied", 0, 1))

    assert replica.end_offset == 1
    assert follower.fetch().error_code == ErrorCode.NONE
    assert len(node.broker.fetch_sessions) == 1, "the session of the late request has ended"


async def test_a_late_request_of_an_older_process_does_not_end_the_session_of_the_new_one(
    node: DataNode, follower: Follower, context: Context
) -> None:
    """Two processes with one node id would end each other's sessions again and again."""
    open_session(follower)

    Follower(node, context, broker_epoch=follower.broker_epoch - 1).fetch(("copied", 0, 0))

    assert follower.fetch().error_code == ErrorCode.NONE


async def test_a_fetch_that_waits_is_answered_when_another_session_has_its_partition(
    node: DataNode, follower: Follower, context: Context
) -> None:
    open_session(follower)
    waiting = follower.fetch(max_wait_ms=60_000)

    Follower(node, context).fetch(("copied", 1, 0))

    assert waiting.result().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert watch_counts(node) == [0, 1, 0]


async def test_a_first_fetch_that_waits_is_answered_when_another_session_has_its_partition(
    node: DataNode, follower: Follower, context: Context
) -> None:
    """Its session is not stored yet."""
    waiting = follower.fetch(("copied", 0, 0), ("copied", 1, 0), max_wait_ms=60_000)

    Follower(node, context).fetch(("copied", 1, 0))

    assert waiting.result().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert watch_counts(node) == [0, 1, 0]
    assert len(node.broker.fetch_sessions) == 1


async def test_sessions_of_one_follower_with_different_partitions_do_not_disturb_each_other(
    node: DataNode, follower: Follower, context: Context
) -> None:
    """There is one for each of `num.replica.fetchers`."""
    second = Follower(node, context)
    follower.fetch(("copied", 0, 0))
    second.fetch(("copied", 1, 0))

    assert follower.fetch().error_code == second.fetch().error_code == ErrorCode.NONE
    assert watch_counts(node) == [1, 1, 0]


async def test_a_fetch_that_loads_pages_of_a_session_that_was_replaced_leaves_no_watch(
    node: DataNode, follower: Follower, cold: set[int]
) -> None:
    open_session(follower)
    append(node, b"a", topic="copied", index=0)
    cold.add(0)
    loading = follower.fetch(max_wait_ms=60_000)
    delayed = follower.fetch(("copied", 1, 0), max_wait_ms=60_000)
    follower.epoch = 0
    open_session(follower)

    responses = [await loading, await delayed]

    assert {response.error_code for response in responses} == {ErrorCode.FETCH_SESSION_ID_NOT_FOUND}
    assert watch_counts(node) == [1, 1, 1]


async def test_a_waiting_fetch_of_a_session_that_was_evicted_leaves_no_watch(
    node: DataNode, follower: Follower
) -> None:
    open_session(follower)
    waiting = follower.fetch(max_wait_ms=60_000)

    node.broker.fetch_sessions.close(follower.session_id)

    assert waiting.result().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert watch_counts(node) == [0, 0, 0]


async def test_a_follower_that_disconnects_while_pages_are_loaded_leaves_no_watch(
    node: DataNode, follower: Follower, cold: set[int]
) -> None:
    open_session(follower)
    append(node, b"a", topic="copied", index=0)
    cold.add(0)
    requests = [follower.fetch(), follower.fetch(("copied", 1, 0), max_wait_ms=60_000)]

    for request in requests:
        request.cancel()
    await asyncio.sleep(0.05)

    assert watch_counts(node) == [0, 0, 0]


async def test_a_session_that_the_follower_empties_ends(node: DataNode, follower: Follower) -> None:
    open_session(follower)

    response = follower.fetch(forget=[0, 1, 2])

    assert (response.error_code, response.session_id, answers(response)) == (ErrorCode.NONE, 0, [])
    assert watch_counts(node) == [0, 0, 0]
    assert len(node.broker.fetch_sessions) == 0


async def test_a_session_that_the_follower_empties_while_pages_are_loaded_ends(
    node: DataNode, follower: Follower, cold: set[int]
) -> None:
    open_session(follower)
    append(node, b"a", topic="copied", index=0)
    cold.add(0)
    loading = follower.fetch()

    response = await follower.fetch(forget=[0, 1, 2])

    assert values(only(loading.result())) == [b"a"]
    assert (response.error_code, response.session_id, answers(response)) == (ErrorCode.NONE, 0, [])
    assert watch_counts(node) == [0, 0, 0]


async def test_the_sessions_of_an_earlier_process_are_closed(
    node: DataNode, follower: Follower, context: Context
) -> None:
    open_session(follower)
    restarted = Follower(node, context, broker_epoch=9)

    open_session(restarted)

    assert len(node.broker.fetch_sessions) == 1
    assert len(node.partition("copied").purgatory.watches) == 1


async def test_a_deleted_topic_is_reported_and_forgotten(
    cluster: Cluster, node: DataNode, follower: Follower
) -> None:
    open_session(follower)
    cluster.delete_topic("copied")

    assert {data.error_code for data in answers(follower.fetch())} == {ErrorCode.UNKNOWN_TOPIC_ID}


# -- throttling


async def test_a_throttled_replica_that_is_not_in_sync_gets_records_as_its_quota_allows(
    cluster: Cluster, node: DataNode, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.add_topic(
        "copied",
        partitions=2,
        replicas=(1, FOLLOWER),
        isr=(1,),
        settings={"leader.replication.throttled.replicas": "0:1"},
    )
    follower = Follower(node, context)
    monkeypatch.setattr(node.broker.leader_quota, "_rate", lambda: 10)
    for index in range(2):
        append(node, b"x" * 1000, topic="copied", index=index)

    first = follower.fetch(("copied", 0, 0), ("copied", 1, 0))
    second = follower.fetch()

    assert [data.partition_index for data in answers(first) if data.records] == [0, 1]
    assert [data.partition_index for data in answers(second) if data.records] == [1], "0 used up the quota"


async def test_a_throttled_replica_in_sync_is_not_slowed_down(
    cluster: Cluster, node: DataNode, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.add_topic(
        "copied", replicas=(1, FOLLOWER), settings={"leader.replication.throttled.replicas": "*"}
    )
    follower = Follower(node, context)
    monkeypatch.setattr(node.broker.leader_quota, "_rate", lambda: 10)
    append(node, b"x" * 1000, topic="copied")

    for _ in range(3):
        request = [("copied", 0, 0)] if follower.epoch == 0 else []
        assert only(follower.fetch(*request)).records


# -- reading from followers


async def test_a_consumer_is_sent_to_the_follower_in_its_rack(
    cluster: Cluster, node: DataNode, context: Context
) -> None:
    cluster.add_broker(2)
    cluster.add_topic("copied", replicas=(1, 2))
    node.broker.selects_replicas = True
    append(node, b"a", topic="copied")
    follower = Follower(node, context)
    follower.fetch(("copied", 0, 0), log_start_offset=0)
    follower.fetch(("copied", 0, 1), log_start_offset=0)
    request = fetch(("copied", 0, 0), max_wait_ms=60_000)
    request.rack_id = "rack-2"

    data = only(handle(node.broker, request, context(version=VERSION)))

    assert (data.preferred_read_replica, values(data)) == (2, [])
    request.rack_id = "rack-1"
    assert values(only(handle(node.broker, request, context(version=VERSION)))) == [b"a"]
    request.rack_id = ""
    assert values(only(handle(node.broker, request, context(version=VERSION)))) == [b"a"]


async def test_a_follower_without_the_offset_or_out_of_sync_is_not_preferred(
    cluster: Cluster, node: DataNode, context: Context
) -> None:
    cluster.add_broker(2)
    cluster.add_topic("copied", replicas=(1, 2))
    append(node, b"a", topic="copied")
    partition, image = node.partition("copied"), cluster.metadata.image

    def preferred(offset: int) -> int:
        return preferred_read_replica(partition, offset, rack="rack-2", image=image, listener="PLAINTEXT")

    assert preferred(0) == LEADER, "it has not fetched"
    partition.follower_fetched(2, end_offset=1, start_offset=0, leader_epoch=0, now_ms=0)
    assert preferred(0) == 2
    assert preferred(5) == LEADER
    cluster.publish(partition_record("copied", 0, replicas=(1, 2), isr=(1,), leader_epoch=1))
    assert preferred(0) == LEADER
