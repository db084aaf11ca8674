"""Membership by the classic protocol: join, sync, heartbeat, leave; a member assigns, the coordinator keeps time.

            subscribe                 JoinGroup answered           SyncGroup answered
    OUT ----------------> joining ------------------------> syncing ------------------> STABLE --heartbeats--+
     ^                       ^                                 |                          |                   |
     |   unknown member,     +--- a rebalance: let go, then ---+--------------------------+-------------------+
     +-- illegal generation: everything is lost

Before it joins again, a member lets go of everything (eager), or of nothing that it may keep (cooperative, KIP-429):
then it tells the leader what it has, and after the assignment lets go of what was taken from it and joins once more.
It must never ask to join while the application still has to let go of something.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from penstock.client import errors
from penstock.client.cluster import TopicPartition
from penstock.client.group.assignors import Assignor, Tenure, is_cooperative
from penstock.client.group.assignors.wire import read_assignment, write_subscription
from penstock.client.group.leading import Leading
from penstock.client.group.membership import (
    COORDINATOR_GONE,
    STALLED,
    Action,
    LearnTopics,
    Membership,
    MembershipSettings,
    Send,
    Standing,
)
from penstock.client.group.nouns import NO_GENERATION, Event
from penstock.protocol.errors import ErrorCode, MalformedMessage
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from penstock.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from penstock.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupResponse,
)

logger = logging.getLogger(__name__)

PROTOCOL_TYPE = "consumer"
JOIN_GRACE_MS = (
    5_000  # a join is answered when all have come or the time for it is over, and that answer takes its way
)
REASON_CHARS_MAX = 255  # what a broker takes (KIP-800)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicSettings(MembershipSettings):
    assignors: tuple[Assignor, ...]
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000


def leave_by_one(request: LeaveGroupRequest) -> LeaveGroupRequest:
    """The same for brokers before Kafka 2.4, which let one member at a time leave, and ask for no reason."""
    return LeaveGroupRequest(group_id=request.group_id, member_id=request.members[0].member_id)


class Phase(Enum):
    OUT = auto()
    """In no generation, or it has to join the next one."""
    ASSIGNING = auto()
    """It leads the group and finds out what there is to assign."""
    SYNCING = auto()
    STABLE = auto()


class ClassicMembership(Membership):
    settings: ClassicSettings

    def __init__(self, settings: ClassicSettings, *, now_ms: int) -> None:
        super().__init__(settings, now_ms=now_ms)
        self.is_cooperative = is_cooperative(settings.assignors)
        self.phase = Phase.OUT
        self.leading: Leading | None = None
        """While this member leads the group."""
        self._generation = NO_GENERATION
        self._assignor: Assignor | None = None
        self._topics: frozenset[str] = frozenset()
        """As they were told when it joined."""
        self._told_owned: frozenset[TopicPartition] = frozenset()
        self._tenure: Tenure | None = None
        self._rejoin_reason: str | None = None
        self._leaving: str | None = None
        self._is_joining = False
        self._heartbeat_at_ms = now_ms
        self._heard_at_ms = now_ms
        self._has_learned = False

    # What the application does

    @property
    def generation(self) -> int:
        return self._generation

    @property
    def standing(self) -> Standing:
        if self.phase is Phase.STABLE:
            return Standing.MEMBER
        is_out = self._generation == NO_GENERATION and not self._is_joining
        return Standing.OUT if is_out else Standing.REBALANCING

    @property
    def topics_wanted(self) -> frozenset[str] | None:
        if self.subscription.pattern is not None:
            return None
        return self.subscription.topics | (self.leading.topics if self.leading else frozenset())

    def leave(self, reason: str, now_ms: int, *, for_good: bool = False) -> None:
        self._in_flight = None  # whatever is under way means nothing any more
        self._is_joining = False
        if self.member_id and (for_good or self.settings.instance_id is None):
            self._leaving = reason
            self._ready_at_ms = min(self._ready_at_ms, now_ms)
        else:
            self._forget_generation(reason)
            self.member_id = ""

    @property
    def has_left(self) -> bool:
        return self._leaving is None

    def put_out(self, error: ErrorCode, now_ms: int) -> None:
        if self.phase is not Phase.STABLE:
            return
        if error is ErrorCode.FENCED_INSTANCE_ID:
            self._fail(errors.of(error, about=f"group {self.settings.group_id}"))
        else:
            self._refused(error, "a commit")

    def _subscription_changed(self, now_ms: int) -> None:
        self._has_learned = False
        if self.subscription:
            self._request_rejoin("the subscription changed")

    def _acknowledged(self, event: Event, now_ms: int) -> None:
        """What is to come waits for it in `next_action`."""

    def _stall(self, now_ms: int) -> None:
        if self.settings.instance_id is None and self.member_id:
            self._leaving = STALLED
        self._forget_generation(STALLED)

    def _come_back(self, now_ms: int) -> None:
        """`next_action` joins again."""

    def _counts_polls(self) -> bool:
        return bool(self.subscription) and self._leaving is None

    # What to do next

    def _next_action(self, now_ms: int) -> Action | None:
        if self._leaving is not None:
            return self._send_leave(self._leaving)
        if self._is_stalled or not self.subscription:
            return None
        self._watch_session(now_ms)
        match self.phase:
            case Phase.ASSIGNING:
                return LearnTopics()
            case Phase.SYNCING:
                return self._send_sync()
            case Phase.STABLE if self._rejoin_reason is None:
                return self._send_heartbeat(now_ms)
        if self._prepare():
            if self.subscription.pattern is not None and not self._has_learned:
                return LearnTopics()
            return self._send_join()
        return self._send_heartbeat(now_ms)

    def _next_at_ms(self) -> int | None:
        if self._generation == NO_GENERATION or self._is_stalled:
            return None
        return min(self._heartbeat_at_ms, self._heard_at_ms + self.settings.session_timeout_ms)

    def _prepare(self) -> bool:
        """Whether the application has let go of all that it must before this member joins."""
        keep: frozenset[TopicPartition] = frozenset()
        if self.is_cooperative:
            wanted = self._matched_topics()
            keep = frozenset(each for each in self.holdings.target if each.topic in wanted)
        if not keep >= self.holdings.target:
            self.holdings.withdraw(keep=keep)
        return not self.holdings.owes

    def _matched_topics(self) -> frozenset[str]:
        return self.subscription.matched(self.cluster, with_internal=self.settings.with_internal_topics)

    def _watch_session(self, now_ms: int) -> None:
        if self._generation == NO_GENERATION:
            self._heard_at_ms = now_ms
        elif now_ms - self._heard_at_ms > self.settings.session_timeout_ms:
            # The group may have put this member out; only a coordinator can tell, so look for another.
            logger.warning(
                "group %s: no heartbeat was answered within session.timeout.ms", self.settings.group_id
            )
            self.coordinator_is_lost = True
            self._heard_at_ms = now_ms

    def _send_join(self) -> Send:
        settings = self.settings
        self._topics = self._matched_topics()
        topics = sorted(self._topics)
        self._told_owned = self.holdings.target if self.is_cooperative else frozenset()
        protocols = [
            JoinGroupRequestProtocol(
                name=assignor.name,
                metadata=write_subscription(
                    topics,
                    user_data=assignor.user_data(topics, self._tenure),
                    owned=self._told_owned,
                    generation=self._generation,
                    rack=settings.rack,
                ),
            )
            for assignor in settings.assignors
        ]
        reason, self._rejoin_reason = self._rejoin_reason or "a new member", None
        self._is_joining = True
        self.phase = Phase.OUT
        request = JoinGroupRequest(
            group_id=settings.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.poll_interval_ms,
            member_id=self.member_id,
            group_instance_id=settings.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=protocols,
            reason=reason[:REASON_CHARS_MAX],
        )
        return Send(request, max(settings.request_timeout_ms, settings.poll_interval_ms + JOIN_GRACE_MS))

    def _send_sync(self) -> Send:
        request = SyncGroupRequest(
            group_id=self.settings.group_id,
            generation_id=self._generation,
            member_id=self.member_id,
            group_instance_id=self.settings.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self._assignor.name if self._assignor is not None else None,
            assignments=self.leading.assignments if self.leading is not None else [],
        )
        return Send(request, self.settings.request_timeout_ms)

    def _send_heartbeat(self, now_ms: int) -> Send | None:
        if self._generation == NO_GENERATION or now_ms < self._heartbeat_at_ms:
            return None
        self._heartbeat_at_ms = now_ms + self.settings.heartbeat_interval_ms
        request = HeartbeatRequest(
            group_id=self.settings.group_id,
            generation_id=self._generation,
            member_id=self.member_id,
            group_instance_id=self.settings.instance_id,
        )
        return Send(request, self.settings.request_timeout_ms)

    def _send_leave(self, reason: str) -> Send:
        identity = MemberIdentity(
            member_id=self.member_id,
            group_instance_id=self.settings.instance_id,
            reason=reason[:REASON_CHARS_MAX],
        )
        request = LeaveGroupRequest(group_id=self.settings.group_id, members=[identity])
        return Send(request, self.settings.request_timeout_ms)

    # What came of it

    def _answered(self, request: Any, response: Any, now_ms: int) -> None:
        match response:
            case JoinGroupResponse():
                self._is_joining = False
                self._join_answered(response, now_ms)
            case SyncGroupResponse():
                self._sync_answered(response, now_ms)
            case HeartbeatResponse():
                self._heartbeat_answered(response.error_code, now_ms)
            case _:
                self._gone(now_ms)

    def _unanswered(self, request: Any, now_ms: int) -> None:
        if isinstance(request, LeaveGroupRequest):
            self._gone(now_ms)  # the session ends by itself
        elif isinstance(request, HeartbeatRequest):
            self._heartbeat_at_ms = now_ms
        else:
            self._is_joining = False
            self.phase = Phase.OUT
            self._request_rejoin("the coordinator did not answer")

    def _join_answered(self, response: JoinGroupResponse, now_ms: int) -> None:
        match response.error_code:
            case ErrorCode.NONE:
                self._joined(response, now_ms)
            case ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = response.member_id  # it joins with that at once (KIP-394)
            case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.ILLEGAL_GENERATION as error:
                self._refused(error, "a join")
            case error:
                self._retry_or_fail(error, now_ms)

    def _joined(self, response: JoinGroupResponse, now_ms: int) -> None:
        chosen = [each for each in self.settings.assignors if each.name == response.protocol_name]
        if not chosen:
            words = (
                f"the group chose the assignor {response.protocol_name!r}, which this member does not have"
            )
            self._fail(errors.InconsistentGroupProtocol(words, about=self.settings.group_id))
            return
        self._succeeded()
        self._heard_at_ms = now_ms
        self._heartbeat_at_ms = now_ms + self.settings.heartbeat_interval_ms
        self.member_id = response.member_id
        self._generation = response.generation_id
        (self._assignor,) = chosen
        self.phase = Phase.SYNCING
        self.leading = None
        if response.leader == response.member_id:
            try:
                self.leading = Leading(response.members, has_rack=self.settings.rack is not None)
            except MalformedMessage as exc:
                self._fail(exc)
                return
            if not response.skip_assignment:
                self.phase = Phase.ASSIGNING

    def learned(self, cluster: Any, now_ms: int) -> None:
        self._has_learned = True
        if self.phase is Phase.ASSIGNING and self.leading is not None and self._assignor is not None:
            self.cluster = cluster
            try:
                self.leading.assign(self._assignor, cluster)
            except (
                Exception
            ) as error:  # an assignor may be the application's own: its error is for the application
                self._fail(error)
                return
            self.phase = Phase.SYNCING
        self.cluster_changed(cluster, now_ms)

    def _sync_answered(self, response: SyncGroupResponse, now_ms: int) -> None:
        if self.phase is not Phase.SYNCING:
            return
        match response.error_code:
            case ErrorCode.NONE:
                self._synced(response, now_ms)
            case ErrorCode.REBALANCE_IN_PROGRESS:
                self.phase = Phase.OUT
                self._request_rejoin("the group rebalanced before its members were assigned")
            case (ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.ILLEGAL_GENERATION) as error:
                self._refused(error, "a sync")
            case error:
                self.phase = Phase.OUT
                self._request_rejoin(f"a sync was answered with {error.name}")
                self._retry_or_fail(error, now_ms)

    def _synced(self, response: SyncGroupResponse, now_ms: int) -> None:
        assert self._assignor is not None
        if response.protocol_name not in (None, self._assignor.name):
            words = f"the group is assigned by {response.protocol_name!r}, and this member joined for another"
            self._fail(errors.InconsistentGroupProtocol(words, about=self.settings.group_id))
            return
        try:
            share = read_assignment(response.assignment)
        except MalformedMessage as exc:
            self._fail(exc)
            return
        self._succeeded()
        self._heard_at_ms = now_ms
        self.phase = Phase.STABLE
        self._become_known()
        self._tenure = Tenure(tuple(share.partitions), self._generation, share.user_data)
        self._assignor.assigned(self._tenure)
        self.holdings.want(share.partitions)
        if self.is_cooperative and not self._told_owned <= self.holdings.target:
            self._request_rejoin("it let go of partitions that others shall have")
        self._cluster_changed(now_ms)

    def _heartbeat_answered(self, error: ErrorCode, now_ms: int) -> None:
        self._heard_at_ms = now_ms
        match error:
            case ErrorCode.NONE:
                self._succeeded()
            case ErrorCode.REBALANCE_IN_PROGRESS:
                self._succeeded()
                self._request_rejoin("the group rebalances")
            case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.ILLEGAL_GENERATION:
                self._refused(error, "a heartbeat")
            case _:
                self._heartbeat_at_ms = now_ms
                self._retry_or_fail(error, now_ms)

    def _retry_or_fail(self, error: ErrorCode, now_ms: int) -> None:
        if error in COORDINATOR_GONE:
            self.coordinator_is_lost = True
            self._back_off(now_ms)
        elif (
            error in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REBALANCE_IN_PROGRESS)
            or error.is_retriable
        ):
            self._back_off(now_ms)
        else:
            self._fail(errors.of(error, about=f"group {self.settings.group_id}"))

    def _refused(self, error: ErrorCode, what: str) -> None:
        """The group goes on without this member: what it has is lost, and it comes as a new one."""
        reason = f"{what} was answered with {error.name}: the group went on without this member"
        if self._generation != NO_GENERATION:
            logger.warning("group %s: %s", self.settings.group_id, reason)
        self._forget_generation(reason)
        if error is not ErrorCode.ILLEGAL_GENERATION:
            self.member_id = ""

    def _forget_generation(self, reason: str) -> None:
        self._generation = NO_GENERATION
        self.phase = Phase.OUT
        self.leading = None
        self.holdings.lose(reason)
        self._rejoin_reason = reason

    def _gone(self, now_ms: int) -> None:
        reason, self._leaving = self._leaving or "it left", None
        self._forget_generation(reason)
        self.member_id = ""

    def _request_rejoin(self, reason: str) -> None:
        self._rejoin_reason = self._rejoin_reason or reason

    def _cluster_changed(self, now_ms: int) -> None:
        """A leader looks whether there is more or less to assign; everyone looks what its pattern matches."""
        if self.phase is not Phase.STABLE:
            return
        if self.leading is not None and self.leading.is_outdated(self.cluster):
            self._request_rejoin("topics or numbers of partitions changed")
        elif self.subscription.pattern is not None and self._matched_topics() != self._topics:
            self._request_rejoin("other topics match the subscription")

    def _fail(self, error: BaseException) -> None:
        super()._fail(error)
        self._forget_generation(str(error))
