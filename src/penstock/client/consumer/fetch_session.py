"""The client side of a fetch session with one node (KIP-227): requests name only what changed. No I/O.

The node remembers the partitions. Each request increments the session epoch, and the response to an incremental one has
only partitions with data or changes. Whenever the two sides may disagree (an error of the session, a request without a
response), the next request is a full one, which replaces the session.

A session names topics by id or by name, not both: if one topic has no known id, all go by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.client.cluster import TopicPartition
from penstock.protocol.constants import FINAL_EPOCH, INITIAL_EPOCH, INVALID_SESSION_ID
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import FetchPartition, FetchResponse, FetchTopic, ForgottenTopic
from penstock.protocol.types import ZERO_UUID, Uuid

EPOCH_MAX = 2**31 - 1
NAMES_VERSION = 12  # of Fetch: the last version with topic names


class Target(NamedTuple):
    """What to fetch from one partition."""

    topic_id: Uuid
    offset: int
    leader_epoch: int
    bytes_max: int


class Wish(NamedTuple):
    """The part of a request that the session decides."""

    session_id: int
    epoch: int
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]
    version_max: int | None
    """None: the newest that both sides know."""


class FetchSession:
    def __init__(self) -> None:
        self._id = INVALID_SESSION_ID
        self._epoch = INITIAL_EPOCH
        self._targets: dict[TopicPartition, Target] = {}
        self._goes_by_id = False
        self._names: dict[Uuid, str] = {}

    @property
    def is_open(self) -> bool:
        return self._id != INVALID_SESSION_ID and self._epoch != INITIAL_EPOCH

    def next(self, wanted: Mapping[TopicPartition, Target], *, knows_ids: bool = True) -> Wish:
        """The request that fetches exactly `wanted`. `knows_ids`: the node supports topic ids."""
        goes_by_id = knows_ids and all(target.topic_id != ZERO_UUID for target in wanted.values())
        if goes_by_id != self._goes_by_id:
            self._epoch = INITIAL_EPOCH
        before = {} if self._epoch == INITIAL_EPOCH else self._targets
        changed = {
            partition: target for partition, target in wanted.items() if before.get(partition) != target
        }
        forgotten = [
            (partition, target)
            for partition, target in before.items()
            if partition not in wanted or wanted[partition].topic_id != target.topic_id
        ]
        self._goes_by_id = goes_by_id
        self._targets = dict(wanted)
        self._names.update(
            {target.topic_id: partition.topic for partition, target in wanted.items()} if goes_by_id else {}
        )
        return Wish(
            self._id,
            self._epoch,
            _topics(changed),
            _forgotten(forgotten),
            None if goes_by_id else NAMES_VERSION,
        )

    def name_of(self, topic: str, topic_id: Uuid) -> str | None:
        """The topic of a response's entry."""
        return topic or self._names.get(topic_id)

    def answered(self, response: FetchResponse) -> bool:
        """Advance the epoch; False if the response is only an error of the session."""
        if response.error_code != ErrorCode.NONE:
            if response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._id = INVALID_SESSION_ID
            self._epoch = INITIAL_EPOCH
            return False
        self._id = response.session_id
        if self._id == INVALID_SESSION_ID:
            self._epoch = INITIAL_EPOCH  # the node has no room for another session
        else:
            self._epoch = self._epoch + 1 if self._epoch < EPOCH_MAX else 1
        return True

    def failed(self) -> None:
        """It is unknown whether the node has seen the request."""
        self._epoch = INITIAL_EPOCH

    def last(self) -> Wish:
        """The request that closes the session."""
        wish = Wish(self._id, FINAL_EPOCH, [], [], None if self._goes_by_id else NAMES_VERSION)
        self._id, self._epoch, self._targets = INVALID_SESSION_ID, INITIAL_EPOCH, {}
        return wish


def _topics(targets: Mapping[TopicPartition, Target]) -> list[FetchTopic]:
    topics: dict[tuple[str, Uuid], list[FetchPartition]] = {}
    for partition, target in targets.items():
        topics.setdefault((partition.topic, target.topic_id), []).append(
            FetchPartition(
                partition=partition.partition,
                current_leader_epoch=target.leader_epoch,
                fetch_offset=target.offset,
                partition_max_bytes=target.bytes_max,
            )
        )
    return [
        FetchTopic(topic=name, topic_id=topic_id, partitions=partitions)
        for (name, topic_id), partitions in topics.items()
    ]


def _forgotten(forgotten: Iterable[tuple[TopicPartition, Target]]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, Uuid], list[int]] = {}
    for partition, target in forgotten:
        topics.setdefault((partition.topic, target.topic_id), []).append(partition.partition)
    return [
        ForgottenTopic(topic=name, topic_id=topic_id, partitions=partitions)
        for (name, topic_id), partitions in topics.items()
    ]
