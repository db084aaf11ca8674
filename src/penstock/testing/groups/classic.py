"""A member of a classic group: join, sync, heartbeat, leave (and all that can go wrong between them).

The leader assigns by range or round robin, or cooperatively (KIP-429), as the coordinator found that all members can.
Members speak different versions of the protocol, some are static (KIP-345), and newer ones get their id before
they join (KIP-394).
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
from penstock.testing.groups.assignment import (
    COOPERATIVE,
    Place,
    Subscription,
    assign,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from penstock.testing.groups.claims import Known, Partition
from penstock.testing.groups.member import BACKOFF_S, NOT_A_MEMBER, OUT_OF_DATE, Member
from penstock.testing.groups.offset_client import COORDINATOR_ERRORS
from penstock.testing.groups.party import Party
from penstock.testing.simulation import BrokenPromise, Simulation

JOIN_VERSIONS = (2, 4, 5, 9)  # without ids in advance, with them, with static members, the newest
STATIC_JOIN_VERSIONS = (5, 9)
LEAVE_VERSIONS = (2, 5)  # one member, and several
LOOK_FOR_PARTITIONS_CHANCE = 0.15  # at every heartbeat of a leader
COMMIT_S_MAX = 5.0  # `offsets.commit.timeout.ms`: how long an answer waits for a log whose disk has failed


class ClassicMember(Member):
    def __init__(
        self,
        simulation: Simulation,
        name: str,
        party: Party,
        *,
        protocols: Sequence[str],
        instance_id: str | None = None,
    ) -> None:
        super().__init__(simulation, name, party, instance_id=instance_id)
        self._protocols = list(protocols)
        self.random.shuffle(self._protocols)  # its order of preference
        self._version = self.random.choice(JOIN_VERSIONS if instance_id is None else STATIC_JOIN_VERSIONS)
        self._has_to_join = True
        self._is_synced = False
        """It is in its generation, and has not asked to join another one."""
        self._is_leader = False
        self._counts: dict[str, int] = {}
        """The partitions that it assigned, as the leader."""
        self.assignment = b""
        """As it was told."""

    @property
    def is_settled(self) -> bool:
        return not self._has_to_join

    @property
    def commits_show_life(self) -> bool:
        """In groups of the newer type, and a mixed one may be of it, only heartbeats do, as in Kafka."""
        return not self.party.is_mixed

    @property
    def _waits_for_others_s(self) -> float:
        """Who does not join, or does not assign, is waited for so long."""
        return self.party.rebalance_s + self.party.session_s + COMMIT_S_MAX + 2 * self.simulation.settle_s

    @property
    def _is_cooperative(self) -> bool:
        return COOPERATIVE in self._protocols

    async def _live(self) -> None:
        if self._has_to_join and not (self._is_busy and self._is_synced):
            await self._join()
            return
        await asyncio.sleep(self.random.uniform(0.3, 1) * self.party.heartbeat_s)
        for act, chance in ((self._consume, 0.4), (self._commit, 0.5), (self._heartbeat, 1.0)):
            if self.random.random() < chance and self._is_synced:
                await act()
        if self._is_leader and self.random.random() < LOOK_FOR_PARTITIONS_CHANCE:
            counts = await self._find_topics()
            self._has_to_join |= counts != self._counts

    # Joining

    async def _join(self) -> None:
        if not self._is_cooperative:
            self.party.claims.let_go(self.tenure)
            self._positions.clear()
        self._is_synced = False
        request = JoinGroupRequest(
            group_id=self.party.group_id,
            session_timeout_ms=round(self.party.session_s * 1000),
            rebalance_timeout_ms=round(self.party.rebalance_s * 1000),
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequestProtocol(name=protocol, metadata=self._subscription())
                for protocol in self._protocols
            ],
        )
        with self._challenge():
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
                raise BrokenPromise(f"{self.name} joins with v{self._version}, and is told to ask for an id")
            self.member_id = response.member_id
        elif error in NOT_A_MEMBER:
            self._put_out("a join", error)
        elif error == ErrorCode.REBALANCE_IN_PROGRESS:
            await asyncio.sleep(self.random.uniform(0, BACKOFF_S))
        else:
            await self._back_off(error)

    def _challenge(self) -> AbstractContextManager[None]:
        """A static member that has no id yet takes the place of whoever has its instance id."""
        if self.instance_id is None or self.member_id:
            return nullcontext()
        return self.party.claims.challenge(self.instance_id, by=self.tenure, now=self.party.now)

    def _subscription(self) -> bytes:
        owned: tuple[Place, ...] = ()
        if self._is_cooperative:
            names = {topic_id: name for name, topic_id in self.topic_ids.items()}
            owned = tuple((names[topic_id], index) for topic_id, index in self.tenure.held)
        return encode_subscription(Subscription(self.party.topics, owned, self.generation))

    async def _sync(self, joined: JoinGroupResponse) -> None:
        generation = joined.generation_id
        self._is_leader = joined.leader == self.member_id
        counts = await self._find_topics()
        assignments: list[SyncGroupRequestAssignment] = []
        if self._is_leader and not joined.skip_assignment:
            self._counts = counts
            assignments = self._assign(joined)
        request = SyncGroupRequest(
            group_id=self.party.group_id,
            generation_id=generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name=joined.protocol_name,
            assignments=assignments,
        )
        known = self.party.claims.known
        response: SyncGroupResponse = await self.ask(request, within_s=self._waits_for_others_s)
        error = response.error_code
        if error == ErrorCode.NONE:
            await self._synced(response.assignment, generation, known_when_asked=known)
        elif error in NOT_A_MEMBER:
            self._put_out("a sync", error)
        elif error in COORDINATOR_ERRORS:
            await self._back_off(error)
        elif error not in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            raise BrokenPromise(f"{self.name} can not sync: {error.name}")

    def _assign(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        assert joined.protocol_name is not None
        subscriptions = {member.member_id: decode_subscription(member.metadata) for member in joined.members}
        if self.member_id not in subscriptions:
            raise BrokenPromise(f"{self.name} leads generation {joined.generation_id}, but is not in it")
        places = [(topic, index) for topic, count in self._counts.items() for index in range(count)]
        assigned = assign(joined.protocol_name, subscriptions, places)
        return [
            SyncGroupRequestAssignment(
                member_id=member_id,
                assignment=encode_assignment(mine, made_for=self._dedicate(joined.generation_id, member_id)),
            )
            for member_id, mine in assigned.items()
        ]

    def _dedicate(self, generation: int, member_id: str) -> str:
        # A group with a leader that says more than which partitions can not change to the newer protocol.
        return "" if self.party.is_mixed else f"{generation}/{member_id}"

    async def _synced(self, assignment: bytes, generation: int, *, known_when_asked: Known) -> None:
        claims, sent_at = self.party.claims, self.sent_at
        try:
            places, made_for = decode_assignment(assignment)
        except (struct.error, MalformedMessage) as error:
            raise BrokenPromise(
                f"{self.name} is given an assignment that nobody made: {assignment!r}"
            ) from error
        made_for_generation, _, made_for_member = made_for.partition("/")
        is_mine = made_for_member == self.member_id or self.instance_id is not None
        if not self.party.is_mixed and (made_for_generation != str(generation) or not is_mine):
            raise BrokenPromise(
                f"{self.name} ({self.member_id}) is given in {generation} what was made for {made_for}"
            )
        if any(topic not in self.topic_ids for topic, _ in places):
            await self._find_topics()  # the leader saw one that is new
        now = self.simulation.loop.time()
        claims.told_generation(
            self.tenure,
            generation,
            known_when_asked=known_when_asked,
            now=now,
            may_lag=self.party.is_mixed and self.tenure.is_recorded,
        )
        self._accepted("a sync", sent_at=sent_at, is_settled=True)
        self.assignment = assignment
        partitions: list[Partition] = [(self.topic_ids[topic], index) for topic, index in places]
        revoked = [partition for partition in self.tenure.held if partition not in partitions]
        claims.let_go(self.tenure, revoked)
        claims.take(self.tenure, partitions, now=now)
        self._is_synced = True
        self._has_to_join = bool(revoked)  # so that others may have them

    # Being a member

    async def _heartbeat(self) -> None:
        request = HeartbeatRequest(
            group_id=self.party.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        response: HeartbeatResponse = await self.ask(request)
        error = response.error_code
        if error == ErrorCode.NONE:
            party = self.party
            party.claims.accepted(
                self.tenure,
                "a heartbeat",
                sent_at=self.sent_at,
                now=party.now(),
                is_settled=True,
                is_proof=self.sent_at > party.loaded_at,
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
        """It was in this generation, and did not ask for another one since."""
        if error in NOT_A_MEMBER:
            self._put_out(what, error)
        elif error in OUT_OF_DATE and self.party.is_mixed:
            # A group that turns classic again has one generation for all, which not everyone knows yet.
            self.party.claims.let_go(self.tenure)
            self._has_to_join = True
        elif error in OUT_OF_DATE:
            self._put_out(what, error)
        else:
            await self._back_off(error)

    def _put_out(self, what: str, error: ErrorCode) -> None:
        self._refused(what, error)
        self._lose_everything()
        self._has_to_join, self._is_synced = True, False

    async def _leave(self) -> None:
        if not self.member_id:
            return
        version = self.random.choice(LEAVE_VERSIONS)
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
        request = (
            LeaveGroupRequest(group_id=self.party.group_id, member_id=self.member_id)
            if version == LEAVE_VERSIONS[0]
            else LeaveGroupRequest(group_id=self.party.group_id, members=[identity])
        )
        tenure = self.tenure
        self.party.claims.let_go(tenure)
        protected_until = tenure.protected_until
        self.party.claims.end(tenure)
        response: LeaveGroupResponse = await self.ask(request, version=version)
        error = response.error_code
        if error == ErrorCode.NONE and response.members:
            error = response.members[0].error_code
        if error in NOT_A_MEMBER and self.simulation.loop.time() >= protected_until:
            return
        if error != ErrorCode.NONE and error not in COORDINATOR_ERRORS:
            raise BrokenPromise(f"{self.name} can not leave: {error.name}")
