"""Commits and looks up offsets of a group, for members and for consumers without a subscription.

Partitions that fail with a retriable error are tried again until the deadline. A member that was removed from the group
gets `CommitFailed`, because it must not change offsets of partitions that others own. The member id and generation are
read again for each attempt: a member may be in the next generation by then.

From v10 on OffsetCommit and OffsetFetch name topics by id; if an id is unknown, v9 is used. Members of the consumer
protocol also send their member id when they look up offsets (v9).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any

from penstock.client import errors
from penstock.client.cluster import Cluster, TopicPartition, by_topic
from penstock.client.cluster_client import ClusterClient, CoordinatorKind
from penstock.client.group.types import NO_GENERATION, GroupMetadata, Offset
from penstock.protocol.apis import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from penstock.protocol.types import ZERO_UUID, Uuid

IDS_VERSION = 10
NAMES_VERSION = 9
GROUPS_VERSION = 8

PUT_OUT = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,  # the group has no members
    }
)
MOVED = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT}
)
PASSING = frozenset(
    {
        *MOVED,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # a broker may learn of a topic later than the client
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,  # a transaction is about to change it
        ErrorCode.STALE_MEMBER_EPOCH,  # the next heartbeat brings the new one
    }
)
UNKNOWN_TOPIC = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})

Identity = Callable[[], Awaitable[GroupMetadata]]
Answers = dict[TopicPartition, ErrorCode]


class GroupOffsets:
    """The offsets of one group. `on_refused` is called when the group no longer knows the member."""

    def __init__(
        self,
        client: ClusterClient,
        group_id: str,
        *,
        requires_stable: bool = False,
        on_refused: Callable[[ErrorCode], None] = lambda error: None,
    ) -> None:
        self._client = client
        self._group_id = group_id
        self._requires_stable = requires_stable
        self._on_refused = on_refused

    async def commit(
        self, offsets: Mapping[TopicPartition, Offset], identity: Identity, *, deadline_ms: int
    ) -> None:
        left = dict(offsets)
        deleted: Answers = {}

        async def attempt() -> None:
            if not left:
                return
            who = await identity()
            request = commit_request(left, who, self._client.cluster)
            response = await self._ask(request, ApiKey.OFFSET_COMMIT, left)
            answers = read_commit(response, left, self._client.cluster)
            deleted.update(self._take_deleted(answers))
            for partition, error in answers.items():
                if error == ErrorCode.NONE:
                    del left[partition]
            for partition in deleted:
                left.pop(partition, None)
            self._judge(answers)

        await self._repeat(attempt, deadline_ms, f"offsets of group {self._group_id} to be committed")
        self._judge(deleted, is_final=True)

    async def committed(
        self, partitions: Collection[TopicPartition], identity: Identity, *, deadline_ms: int
    ) -> dict[TopicPartition, Offset]:
        """The committed offsets; partitions without one are left out."""
        found: dict[TopicPartition, Offset] = {}

        async def attempt() -> None:
            who = await identity()
            version = await self._version(ApiKey.OFFSET_FETCH, partitions)
            request = fetch_request(
                partitions, who, self._client.cluster, version=version, is_stable=self._requires_stable
            )
            response = await self._ask(request, ApiKey.OFFSET_FETCH, partitions)
            answers = read_fetch(response, partitions, self._client.cluster, into=found)
            self._take_deleted(answers)  # nothing is committed for them
            # A removed member looks up without a member id with the next attempt; it will not use the result.
            commit_fenced = {each: error for each, error in answers.items() if error in PUT_OUT}
            if commit_fenced:
                partition, error = min(commit_fenced.items())
                self._on_refused(error)
                raise _Passing(error, partition)
            self._judge(answers)

        if partitions:
            await self._repeat(attempt, deadline_ms, f"offsets of group {self._group_id}")
        return found

    # Requests

    async def _version(self, key: ApiKey, partitions: Iterable[TopicPartition]) -> int:
        """The newest version that both sides know and in which all topics can be named."""
        client = self._client
        node_id = await client.coordinator(CoordinatorKind.GROUP, self._group_id)
        await client.connect(node_id)
        _, last = client.versions(node_id).get(key, (0, IDS_VERSION))
        version = min(last, IDS_VERSION)
        if version == IDS_VERSION and any(_id(topic, client.cluster) == ZERO_UUID for topic, _ in partitions):
            return NAMES_VERSION
        return version

    async def _ask(self, request: Any, key: ApiKey, partitions: Iterable[TopicPartition]) -> Any:
        client = self._client
        version = await self._version(key, partitions)
        node_id = await client.coordinator(CoordinatorKind.GROUP, self._group_id)
        try:
            return await client.ask(node_id, request, version=version)
        except (ConnectionError, TimeoutError):
            client.forget_coordinator(CoordinatorKind.GROUP, self._group_id)
            raise

    def _take_deleted(self, answers: Answers) -> Answers:
        """Take out partitions of deleted topics: waiting does not help."""
        topics = self._client.cluster.topics
        deleted = {
            partition: error
            for partition, error in answers.items()
            if error in UNKNOWN_TOPIC
            and (topic := topics.get(partition.topic)) is not None
            and topic.error in UNKNOWN_TOPIC
        }
        for partition in deleted:
            del answers[partition]
        return deleted

    def _judge(self, answers: Answers, *, is_final: bool = False) -> None:
        """Raise the worst error; `is_final`: retriable ones too."""
        refused = {partition: error for partition, error in answers.items() if error != ErrorCode.NONE}
        if not refused:
            return
        partition, error = min(refused.items(), key=lambda each: (each[1] in PASSING, each[0]))
        if error in PUT_OUT:
            self._on_refused(error)
            raise errors.CommitFailed(
                f"the group has rebalanced without this member ({error.name})",
                about=f"group {self._group_id}",
            )
        if error == ErrorCode.FENCED_INSTANCE_ID:
            self._on_refused(error)
        if error in MOVED:
            self._client.forget_coordinator(CoordinatorKind.GROUP, self._group_id)
        if error in UNKNOWN_TOPIC:
            self._client.mark_stale()
        if error == ErrorCode.STALE_MEMBER_EPOCH:
            self._on_refused(error)
        if error in PASSING and not is_final:
            raise _Passing(error, partition)
        raise errors.of(error, about=partition)

    async def _repeat(self, attempt: Callable[[], Awaitable[None]], deadline_ms: int, what: str) -> None:
        client = self._client
        failures = 0
        reason: errors.PenstockError | None = None
        limit = asyncio.timeout_at(deadline_ms / 1000)
        try:
            async with limit:
                while True:
                    try:
                        return await attempt()
                    except _Passing as passing:
                        reason = errors.of(passing.error, about=passing.partition)
                    except errors.PenstockError as error:
                        if not error.retriable or isinstance(error, errors.RebalanceInProgress):
                            raise
                        reason = error
                    failures += 1
                    await asyncio.sleep(client.backoff.wait_ms(failures) / 1000)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise errors.TimedOut(f"no {what}" + (f": {reason}" if reason else "")) from (reason or error)


class _Passing(Exception):
    def __init__(self, error: ErrorCode, partition: TopicPartition) -> None:
        super().__init__(error.name)
        self.error = error
        self.partition = partition


# Encoding and decoding


def commit_request(
    offsets: Mapping[TopicPartition, Offset], who: GroupMetadata, cluster: Cluster
) -> OffsetCommitRequest:
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, index), offset in sorted(offsets.items()):
        topics.setdefault(topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=index,
                committed_offset=offset.offset,
                committed_leader_epoch=offset.leader_epoch,
                committed_metadata=offset.metadata,
            )
        )
    return OffsetCommitRequest(
        group_id=who.group_id,
        generation_id_or_member_epoch=who.generation,
        member_id=who.member_id,
        group_instance_id=who.instance_id,
        topics=[
            OffsetCommitRequestTopic(name=topic, topic_id=_id(topic, cluster), partitions=partitions)
            for topic, partitions in topics.items()
        ],
    )


def read_commit(response: Any, partitions: Iterable[TopicPartition], cluster: Cluster) -> Answers:
    """The error code of each partition; one that is missing in the response counts as failed."""
    names = {_id(topic, cluster): topic for topic, _ in partitions}
    answers: Answers = dict.fromkeys(partitions, ErrorCode.UNKNOWN_SERVER_ERROR)
    for topic in response.topics:
        name = topic.name or names.get(topic.topic_id, "")
        for entry in topic.partitions:
            answers[TopicPartition(name, entry.partition_index)] = entry.error_code
    return answers


def fetch_request(
    partitions: Iterable[TopicPartition],
    who: GroupMetadata,
    cluster: Cluster,
    *,
    version: int,
    is_stable: bool,
) -> OffsetFetchRequest:
    indexes = by_topic(sorted(partitions))
    if version < GROUPS_VERSION:
        named = [OffsetFetchRequestTopic(name=name, partition_indexes=each) for name, each in indexes.items()]
        return OffsetFetchRequest(group_id=who.group_id, topics=named, require_stable=is_stable)
    group = OffsetFetchRequestGroup(
        group_id=who.group_id,
        member_id=who.member_id or None,
        member_epoch=who.generation if who.member_id else NO_GENERATION,
        topics=[
            OffsetFetchRequestTopics(name=name, topic_id=_id(name, cluster), partition_indexes=each)
            for name, each in indexes.items()
        ],
    )
    return OffsetFetchRequest(groups=[group], require_stable=is_stable)


def read_fetch(
    response: Any,
    partitions: Iterable[TopicPartition],
    cluster: Cluster,
    *,
    into: dict[TopicPartition, Offset],
) -> Answers:
    """The error code of each partition; the offsets go `into` a dict."""
    answered = response.groups[0] if response.groups else response
    answers: Answers = dict.fromkeys(partitions, answered.error_code)
    names = {_id(topic, cluster): topic for topic, _ in partitions}
    for topic in answered.topics:
        name = topic.name if getattr(topic, "name", "") else names.get(topic.topic_id, "")
        for entry in topic.partitions:
            partition = TopicPartition(name, entry.partition_index)
            if entry.error_code != ErrorCode.NONE:
                answers[partition] = entry.error_code
            elif entry.committed_offset >= 0:
                into[partition] = Offset(
                    entry.committed_offset, entry.committed_leader_epoch, entry.metadata or ""
                )
    return answers


def _id(topic: str, cluster: Cluster) -> Uuid:
    known = cluster.topics.get(topic)
    return known.id if known is not None else ZERO_UUID
