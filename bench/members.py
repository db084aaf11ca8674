"""Members of consumer groups as clients behave, on one connection each: the classic protocol and KIP-848's.

They take part in nothing but the group. What depends on the broker's answers (member ids, generations, epochs) is put
into frames that were built beforehand. A member that has nothing to say says so every `PACE_S`: real clients wait for
seconds, and then that wait, which is theirs, would be all that is measured.
"""

from __future__ import annotations

import struct
import uuid
from collections import Counter
from collections.abc import Callable
from copy import copy
from functools import cache
from typing import Any

from bench.crowd import Crowd, Link
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
SESSION_MS = 600_000  # nobody drops out while the other broker has its turn
ANSWER_AT = 5  # after correlation id and tagged fields: every version used here is flexible
ERROR_AT = ANSWER_AT + 4  # after the throttle time

_ERROR = struct.Struct(">h")
_EPOCH = struct.Struct(">i")
_ODD_EPOCH = 0x5EED5EED  # found again in an encoded frame, to be replaced there


class ClassicGroup:
    """One group of the classic protocol: its leader gives `per_member` partitions to every member."""

    def __init__(
        self, group_id: str, topic: str, links: list[Link], crowd: Crowd, *, per_member: int
    ) -> None:
        self.group_id = group_id
        self.crowd = crowd
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
        """What a member says after it joined; only the leader was told of the others, and assigns."""
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
        self._link.on_answer = self._joined
        self._link.send(self._group.join_frame(self.member_id))

    def heartbeat_frame(self) -> bytes:
        return request_frame(
            HeartbeatRequest(
                group_id=self._group.group_id, generation_id=self.generation_id, member_id=self.member_id
            ),
            ApiKey.HEARTBEAT,
        )

    def _joined(self, answer: memoryview) -> None:
        error = error_of(answer)
        response = _decode(answer, ApiKey.JOIN_GROUP)
        if error == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            self.join()
            return
        _expect_none(error, "JoinGroup")
        self.generation_id = response.generation_id
        self._link.on_answer = self._synced
        self._link.send(self._group.sync_frame(response))

    def _synced(self, answer: memoryview) -> None:
        error = error_of(answer)
        if error == ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
            return
        _expect_none(error, "SyncGroup")
        self._group.settled[self.generation_id] += 1
        self._link.on_answer = self._beaten
        self._group.crowd.after_pace(PACE_S, self._beat)

    def _beat(self) -> None:
        self._link.send(self.heartbeat_frame())

    def _beaten(self, answer: memoryview) -> None:
        error = error_of(answer)
        if error == ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
            return
        _expect_none(error, "Heartbeat")
        self._group.crowd.after_pace(PACE_S, self._beat)


class ConsumerGroup:
    """One group of KIP-848, whose members take and give up at once what the coordinator tells them to."""

    def __init__(
        self,
        group_id: str,
        topic: str,
        links: list[Link],
        crowd: Crowd,
        *,
        per_member: int,
    ) -> None:
        self.group_id = group_id
        self.topic = topic
        self.crowd = crowd
        self.epochs: Counter[int] = Counter()
        self._per_member = per_member
        self.members = [ConsumerMember(self, link) for link in links]

    def start(self) -> None:
        for member in self.members:
            member.join()

    @property
    def is_stable(self) -> bool:
        """Whether all are in one epoch, own their share of the partitions, and have told so.

        The share matters: until the coordinator assigns anew, all are in the epoch in which the first owned everything.
        """
        if len(self.members) not in self.epochs.values():
            return False
        if not all(member.has_told and len(member.owned) == self._per_member for member in self.members):
            return False
        owned = {partition for member in self.members for partition in member.owned}
        return len(owned) == self._per_member * len(self.members)


class ConsumerMember:
    __slots__ = ("_beat_frame", "_epoch_at", "_group", "_link", "epoch", "has_told", "member_id", "owned")

    def __init__(self, group: ConsumerGroup, link: Link) -> None:
        self._group = group
        self._link = link
        self.member_id = str(uuid.uuid4())
        self.epoch = 0
        self.owned: list[int] = []
        self.has_told = False
        self._beat_frame = bytearray(self._frame(_ODD_EPOCH))
        self._epoch_at = self._beat_frame.index(_EPOCH.pack(_ODD_EPOCH))

    def join(self) -> None:
        self._link.on_answer = self._answered
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

    def _frame(self, epoch: int, **told: Any) -> bytes:
        return request_frame(
            ConsumerGroupHeartbeatRequest(
                group_id=self._group.group_id, member_id=self.member_id, member_epoch=epoch, **told
            ),
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
        )

    def _answered(self, answer: memoryview) -> None:
        _expect_none(error_of(answer), "ConsumerGroupHeartbeat")
        response = _decode(answer, ApiKey.CONSUMER_GROUP_HEARTBEAT)
        if response.member_epoch != self.epoch:
            epochs = self._group.epochs
            epochs[self.epoch] -= 1
            epochs[response.member_epoch] += 1
            self.epoch = response.member_epoch
        self.has_told = response.assignment is None
        if response.assignment is None:
            self._group.crowd.after_pace(PACE_S, self._beat)
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


def error_of(answer: memoryview) -> int:
    """The error of an answer that begins with the throttle time and an error, as all of these do."""
    error: int = _ERROR.unpack_from(answer, ERROR_AT)[0]
    return error


def _expect_none(error: int, what: str) -> None:
    if error:
        raise RuntimeError(f"{what} was refused: {ErrorCode(error)!r}")


@cache
def _decoder(key: ApiKey) -> Callable[[memoryview, int], tuple[Any, int]]:
    return codec(api(key).response_class(), VERSIONS[key]).decode


def _decode(answer: memoryview, key: ApiKey) -> Any:
    return _decoder(key)(answer, ANSWER_AT)[0]


def _subscription(topic: str) -> bytes:
    subscription = ConsumerProtocolSubscription(topics=[topic])
    return struct.pack(">h", 3) + codec(ConsumerProtocolSubscription, 3).encode(subscription)


def _assignment(topic: str, partitions: list[int]) -> bytes:
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[TopicPartition(topic=topic, partitions=partitions)]
    )
    return struct.pack(">h", 3) + codec(ConsumerProtocolAssignment, 3).encode(assignment)
