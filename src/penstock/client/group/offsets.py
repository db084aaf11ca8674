"""How far a group has read: commits and looks up offsets, for members and for readers that are members of nothing.

What the broker refuses for now is tried again until the deadline, and only what it refused; a member that was put out
gets `CommitFailed`, because offsets of another's partitions must not be touched. Who asks is told anew for each
attempt: a member may be in the next generation by then.

OffsetCommit and OffsetFetch name topics by id from v10 on, and both are filled in here: where an id is not known, v9 is
spoken. A group's members of the newer protocol say who they are when they look up offsets, too (v9).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any

from penstock.client import errors
from penstock.client.backoff import Backoff
from penstock.client.cluster import Cluster, TopicPartition
from penstock.client.cluster_client import ClusterClient, CoordinatorKind
from penstock.client.group.nouns import NO_GENERATION, GroupMetadata, Offset
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
        ErrorCode.GROUP_ID_NOT_FOUND,  # there are no members at all
    }
)
MOVED = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT}
)
PASSING = frozenset(
    {
        *MOVED,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # a broker may learn of a topic later than we did
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,  # a transaction is about to change it
        ErrorCode.STALE_MEMBER_EPOCH,  # the next heartbeat tells the new one
    }
)
UNKNOWN_TOPIC = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})

Identity = Callable[[], Awaitable[GroupMetadata]]
Answers = dict[TopicPartition, ErrorCode]


class GroupOffsets:
    """The offsets of one group. `on_refused` is told when the group does not know the member any more."""

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
        gone: Answers = {}

        async def attempt() -> None:
            if not left:
                return
            who = await identity()
            request = commit_request(left, who, self._client.cluster)
            response = await self._ask(request, ApiKey.OFFSET_COMMIT, left)
            answers = read_commit(response, left, self._client.cluster)
            gone.update(self._take_gone(answers))
            for partition, error in answers.items():
                if error == ErrorCode.NONE:
                    del left[partition]
            for partition in gone:
                left.pop(partition, None)
            self._judge(answers)

        await self._repeat(attempt, deadline_ms, f"offsets of group {self._group_id} to be committed")
        self._judge(gone, is_final=True)

    async def committed(
        self, partitions: Collection[TopicPartition], identity: Identity, *, deadline_ms: int
    ) -> dict[TopicPartition, Offset]:
        """Those that there are: a partition for which nothing is committed is left out."""
        found: dict[TopicPartition, Offset] = {}

        async def attempt() -> None:
            who = await identity()
            version = await self._version(ApiKey.OFFSET_FETCH, partitions)
            request = fetch_request(
                partitions, who, self._client.cluster, version=version, is_stable=self._requires_stable
            )
            response = await self._ask(request, ApiKey.OFFSET_FETCH, partitions)
            answers = read_fetch(response, partitions, self._client.cluster, into=found)
            self._take_gone(answers)  # nothing is committed for them
            # Whoever was put out looks up as anybody may, with the next attempt; what it is told it will not need.
            put_out = {each: error for each, error in answers.items() if error in PUT_OUT}
            if put_out:
                partition, error = min(put_out.items())
                self._on_refused(error)
                raise _Passing(error, partition)
            self._judge(answers)

        if partitions:
            await self._repeat(attempt, deadline_ms, f"offsets of group {self._group_id}")
        return found

    # Asking

    async def _version(self, key: ApiKey, partitions: Iterable[TopicPartition]) -> int:
        """The newest that both sides know, and in which all topics can be named."""
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

    def _take_gone(self, answers: Answers) -> Answers:
        """Take out partitions of topics that, as far as we can tell, are gone: waiting does not bring them back."""
        topics = self._client.cluster.topics
        gone = {
            partition: error
            for partition, error in answers.items()
            if error in UNKNOWN_TOPIC
            and (topic := topics.get(partition.topic)) is not None
            and topic.error in UNKNOWN_TOPIC
        }
        for partition in gone:
            del answers[partition]
        return gone

    def _judge(self, answers: Answers, *, is_final: bool = False) -> None:
        """Raise for what was refused, the worst first; `is_final`: also what might pass."""
        refused = {partition: error for partition, error in answers.items() if error != ErrorCode.NONE}
        if not refused:
            return
        partition, error = min(refused.items(), key=lambda each: (each[1] in PASSING, each[0]))
        if error in PUT_OUT:
            self._on_refused(error)
            raise errors.CommitFailed(
                f"the group has moved on without this member ({error.name})", about=f"group {self._group_id}"
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
        settings = client.settings
        backoff = Backoff(settings.get("retry.backoff.ms"), settings.get("retry.backoff.max.ms"))
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
                    await asyncio.sleep(backoff.wait_ms(failures) / 1000)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise errors.TimedOut(f"no {what}" + (f": {reason}" if reason else "")) from (reason or error)


class _Passing(Exception):
    def __init__(self, error: ErrorCode, partition: TopicPartition) -> None:
        super().__init__(error.name)
        self.error = error
        self.partition = partition


# Requests and answers


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
    """What became of each partition; one that the answer leaves out counts as refused."""
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
    indexes: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        indexes.setdefault(topic, []).append(index)
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
    """What became of each partition; offsets that there are go `into` a table."""
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
