"""Members of classic groups and consumer groups (KIP-848), with one connection each.

They only join groups and consume nothing. Values of the broker (member ids, generations, epochs) are written into
prepared frames. A member sends a heartbeat every `PACE_S`: real clients wait for seconds, and that wait would dominate
the measurement.
"""

from __future__ import annotations

import struct
import uuid
from collections import Counter
from collections.abc import Callable
from copy import copy
from functools import cache
from typing import Any

from bench.connections import ConnectionPool, Link
from bench.wire import VERSIONS, request_frame
from penstock.protocol.apis import ApiKey, api
from penstock.protocol.codec import codec
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from penstock.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

PACE_S = 0.01
SESSION_MS = 600_000  # no member expires while the other broker is measured
BODY_AT = 5  # after correlation id and tagged fields: every version used here is flexible
ERROR_AT = BODY_AT + 4  # after the throttle time

_ERROR = struct.Struct(">h")
_EPOCH = struct.Struct(">i")
_ODD_EPOCH = 0x5EED5EED  # found again in an encoded frame, to be replaced there


class ClassicGroup:
    """One classic group. Its leader assigns `per_member` partitions to every member."""

    def __init__(
        self, group_id: str, topic: str, links: list[Link], pool: ConnectionPool, *, per_member: int
    ) -> None:
        self.group_id = group_id
        self.pool = pool
        self.settled: Counter[int] = Counter()
        """How many members have got their assignment, by generation."""
        self._join = _Split(
            lambda member_id: JoinGroupRequest(
                group_id=group_id,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=SESSION_MS,
                member_id=member_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=_subscription(topic))],
            ),
            ApiKey.JOIN_GROUP,
        )
        self._sync = _Split(lambda member_id: self._sync_request(_ODD_EPOCH, member_id), ApiKey.SYNC_GROUP)
        self._syncs: dict[int, _Split] = {}
        self._assignments = [
            _assignment(topic, [number * per_member + index for index in range(per_member)])
            for number in range(len(links))
        ]
        self.members = [ClassicMember(self, link) for link in links]

    def start(self) -> None:
        for member in self.members:
            member.join()

    @property
    def is_settled(self) -> bool:
        """Whether all members have got an assignment in one generation."""
        return len(self.members) in self.settled.values()

    def join_frame(self, member_id: str) -> bytes:
        return self._join.with_member(member_id)

    def sync_frame(self, joined: Any) -> bytes:
        """The SyncGroup request of a member. Only the leader knows the other members, and assigns."""
        generation = joined.generation_id
        if joined.members:
            request = self._sync_request(generation, joined.member_id)
            request.assignments = [
                SyncGroupRequestAssignment(member_id=member.member_id, assignment=assignment)
                for member, assignment in zip(joined.members, self._assignments, strict=False)
            ]
            return request_frame(request, ApiKey.SYNC_GROUP)
        if generation not in self._syncs:
            self._syncs[generation] = self._sync.in_epoch(generation)
        return self._syncs[generation].with_member(joined.member_id)

    def _sync_request(self, generation_id: int, member_id: str) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id=self.group_id,
            generation_id=generation_id,
            member_id=member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[],
        )


class ClassicMember:
    __slots__ = ("_group", "_link", "generation_id", "member_id")

    def __init__(self, group: ClassicGroup, link: Link) -> None:
        self._group = group
        self._link = link
        self.member_id = ""
        self.generation_id = -1

    def join(self) -> None:
        self._link.on_response = self._joined
        self._link.send(self._group.join_frame(self.member_id))

    def heartbeat_frame(self) -> bytes:
        return request_frame(
            HeartbeatRequest(
                group_id=self._group.group_id, generation_id=self.generation_id, member_id=self.member_id
            ),
            ApiKey.HEARTBEAT,
        )

    def _joined(self, received: memoryview) -> None:
        error = error_of(received)
        response = _decode(received, ApiKey.JOIN_GROUP)
        if error == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            self.join()
            return
        _expect_none(error, "JoinGroup")
        self.generation_id = response.generation_id
        self._link.on_response = self._synced
        self._link.send(self._group.sync_frame(response))

    def _synced(self, response: memoryview) -> None:
        error = error_of(response)
        if error == ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
            return
        _expect_none(error, "SyncGroup")
        self._group.settled[self.generation_id] += 1
        self._link.on_response = self._beaten
        self._group.pool.call_later(PACE_S, self._beat)

    def _beat(self) -> None:
        self._link.send(self.heartbeat_frame())

    def _beaten(self, response: memoryview) -> None:
        error = error_of(response)
        if error == ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
            return
        _expect_none(error, "Heartbeat")
        self._group.pool.call_later(PACE_S, self._beat)


