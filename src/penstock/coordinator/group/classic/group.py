"""The state of a classic group: its members, leader, generation and protocol.

`rebalance` drives it. The invariants: `leader_id` is a member if there are members; `joined_count` is the number of
members with a `join_wait`; `_supporters` counts the members that support each protocol; an id in `pending_ids` is not a
member yet.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Self

from penstock.coordinator.group.classic.member import Member, Protocols, join_error, sync_error
from penstock.coordinator.group.classic.state import REACHED_FROM, State
from penstock.coordinator.group.context import GroupContext
from penstock.coordinator.group.group import Group, GroupType
from penstock.coordinator.group.records.classic import GroupMetadataKey
from penstock.coordinator.result import CoordinatorRecord, DeferredResponse
from penstock.metadata.errors import Refused
from penstock.protocol.codec import codec
from penstock.protocol.errors import ErrorCode, MalformedMessage
from penstock.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from penstock.protocol.messages.join_group import JoinGroupResponse

CONSUMER_PROTOCOL = "consumer"
"""The protocol type of consumers, the only one whose metadata the coordinator can read."""

VERSION_BYTES = 2  # before a subscription


class ClassicGroup(Group):
    type = GroupType.CLASSIC

    def __init__(
        self,
        context: GroupContext,
        group_id: str,
        *,
        state: State = State.EMPTY,
        generation: int = 0,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> None:
        """By default a simple group: it has committed offsets, but no member ever joined."""
        self.group_id = group_id
        self._timers = context.timers
        self._wall_ms = context.wall_ms
        self._random = context.dependencies.random
        self.state = state
        self.previous_state = State.DEAD
        self.state_since_ms: int | None = context.wall_ms()
        """Wall clock; None: unknown, from an old record."""
        self.generation = generation
        self._protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.leader_id: str | None = None
        self.has_to_rebalance = False
        """It was loaded from the record of a downgrade that requires a rebalance."""
        self.members: dict[str, Member] = {}
        """By id, in the order in which they joined."""
        self.static_ids: dict[str, str] = {}
        """From instance id to member id."""
        self.pending_ids: dict[str, None] = {}
        """Returned with MEMBER_ID_REQUIRED, but not joined yet (KIP-394)."""
        self.pending_syncs: dict[str, None] = {}
        """Members that have not sent SyncGroup in this generation."""
        self.assigned_generation = -1
        """The last generation whose assignments were written. They are written once: a leader that retries might send
        other assignments, and then log and members would differ."""
        self.joined_count = 0
        self.has_new_member = False
        """Whether a member joined since the initial rebalance was last extended."""
        self._supporters: dict[str, int] = {}
        self._subscriptions: list[bytes] | None = None
        """The members' metadata when the generation began; None: unknown."""
        self._topics: frozenset[str] | None = None
        self._are_topics_read = False

    @classmethod
    def of_members(
        cls,
        context: GroupContext,
        group_id: str,
        *,
        generation: int,
        members: Iterable[Member],
        protocol_type: str = CONSUMER_PROTOCOL,
    ) -> Self:
        """A stable group with these members, for a downgrade."""
        group = cls(context, group_id, state=State.STABLE, generation=generation, protocol_type=protocol_type)
        for member in members:
            group.add(member)
        group.protocol_name = group.select_protocol()
        group.note_subscriptions()
        return group

    # -- states

    def move_to(self, state: State) -> None:
        assert self.state in REACHED_FROM[state], f"{self.group_id}: {self.state.value} to {state.value}"
        self.previous_state = self.state
        self.state = state
        self.state_since_ms = self._wall_ms()

    def begin_generation(self) -> None:
        """The first phase is complete."""
        self.generation += 1
        self.pending_syncs.clear()
        if self.members:
            self.protocol_name = self.select_protocol()
            self.move_to(State.COMPLETING_REBALANCE)
        else:
            self.protocol_name = None
            self.move_to(State.EMPTY)
        self.note_subscriptions()

    @property
    def has_all_joined(self) -> bool:
        return self.joined_count == len(self.members) and not self.pending_ids

    @property
    def rebalance_timeout_ms(self) -> int:
        """The maximum of all members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # -- members

    def make_member_id(self, client_id: str, instance_id: str | None) -> str:
        unique = uuid.UUID(int=self._random.getrandbits(128), version=4)
        return f"{client_id if instance_id is None else instance_id}-{unique}"

    def add(self, member: Member) -> None:
        assert member.instance_id is None or member.instance_id not in self.static_ids, (
            "the instance id is used by another member"
        )
        if not self.members:
            assert self._protocol_type is not None, "the first member sets the protocol type"
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id
        self._count_protocols(member.protocols, 1)
        self.joined_count += member.join_wait is not None
        self.pending_ids.pop(member.member_id, None)

    def remove(self, member: Member, error: ErrorCode = ErrorCode.UNKNOWN_MEMBER_ID) -> None:
        """Remove a member, fail its waiting requests, and choose another leader if needed."""
        self.complete_join(member, join_error(error))
        member.complete_sync(sync_error(error))
        del self.members[member.member_id]
        if member.instance_id is not None:
            del self.static_ids[member.instance_id]
        self._count_protocols(member.protocols, -1)
        self.pending_syncs.pop(member.member_id, None)
        self._timers.cancel(member)
        member.forget_session()
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self.members), None)

    def replace(self, old: Member, new: Member) -> None:
        """Replace a static member that rejoined with a new id. Requests of the old id are fenced."""
        self.complete_join(old, join_error(ErrorCode.FENCED_INSTANCE_ID, old.member_id))
        old.complete_sync(sync_error(ErrorCode.FENCED_INSTANCE_ID))
        was_leader = self.leader_id == old.member_id
        was_pending_sync = old.member_id in self.pending_syncs
        self.remove(old)
        self.add(new)
        if was_leader:
            self.leader_id = new.member_id
        if was_pending_sync:
            self.pending_syncs[new.member_id] = None

    def update(
        self, member: Member, *, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int
    ) -> None:
        self._count_protocols(member.protocols, -1)
        member.protocols = protocols
        self._count_protocols(protocols, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def wait_for_join(self, member: Member, wait: DeferredResponse[JoinGroupResponse]) -> None:
        """`member` waits for the others. An earlier request, maybe of a lost connection, is failed."""
        self.complete_join(member, join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        member.join_wait = wait
        self.joined_count += 1

    def complete_join(self, member: Member, response: JoinGroupResponse) -> None:
        """Does nothing if the member does not wait for one."""
        wait, member.join_wait = member.join_wait, None
        if wait is not None:
            self.joined_count -= 1
            wait.complete(response)

    def elect_leader(self) -> bool:
        """If the leader did not join, choose a member that did. False if no member joined."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].join_wait is not None:
            return True
        for member in self.members.values():
            if member.join_wait is not None:
                self.leader_id = member.member_id
                return True
        return False

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """NONE, UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if another member has its instance id."""
        if instance_id is not None:
            current_id = self.static_ids.get(instance_id)
            if current_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current_id != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def keep_alive(self, member: Member) -> None:
        """Restart the session of the member."""
        self._timers.set(member, member.session_timeout_ms, member.expire)

    # -- protocols

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols may join: all members must share one."""
        if self.state is State.EMPTY:
            return bool(protocol_type) and bool(protocols)
        count = len(self.members)
        return protocol_type == self._protocol_type and any(
            self._supporters.get(name, 0) == count for name in protocols
        )

    def select_protocol(self) -> str:
        """Every member votes among the protocols that all support. If votes are equal, the first vote wins."""
        count = len(self.members)
        candidates = {name for name, supporters in self._supporters.items() if supporters == count}
        votes: dict[str, int] = {}
        for member in self.members.values():
            name = member.vote(candidates)
            votes[name] = votes.get(name, 0) + 1
        return max(votes, key=votes.__getitem__)

    def _count_protocols(self, protocols: Protocols, change: int) -> None:
        for name in protocols:
            count = self._supporters.get(name, 0) + change
            if count:
                self._supporters[name] = count
            else:
                del self._supporters[name]

    # -- subscriptions

    def note_subscriptions(self) -> None:
        """Keep the subscriptions that the members of this generation joined with. They are decoded on demand."""
        name = self.protocol_name
        self._are_topics_read = False
        if not self.is_using_consumer_protocol or (name is None and self.members):
            self._subscriptions = None
        else:
            self._subscriptions = [
                member.protocols[name] for member in self.members.values() if name is not None
            ]

    @property
    def subscribed_topics(self) -> frozenset[str] | None:
        """None if they are unknown."""
        if not self._are_topics_read:
            self._topics = None if self._subscriptions is None else _read_topics(self._subscriptions)
            self._are_topics_read = True
        return self._topics

    @property
    def is_using_consumer_protocol(self) -> bool:
        return self._protocol_type == CONSUMER_PROTOCOL

    # -- the interface of every group

    @property
    def protocol_type(self) -> str:
        return self._protocol_type or ""

    @protocol_type.setter
    def protocol_type(self, value: str) -> None:
        assert not self.members, "the protocol type of a group with members does not change"
        self._protocol_type = value

    def state_name(self, *, committed: bool = False) -> str:
        return self.state.value

    def check_offset_commit(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        generation_or_epoch: int,
        is_transactional: bool,
        version: int,
    ) -> None:
        state = self.state
        if state is State.DEAD:
            raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if generation_or_epoch < 0 and state is State.EMPTY:
            return  # an administrator, or a consumer that assigns its own partitions
        if generation_or_epoch >= 0 or member_id or instance_id is not None:
            error = self.check_member(member_id, instance_id)
            if error is not ErrorCode.NONE:
                raise Refused(error)
            if generation_or_epoch != self.generation:
                raise Refused(ErrorCode.ILLEGAL_GENERATION)
        elif not is_transactional and state is not State.EMPTY:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
        if is_transactional:
            return  # older versions of TxnOffsetCommit have no member, so the state does not matter
        if state is State.COMPLETING_REBALANCE:
            raise Refused(ErrorCode.REBALANCE_IN_PROGRESS)
        if member_id in self.members:
            self.keep_alive(self.members[member_id])

    def check_offset_fetch(self, *, member_id: str | None, member_epoch: int) -> None:
        self._check_alive()

    def is_subscribed_to(self, topic: str) -> bool:
        topics = self.subscribed_topics
        return self.is_using_consumer_protocol if topics is None else topic in topics

    def check_offset_delete(self) -> None:
        self._check_alive()
        if self.state is not State.EMPTY and not self.is_using_consumer_protocol:
            raise Refused(ErrorCode.NON_EMPTY_GROUP, f"Group {self.group_id} is not empty: it has members.")

    def check_delete(self) -> None:
        self._check_alive()
        if self.state is not State.EMPTY:
            raise Refused(ErrorCode.NON_EMPTY_GROUP, f"Group {self.group_id} is not empty: it has members.")

    def tombstones(self) -> list[CoordinatorRecord]:
        return [CoordinatorRecord(GroupMetadataKey(group=self.group_id), None)]

    def offsets_expire_from_ms(self, commit_timestamp_ms: int, *, topic: str) -> int | None:
        if self._protocol_type is None:
            return commit_timestamp_ms
        if self.is_subscribed_to(topic):
            return None
        if self.state is State.EMPTY:
            return commit_timestamp_ms if self.state_since_ms is None else self.state_since_ms
        if self.state is State.STABLE and self.subscribed_topics is not None:
            return commit_timestamp_ms
        return None

    @property
    def is_kept_without_offsets(self) -> bool:
        return self.state is not State.EMPTY or bool(self.pending_ids)

    def _check_alive(self) -> None:
        if self.state is State.DEAD:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.group_id} not found.")


def _read_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Decoded as version 0, because later versions only append fields. None if a subscription is malformed."""
    decode = codec(ConsumerProtocolSubscription, 0).decode
    topics: set[str] = set()
    try:
        for subscription in subscriptions:
            decoded, _ = decode(memoryview(subscription), VERSION_BYTES)
            topics.update(decoded.topics)
    except MalformedMessage:
        return None
    return frozenset(topics)
