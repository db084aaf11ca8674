"""A fetch session with one node (KIP-227), the reader's side: name what changed, not everything. No I/O.

The node remembers what is wanted of it. Each request counts up, and an answer to an incremental one holds only
partitions with news. Whenever the two sides may disagree (an error of the session, a request without an answer), the
next request is a full one, which ends the old session and asks for a new.

A session names topics by id or by name, not both: where one of them has no id that is known, all go by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.client.cluster import TopicPartition
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import FetchPartition, FetchResponse, FetchTopic, ForgottenTopic
from penstock.protocol.types import ZERO_UUID, Uuid

NO_SESSION = 0
FULL = 0  # the epoch of a request that names everything
LAST = -1  # of one that ends the session
EPOCH_MAX = 2**31 - 1
NAMES_VERSION = 12  # of Fetch: the last in which topics go by name


class Target(NamedTuple):
    """What is wanted of one partition."""

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
        self._id = NO_SESSION
        self._epoch = FULL
        self._targets: dict[TopicPartition, Target] = {}
        self._goes_by_id = False
        self._names: dict[Uuid, str] = {}

    @property
    def is_open(self) -> bool:
        return self._id != NO_SESSION and self._epoch != FULL

    def next(self, wanted: Mapping[TopicPartition, Target], *, knows_ids: bool = True) -> Wish:
        """What to ask so that exactly `wanted` is fetched. `knows_ids`: the node speaks a version that has them."""
        goes_by_id = knows_ids and all(target.topic_id != ZERO_UUID for target in wanted.values())
        if goes_by_id != self._goes_by_id:
            self._epoch = FULL
        before = {} if self._epoch == FULL else self._targets
        changed = {
            partition: target for partition, target in wanted.items() if before.get(partition) != target
        }
        gone = [
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
            _forgotten(gone),
            None if goes_by_id else NAMES_VERSION,
        )

    def name_of(self, topic: str, topic_id: Uuid) -> str | None:
        """The topic that an answer speaks of."""
        return topic or self._names.get(topic_id)

    def answered(self, response: FetchResponse) -> bool:
        """Count on; False where the answer is about the session itself and holds nothing."""
        if response.error_code != ErrorCode.NONE:
            if response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._id = NO_SESSION
            self._epoch = FULL
            return False
        self._id = response.session_id
        if self._id == NO_SESSION:
            self._epoch = FULL  # the node has no room for another session
        else:
            self._epoch = self._epoch + 1 if self._epoch < EPOCH_MAX else 1
        return True

    def failed(self) -> None:
        """Whether the node has seen the request is not known."""
        self._epoch = FULL

    def last(self) -> Wish:
        """The request with which the session ends."""
        wish = Wish(self._id, LAST, [], [], None if self._goes_by_id else NAMES_VERSION)
        self._id, self._epoch, self._targets = NO_SESSION, FULL, {}
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


def _forgotten(gone: Iterable[tuple[TopicPartition, Target]]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, Uuid], list[int]] = {}
    for partition, target in gone:
        topics.setdefault((partition.topic, target.topic_id), []).append(partition.partition)
    return [
        ForgottenTopic(topic=name, topic_id=topic_id, partitions=partitions)
        for (name, topic_id), partitions in topics.items()
    ]
