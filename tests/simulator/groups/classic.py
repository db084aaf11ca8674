"""A member of a classic group: join, sync, heartbeat, leave, and every error in between.

The leader assigns by range, round robin or cooperatively (KIP-429), whichever all members support. Members use
different versions of the protocol. Some are static (KIP-345), and newer ones get their id before they join (KIP-394).
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from penstock.protocol.errors import ErrorCode, MalformedMessage
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from penstock.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from penstock.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from simulator.groups.assignment import (
    COOPERATIVE,
    NamedPartition,
    Subscription,
    assign,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from simulator.groups.group import SimulatedGroup
from simulator.groups.member import BACKOFF_S, NOT_A_MEMBER, OUT_OF_DATE, Member
from simulator.groups.offset_client import COORDINATOR_ERRORS
from simulator.groups.ownership import Known, Partition
from simulator.simulation import BrokenPromise, Simulation

JOIN_VERSIONS = (2, 4, 5, 9)  # without a required member id, with it, with static members, the newest
STATIC_JOIN_VERSIONS = (5, 9)
LEAVE_VERSIONS = (2, 5)  # one member, several members
LOOK_FOR_PARTITIONS_CHANCE = 0.15  # at every heartbeat of a leader
COMMIT_S_MAX = 5.0  # `offsets.commit.timeout.ms`: how long a response waits for a log whose disk has failed


class ClassicMember(Member):
    def __init__(
        self,
        simulation: Simulation,
        name: str,
        group: SimulatedGroup,
        *,
        protocols: Sequence[str],
        instance_id: str | None = None,
    ) -> None:
        super().__init__(simulation, name, group, instance_id=instance_id)
        self._protocols = list(protocols)
        self.random.shuffle(self._protocols)  # in order of preference
        self._version = self.random.choice(JOIN_VERSIONS if instance_id is None else STATIC_JOIN_VERSIONS)
        self._has_to_join = True
        self._is_synced = False
        """It has its assignment of this generation, and has not asked to rejoin."""
        self._is_leader = False
        self._counts: dict[str, int] = {}
        """The partitions that it assigned as leader."""
        self.assignment = b""
        """The assignment that it received."""

    @property
    def is_settled(self) -> bool:
        return not self._has_to_join

    @property
    def commits_show_life(self) -> bool:
        """In consumer groups, which a mixed group may be, only heartbeats count, as in Kafka."""
        return not self.group.is_mixed

    @property
    def _waits_for_others_s(self) -> float:
        """How long the group waits for members that do not join, or a leader that does not assign."""
        return self.group.rebalance_s + self.group.session_s + COMMIT_S_MAX + 2 * self.simulation.settle_s

    @property
    def _is_cooperative(self) -> bool:
        return COOPERATIVE in self._protocols

    async def _step(self) -> None:
        if self._has_to_join and not (self._is_busy and self._is_synced):
            await self._join()
            return
        await asyncio.sleep(self.random.uniform(0.3, 1) * self.group.heartbeat_s)
        for act, chance in ((self._consume, 0.4), (self._commit, 0.5), (self._heartbeat, 1.0)):
            if self.random.random() < chance and self._is_synced:
                await act()
        if self._is_leader and self.random.random() < LOOK_FOR_PARTITIONS_CHANCE:
            counts = await self._find_topics()
            self._has_to_join |= counts != self._counts

    # Joining

    async def _join(self) -> None:
        if not self._is_cooperative:
            self.group.ownership.release(self.membership)
            self._positions.clear()
        self._is_synced = False
        request = JoinGroupRequest(
            group_id=self.group.group_id,
            session_timeout_ms=round(self.group.session_s * 1000),
            rebalance_timeout_ms=round(self.group.rebalance_s * 1000),
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequestProtocol(name=protocol, metadata=self._subscription())
                for protocol in self._protocols
            ],
        )
        with self._challenge_instance():
            response: JoinGroupResponse = await self.ask(
                request, version=self._version, within_s=self._waits_for_others_s
            )
        error = response.error_code
        if error == ErrorCode.NONE:
            self.member_id = response.member_id
            self._accepted("a join", sent_at=self.sent_at, is_settled=True, names_generation=False)
            self.generation = response.generation_id
            await self._sync(response)
        elif error == ErrorCode.MEMBER_ID_REQUIRED:
            if self.member_id or self._version < 4 or self.instance_id is not None:
                raise BrokenPromise(
                    f"{self.name} joins with v{self._version}, but was required to get an id first"
                )
            self.member_id = response.member_id
        elif error in NOT_A_MEMBER:
            self._fenced("a join", error)
        elif error == ErrorCode.REBALANCE_IN_PROGRESS:
            await asyncio.sleep(self.random.uniform(0, BACKOFF_S))
        else:
            await self._back_off(error)

    def _challenge_instance(self) -> AbstractContextManager[None]:
        """A static member without an id replaces the member with the same instance id."""
        if self.instance_id is None or self.member_id:
            return nullcontext()
        return self.group.ownership.challenge(self.instance_id, by=self.membership, now=self.group.now)

    def _subscription(self) -> bytes:
        owned: tuple[NamedPartition, ...] = ()
        if self._is_cooperative:
            names = {topic_id: name for name, topic_id in self.topic_ids.items()}
            owned = tuple((names[topic_id], index) for topic_id, index in self.membership.held)
        return encode_subscription(Subscription(self.group.topics, owned, self.generation))

    async def _sync(self, joined: JoinGroupResponse) -> None:
        generation = joined.generation_id
        self._is_leader = joined.leader == self.member_id
        counts = await self._find_topics()
        assignments: list[SyncGroupRequestAssignment] = []
        if self._is_leader and not joined.skip_assignment:
            self._counts = counts
            assignments = self._assign(joined)
        request = SyncGroupRequest(
            group_id=self.group.group_id,
            generation_id=generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name=joined.protocol_name,
            assignments=assignments,
        )
        known = self.group.ownership.known
        response: SyncGroupResponse = await self.ask(request, within_s=self._waits_for_others_s)
        error = response.error_code
        if error == ErrorCode.NONE:
            await self._synced(response.assignment, generation, known_when_asked=known)
        elif error in NOT_A_MEMBER:
            self._fenced("a sync", error)
        elif error in COORDINATOR_ERRORS:
            await self._back_off(error)
        elif error not in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            raise BrokenPromise(f"{self.name} cannot sync: {error.name}")

    def _assign(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        assert joined.protocol_name is not None
        subscriptions = {member.member_id: decode_subscription(member.metadata) for member in joined.members}
        if self.member_id not in subscriptions:
            raise BrokenPromise(f"{self.name} leads generation {joined.generation_id}, but is not in it")
        named_partitions = [(topic, index) for topic, count in self._counts.items() for index in range(count)]
        assigned = assign(joined.protocol_name, subscriptions, named_partitions)
        return [
            SyncGroupRequestAssignment(
                member_id=member_id,
                assignment=encode_assignment(mine, made_for=self._user_data(joined.generation_id, member_id)),
            )
            for member_id, mine in assigned.items()
        ]

    def _user_data(self, generation: int, member_id: str) -> str:
        # A group whose leader sends user data cannot be upgraded to the consumer protocol.
        return "" if self.group.is_mixed else f"{generation}/{member_id}"

    async def _synced(self, assignment: bytes, generation: int, *, known_when_asked: Known) -> None:
        ownership, sent_at = self.group.ownership, self.sent_at
        try:
            named_partitions, made_for = decode_assignment(assignment)
        except (struct.error, MalformedMessage) as error:
            raise BrokenPromise(
                f"{self.name} got an assignment that no leader made: {assignment!r}"
            ) from error
        made_for_generation, _, made_for_member = made_for.partition("/")
        is_mine = made_for_member == self.member_id or self.instance_id is not None
        if not self.group.is_mixed and (made_for_generation != str(generation) or not is_mine):
            raise BrokenPromise(
                f"{self.name} ({self.member_id}) got in {generation} the assignment of {made_for}"
            )
        if any(topic not in self.topic_ids for topic, _ in named_partitions):
            await self._find_topics()  # the leader saw a new topic
        now = self.simulation.loop.time()
        ownership.generation_received(
            self.membership,
            generation,
            known_when_asked=known_when_asked,
            now=now,
            may_lag=self.group.is_mixed and self.membership.is_recorded,
        )
        self._accepted("a sync", sent_at=sent_at, is_settled=True)
        self.assignment = assignment
        partitions: list[Partition] = [(self.topic_ids[topic], index) for topic, index in named_partitions]
        revoked = [partition for partition in self.membership.held if partition not in partitions]
        ownership.release(self.membership, revoked)
        ownership.take(self.membership, partitions, now=now)
        self._is_synced = True
        self._has_to_join = bool(revoked)  # so that others can get them

    # Membership

    async def _heartbeat(self) -> None:
        request = HeartbeatRequest(
            group_id=self.group.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        response: HeartbeatResponse = await self.ask(request)
        error = response.error_code
        if error == ErrorCode.NONE:
            group = self.group
            group.ownership.accepted(
                self.membership,
                "a heartbeat",
                sent_at=self.sent_at,
                now=group.now(),
                is_settled=True,
                is_proof=self.sent_at > group.loaded_at,
            )
        elif error == ErrorCode.REBALANCE_IN_PROGRESS:
            self._accepted("a heartbeat", sent_at=self.sent_at)
            self._has_to_join = True
        else:
            await self._heartbeat_refused("a heartbeat", error)

    async def _commit_refused(self, error: ErrorCode) -> None:
        if error == ErrorCode.REBALANCE_IN_PROGRESS:
            self._has_to_join = True
        else:
            await self._heartbeat_refused("a commit", error)

    async def _heartbeat_refused(self, what: str, error: ErrorCode) -> None:
        """It was in this generation and has not asked to rejoin since."""
        if error in NOT_A_MEMBER:
            self._fenced(what, error)
        elif error in OUT_OF_DATE and self.group.is_mixed:
            # A group that is downgraded to classic has one generation, which not all members know yet.
            self.group.ownership.release(self.membership)
            self._has_to_join = True
        elif error in OUT_OF_DATE:
            self._fenced(what, error)
        else:
            await self._back_off(error)

    def _fenced(self, what: str, error: ErrorCode) -> None:
        self._refused(what, error)
        self._reset_membership()
        self._has_to_join, self._is_synced = True, False

    async def _leave(self) -> None:
        if not self.member_id:
            return
        version = self.random.choice(LEAVE_VERSIONS)
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
        request = (
            LeaveGroupRequest(group_id=self.group.group_id, member_id=self.member_id)
            if version == LEAVE_VERSIONS[0]
            else LeaveGroupRequest(group_id=self.group.group_id, members=[identity])
        )
        membership = self.membership
        self.group.ownership.release(membership)
        protected_until = membership.protected_until
        self.group.ownership.end(membership)
        response: LeaveGroupResponse = await self.ask(request, version=version)
        error = response.error_code
        if error == ErrorCode.NONE and response.members:
            error = response.members[0].error_code
        if error in NOT_A_MEMBER and self.simulation.loop.time() >= protected_until:
            return
        if error != ErrorCode.NONE and error not in COORDINATOR_ERRORS:
            raise BrokenPromise(f"{self.name} cannot leave: {error.name}")
