"""Offsets: requests and responses in all versions, and what is retried or raised."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from penstock.client import errors
from penstock.client.cluster import Cluster, PartitionInfo, Topic, TopicPartition
from penstock.client.group.offsets import GroupOffsets, commit_request, fetch_request, read_commit, read_fetch
from penstock.client.group.types import GroupMetadata, Offset
from penstock.protocol.apis import ApiKey
from penstock.protocol.codec import codec
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from penstock.protocol.types import Uuid
from penstock.runtime.backoff import Backoff
from simulator.loop import VirtualLoop, run_virtual

TOPIC_ID = Uuid(b"orders..........")
TOPIC = Topic("orders", TOPIC_ID, partitions=(PartitionInfo(0), PartitionInfo(1)))
CLUSTER = Cluster(topics={"orders": TOPIC}, topics_by_id={TOPIC_ID: TOPIC})
ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)
WHO = GroupMetadata("billing", 3, "me", None)


@pytest.mark.parametrize("version", range(2, 11))
def test_a_commit_can_be_encoded_in_every_version(version: int) -> None:
    request = commit_request({ZERO: Offset(5, 2, "note"), ONE: Offset(7)}, WHO, CLUSTER)

    data = codec(OffsetCommitRequest, version).encode(request)
    read, _ = codec(OffsetCommitRequest, version).decode(data)

    (topic,) = read.topics
    assert topic.topic_id == TOPIC_ID if version >= 10 else topic.name == "orders"
    assert [(each.partition_index, each.committed_offset) for each in topic.partitions] == [(0, 5), (1, 7)]
    assert topic.partitions[0].committed_leader_epoch == (2 if version >= 6 else -1)
    assert (read.member_id, read.generation_id_or_member_epoch) == ("me", 3)


@pytest.mark.parametrize("version", range(2, 11))
def test_commit_responses_are_read_by_name_and_by_id(version: int) -> None:
    response = OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name="orders" if version < 10 else "",
                topic_id=TOPIC_ID,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=0),
                    OffsetCommitResponsePartition(partition_index=1, error_code=ErrorCode.ILLEGAL_GENERATION),
                ],
            )
        ]
    )
    data = codec(OffsetCommitResponse, version).encode(response)

    answers = read_commit(codec(OffsetCommitResponse, version).decode(data)[0], [ZERO, ONE], CLUSTER)

    assert answers == {ZERO: ErrorCode.NONE, ONE: ErrorCode.ILLEGAL_GENERATION}


@pytest.mark.parametrize("version", range(1, 11))
def test_a_lookup_can_be_encoded_and_decoded_in_every_version(version: int) -> None:
    request = fetch_request([ONE, ZERO], WHO, CLUSTER, version=version, is_stable=version >= 7)
    read, _ = codec(OffsetFetchRequest, version).decode(codec(OffsetFetchRequest, version).encode(request))
    topics = read.groups[0].topics if version >= 8 else read.topics
    assert topics[0].partition_indexes == [0, 1]
    assert read.require_stable is (version >= 7)
    if version >= 9:
        assert (read.groups[0].member_id, read.groups[0].member_epoch) == ("me", 3)

    found: dict[TopicPartition, Offset] = {}
    answers = read_fetch(lookup_answer(version), [ZERO, ONE], CLUSTER, into=found)

    assert found == {ZERO: Offset(5, 2 if version >= 5 else -1, "note")}
    assert answers == {ZERO: ErrorCode.NONE, ONE: ErrorCode.NONE}


def lookup_answer(version: int) -> Any:
    if version < 8:
        old = [
            OffsetFetchResponsePartition(
                partition_index=0, committed_offset=5, committed_leader_epoch=2, metadata="note"
            ),
            OffsetFetchResponsePartition(partition_index=1, committed_offset=-1, metadata=""),
        ]
        response = OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name="orders", partitions=old)])
    else:
        new = [
            OffsetFetchResponsePartitions(
                partition_index=0, committed_offset=5, committed_leader_epoch=2, metadata="note"
            ),
            OffsetFetchResponsePartitions(partition_index=1, committed_offset=-1, metadata=None),
        ]
        topic = OffsetFetchResponseTopics(
            name="orders" if version < 10 else "", topic_id=TOPIC_ID, partitions=new
        )
        response = OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="billing", topics=[topic])])
    return codec(OffsetFetchResponse, version).decode(codec(OffsetFetchResponse, version).encode(response))[0]


Answer = dict[TopicPartition, ErrorCode] | Exception | OffsetFetchResponse


class Broker:
    """Replaces `ClusterClient`: responds to commits with prepared errors, one request after the other."""

    def __init__(self, *answers: Answer, last_version: int = 10) -> None:
        self.answers = list(answers)
        self.backoff = Backoff(100, 1000, jitter=0)
        self.cluster = CLUSTER
        self.last_version = last_version
        self.asked: list[tuple[Any, int]] = []
        self.forgotten = self.stale = 0

    async def coordinator(self, kind: object, key: str) -> int:
        return 1

    async def connect(self, node_id: int) -> None: ...

    def versions(self, node_id: int) -> dict[int, tuple[int, int]]:
        return {ApiKey.OFFSET_COMMIT: (0, self.last_version), ApiKey.OFFSET_FETCH: (0, self.last_version)}

    def forget_coordinator(self, kind: object, key: str) -> None:
        self.forgotten += 1

    def mark_stale(self) -> None:
        self.stale += 1

    async def ask(self, node_id: int, request: Any, *, version: int) -> Any:
        self.asked.append((request, version))
        answer = self.answers.pop(0) if self.answers else {}
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, OffsetFetchResponse):
            return answer
        return OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetCommitResponsePartition(
                            partition_index=each.partition_index,
                            error_code=answer.get(
                                TopicPartition(topic.name, each.partition_index), ErrorCode.NONE
                            ),
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )


def commit(
    broker: Broker,
    partitions: Iterable[TopicPartition] = (ZERO, ONE),
    *,
    on_refused: Callable[[ErrorCode], None] = lambda error: None,
) -> None:
    offsets = GroupOffsets(broker, "billing", on_refused=on_refused)  # type: ignore[arg-type]

    async def who() -> GroupMetadata:
        return WHO

    run_virtual(
        VirtualLoop(), offsets.commit({each: Offset(1) for each in partitions}, who, deadline_ms=10_000)
    )


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.REQUEST_TIMED_OUT,
    ],
)
def test_only_retriable_partitions_are_committed_again(error: ErrorCode) -> None:
    broker = Broker({ONE: error})

    commit(broker)

    assert [len(request.topics[0].partitions) for request, _ in broker.asked] == [2, 1]


def test_a_commit_that_lost_its_connection_looks_up_the_coordinator() -> None:
    broker = Broker(errors.Disconnected())

    commit(broker)

    assert broker.forgotten == 1
    assert len(broker.asked) == 2


def test_a_commit_that_times_out_has_a_reason() -> None:
    broker = Broker(*[{ZERO: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}] * 1000)

    with pytest.raises(errors.TimedOut, match="COORDINATOR_LOAD_IN_PROGRESS"):
        commit(broker)


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ],
)
def test_a_removed_member_cannot_commit(error: ErrorCode) -> None:
    reported: list[ErrorCode] = []

    with pytest.raises(errors.CommitFailed, match=error.name):
        commit(Broker({ZERO: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ONE: error}), on_refused=reported.append)

    assert reported == [error]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, errors.GroupAuthorizationFailed),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, errors.TopicAuthorizationFailed),
        (ErrorCode.OFFSET_METADATA_TOO_LARGE, errors.OffsetMetadataTooLarge),
        (ErrorCode.FENCED_INSTANCE_ID, errors.FencedInstanceId),
        (ErrorCode.REBALANCE_IN_PROGRESS, errors.RebalanceInProgress),
    ],
)
def test_fatal_errors_are_raised(error: ErrorCode, kind: type[errors.BrokerError]) -> None:
    with pytest.raises(kind):
        commit(Broker({ZERO: error}))


def test_a_removed_member_looks_up_without_a_member_id() -> None:
    """Its commit would be rejected; a lookup does no harm, and must not fail the application's poll."""
    reported: list[ErrorCode] = []
    refusal = OffsetFetchResponse(
        groups=[
            OffsetFetchResponseGroup(group_id="billing", topics=[], error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        ]
    )
    broker = Broker(refusal, lookup_answer(9))
    offsets = GroupOffsets(broker, "billing", on_refused=reported.append)  # type: ignore[arg-type]

    async def who() -> GroupMetadata:
        return GroupMetadata("billing") if reported else WHO

    found = run_virtual(VirtualLoop(), offsets.committed([ZERO, ONE], who, deadline_ms=10_000))

    assert found == {ZERO: Offset(5, 2, "note")}
    assert reported == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert [request.groups[0].member_id for request, _ in broker.asked] == ["me", None]


def test_topics_go_by_id_only_if_all_ids_are_known() -> None:
    broker = Broker()
    commit(broker)
    assert broker.asked[0][1] == 10

    broker = Broker()
    commit(broker, [ZERO, TopicPartition("unheard of", 0)])
    assert broker.asked[0][1] == 9

    broker = Broker(last_version=6)
    commit(broker)
    assert broker.asked[0][1] == 6


def test_a_deleted_topic_is_reported_after_the_others_are_committed() -> None:
    """It was retried until the timeout, which delayed a whole rebalance."""
    gone = replace(TOPIC, name="gone", error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    lost = TopicPartition("gone", 0)
    broker = Broker(
        {lost: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ZERO: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    )
    broker.cluster = replace(CLUSTER, topics={"orders": TOPIC, "gone": gone})

    with pytest.raises(errors.UnknownTopicOrPartition, match="gone-0"):
        commit(broker, [ZERO, lost])

    assert [
        [(topic.name, len(topic.partitions)) for topic in request.topics] for request, _ in broker.asked
    ] == [[("gone", 1), ("orders", 1)], [("orders", 1)]]


def test_an_empty_commit_sends_no_request() -> None:
    broker = Broker()
    commit(broker, [])
    assert broker.asked == []