class ConsumerGroup:
    """One consumer group (KIP-848), whose members confirm every assignment at once."""

    def __init__(
        self,
        group_id: str,
        topic: str,
        links: list[Link],
        pool: ConnectionPool,
        *,
        per_member: int,
    ) -> None:
        self.group_id = group_id
        self.topic = topic
        self.pool = pool
        self.epochs: Counter[int] = Counter()
        self._per_member = per_member
        self.members = [ConsumerMember(self, link) for link in links]

    def start(self) -> None:
        for member in self.members:
            member.join()

    @property
    def is_stable(self) -> bool:
        """Whether all members are in one epoch, own their share of the partitions, and have confirmed it.

        The share matters: before the next assignment, all are in the epoch in which the first member owned everything.
        """
        if len(self.members) not in self.epochs.values():
            return False
        if not all(member.has_confirmed and len(member.owned) == self._per_member for member in self.members):
            return False
        owned = {partition for member in self.members for partition in member.owned}
        return len(owned) == self._per_member * len(self.members)


class ConsumerMember:
    __slots__ = (
        "_beat_frame",
        "_epoch_at",
        "_group",
        "_link",
        "epoch",
        "has_confirmed",
        "member_id",
        "owned",
    )

    def __init__(self, group: ConsumerGroup, link: Link) -> None:
        self._group = group
        self._link = link
        self.member_id = str(uuid.uuid4())
        self.epoch = 0
        self.owned: list[int] = []
        self.has_confirmed = False
        self._beat_frame = bytearray(self._frame(_ODD_EPOCH))
        self._epoch_at = self._beat_frame.index(_EPOCH.pack(_ODD_EPOCH))

    def join(self) -> None:
        self._link.on_response = self._response_received
        self._link.send(
            self._frame(
                0,
                rebalance_timeout_ms=300_000,
                subscribed_topic_names=[self._group.topic],
                topic_partitions=[],
            )
        )

    def leave_frame(self) -> bytes:
        return self._frame(-1)

    def _frame(self, epoch: int, **reported: Any) -> bytes:
        return request_frame(
            ConsumerGroupHeartbeatRequest(
                group_id=self._group.group_id, member_id=self.member_id, member_epoch=epoch, **reported
            ),
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
        )

    def _response_received(self, received: memoryview) -> None:
        _expect_none(error_of(received), "ConsumerGroupHeartbeat")
        response = _decode(received, ApiKey.CONSUMER_GROUP_HEARTBEAT)
        if response.member_epoch != self.epoch:
            epochs = self._group.epochs
            epochs[self.epoch] -= 1
            epochs[response.member_epoch] += 1
            self.epoch = response.member_epoch
        self.has_confirmed = response.assignment is None
        if response.assignment is None:
            self._group.pool.call_later(PACE_S, self._beat)
        else:
            self._take(response.assignment.topic_partitions)

    def _take(self, given: list[TopicPartitions]) -> None:
        self.owned = [partition for topic in given for partition in topic.partitions]
        self._link.send(self._frame(self.epoch, topic_partitions=given))

    def _beat(self) -> None:
        _EPOCH.pack_into(self._beat_frame, self._epoch_at, self.epoch)
        self._link.send(self._beat_frame)


class _Split:
    """A request as bytes before and after the member id, which the broker makes up."""

    def __init__(self, make: Callable[[str], Any], key: ApiKey) -> None:
        mark = "0" * 40
        frame = request_frame(make(mark), key)
        marked = bytes([len(mark) + 1]) + mark.encode()
        at = frame.index(marked)
        self._before, self._after = frame[4:at], frame[at + len(marked) :]

    def in_epoch(self, epoch: int) -> _Split:
        """The same with another number in place of `_ODD_EPOCH`."""
        split = copy(self)
        split._before = self._before.replace(_EPOCH.pack(_ODD_EPOCH), _EPOCH.pack(epoch))
        return split

    def with_member(self, member_id: str) -> bytes:
        name = member_id.encode()
        assert len(name) < 127, "the length of a compact string fits one byte only below this"
        size = len(self._before) + 1 + len(name) + len(self._after)
        return b"".join((_EPOCH.pack(size), self._before, bytes([len(name) + 1]), name, self._after))


def error_of(response: memoryview) -> int:
    """The error of a response that starts with the throttle time and the error, as all of these do."""
    error: int = _ERROR.unpack_from(response, ERROR_AT)[0]
    return error


def _expect_none(error: int, what: str) -> None:
    if error:
        raise RuntimeError(f"{what} was refused: {ErrorCode(error)!r}")


@cache
def _decoder(key: ApiKey) -> Callable[[memoryview, int], tuple[Any, int]]:
    return codec(api(key).response_class(), VERSIONS[key]).decode


def _decode(response: memoryview, key: ApiKey) -> Any:
    return _decoder(key)(response, BODY_AT)[0]


def _subscription(topic: str) -> bytes:
    subscription = ConsumerProtocolSubscription(topics=[topic])
    return struct.pack(">h", 3) + codec(ConsumerProtocolSubscription, 3).encode(subscription)


def _assignment(topic: str, partitions: list[int]) -> bytes:
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[TopicPartition(topic=topic, partitions=partitions)]
    )
    return struct.pack(">h", 3) + codec(ConsumerProtocolAssignment, 3).encode(assignment)
