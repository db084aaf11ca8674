"""A member of a consumer group (KIP-848): one kind of request, and a member epoch.

It owns its assigned partitions until it has reported their revocation: it keeps a revoked partition for a while,
releases it, and reports that in a later heartbeat. After a lost response it reports everything again.
"""

from __future__ import annotations

import asyncio

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from penstock.protocol.types import Uuid, random_uuid, uuid_text
from simulator.groups.group import SimulatedGroup
from simulator.groups.member import NOT_A_MEMBER, Member
from simulator.groups.offset_client import COORDINATOR_ERRORS, IDS_VERSION, NAMES_VERSION
from simulator.groups.ownership import Known, Partition
from simulator.simulation import BrokenPromise, Simulation

JOINING, LEAVING, LEAVING_FOR_A_WHILE = 0, -1, -2
ASSIGNORS = (None, "uniform", "range")
LOST_ANSWERS_MAX = 1  # the coordinator accepts the current and the previous member epoch


class ConsumerMember(Member):
    commits_show_life = False

    def __init__(
        self, simulation: Simulation, name: str, group: SimulatedGroup, *, instance_id: str | None = None
    ) -> None:
        super().__init__(simulation, name, group, instance_id=instance_id)
        self._new_id()
        self._assignor = self.random.choice(ASSIGNORS)
        self.has_pattern = self.random.random() < 0.2
        self._answers_lost = 0
        self._reported: list[Partition] | None = None
        """The partitions that the coordinator knows it owns."""
        self._to_revoke: list[Partition] = []

    @property
    def is_settled(self) -> bool:
        return self.generation > 0 and not self._to_revoke and self._reported == list(self.membership.held)

    async def _step(self) -> None:
        if self.generation < 0:
            await self._heartbeat(JOINING)
            return
        await asyncio.sleep(self.random.uniform(0.3, 1) * self.group.heartbeat_s)
        for act, chance in ((self._consume, 0.4), (self._commit, 0.5)):
            if self.random.random() < chance and self.generation > 0:
                await act()
        if self._to_revoke and not self._is_busy:
            self.group.ownership.release(self.membership, self._to_revoke)
            self._to_revoke = []
        if self.generation > 0:
            await self._heartbeat(self.generation)

    def _answer_lost(self) -> None:
        self._answers_lost += 1
        self._reported = None

    # Heartbeats

    async def _heartbeat(self, epoch: int) -> None:
        if not self.topic_ids:
            await self._find_topics()
        await self.connect()
        owned = list(self.membership.held)
        known = self.group.ownership.known
        request = self._make_request(epoch, owned)
        response: ConsumerGroupHeartbeatResponse = await self.ask(request)
        error = response.error_code
        if error == ErrorCode.NONE:
            self._answers_lost = 0
            if request.topic_partitions is not None:
                self._reported = owned
            await self._handle_response(response, known_when_asked=known)
        elif error in (*NOT_A_MEMBER, ErrorCode.FENCED_MEMBER_EPOCH):
            self._fenced("a heartbeat", error)
        elif error == ErrorCode.UNRELEASED_INSTANCE_ID and self.instance_id is not None:
            await asyncio.sleep(self.random.uniform(0, self.group.heartbeat_s))
        else:
            self._answer_lost()
            await self._back_off(error)

    def _make_request(self, epoch: int, owned: list[Partition]) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group.group_id, member_id=self.member_id, member_epoch=epoch
        )
        if self.instance_id is not None:
            request.instance_id = self.instance_id
        if self._reported != owned or epoch == JOINING:
            request.topic_partitions = _by_topic(owned)
        if epoch == JOINING or self._reported is None:
            request.rebalance_timeout_ms = round(self.group.rebalance_s * 1000)
            request.server_assignor = self._assignor
            if self.has_pattern:
                request.subscribed_topic_names = []
                request.subscribed_topic_regex = "|".join(self.group.topics)
            else:
                request.subscribed_topic_names = list(self.group.topics)
                request.subscribed_topic_regex = ""
        return request

    async def _handle_response(
        self, response: ConsumerGroupHeartbeatResponse, *, known_when_asked: Known
    ) -> None:
        ownership, sent_at = self.group.ownership, self.sent_at
        if response.member_id not in (None, self.member_id):
            raise BrokenPromise(
                f"{self.name} has the id {self.member_id}, but was addressed as {response.member_id}"
            )
        if self.generation < 0 and response.assignment is None:
            raise BrokenPromise(f"{self.name} joined, but got no assignment")
        assigned = None if response.assignment is None else await self._partitions(response.assignment)
        now = self.simulation.loop.time()
        ownership.generation_received(
            self.membership,
            response.member_epoch,
            known_when_asked=known_when_asked,
            now=now,
            may_lag=self.generation > 0,
        )
        self.generation = response.member_epoch
        if assigned is not None:
            self._to_revoke = [partition for partition in self.membership.held if partition not in assigned]
        self._accepted("a heartbeat", sent_at=sent_at, is_settled=not self._to_revoke)
        if assigned is not None:
            ownership.take(self.membership, assigned, now=now)

    async def _partitions(self, assignment: Assignment) -> list[Partition]:
        partitions = [
            (topic.topic_id, index) for topic in assignment.topic_partitions for index in topic.partitions
        ]
        known = self.group.ledger.partitions
        if any(each not in known or each[0] not in self.topic_ids.values() for each in partitions):
            await self._find_topics()
        strange = [each for each in partitions if each[0] not in self.topic_ids.values()]
        if strange:
            raise BrokenPromise(f"{self.name} was assigned {strange}, to which it did not subscribe")
        return partitions

    def _fenced(self, what: str, error: ErrorCode) -> None:
        is_behind = error == ErrorCode.FENCED_MEMBER_EPOCH and self._answers_lost > LOST_ANSWERS_MAX
        if not is_behind:
            self._refused(what, error)
        self._reset_membership()

    def _reset_membership(self) -> None:
        super()._reset_membership()
        self._new_id()
        self._reported = None
        self._to_revoke = []
        self._answers_lost = 0

    def _new_id(self) -> None:
        self.member_id = uuid_text(random_uuid(self.random))

    # Offsets

    def _fetches_offsets_as(self) -> tuple[str, int] | None:
        return (self.member_id, self.generation) if self.random.random() < 0.5 else None

    def _commit_versions(self) -> tuple[int, ...]:
        return (NAMES_VERSION, IDS_VERSION)  # older versions have no member epoch

    async def _commit_refused(self, error: ErrorCode) -> None:
        if error in NOT_A_MEMBER:
            self._fenced("a commit", error)
        elif error == ErrorCode.STALE_MEMBER_EPOCH:
            if not self._answers_lost:
                self._refused("a commit", error)
        else:
            await self._back_off(error)

    # Leaving

    async def _leave(self) -> None:
        if self.generation < 0:
            return
        epoch = self.random.choice((LEAVING, LEAVING_FOR_A_WHILE)) if self.instance_id else LEAVING
        membership = self.membership
        protected_until = membership.protected_until
        self.group.ownership.end(membership)
        response: ConsumerGroupHeartbeatResponse = await self.ask(
            ConsumerGroupHeartbeatRequest(
                group_id=self.group.group_id,
                member_id=self.member_id,
                member_epoch=epoch,
                instance_id=self.instance_id,
            )
        )
        error = response.error_code
        if error in NOT_A_MEMBER and self.simulation.loop.time() >= protected_until:
            return
        if error == ErrorCode.NONE:
            if response.member_epoch != epoch:
                raise BrokenPromise(f"{self.name} left with epoch {epoch}, but got {response.member_epoch}")
        elif error not in COORDINATOR_ERRORS:
            raise BrokenPromise(f"{self.name} cannot leave: {error.name}")


def _by_topic(partitions: list[Partition]) -> list[TopicPartitions]:
    indexes: dict[Uuid, list[int]] = {}
    for topic_id, index in partitions:
        indexes.setdefault(topic_id, []).append(index)
    return [TopicPartitions(topic_id=topic_id, partitions=each) for topic_id, each in indexes.items()]
