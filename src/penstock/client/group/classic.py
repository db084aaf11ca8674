"""Membership in the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup. A member assigns, the coordinator
keeps time.

            subscribe                JoinGroup response           SyncGroup response
    OUT ----------------> joining ------------------------> syncing ------------------> STABLE --heartbeats--+
     ^                       ^                                 |                          |                   |
     |   unknown member,     +--- rebalance: revoke, then -----+--------------------------+-------------------+
     +-- illegal generation: all partitions are lost

Before it joins again, a member revokes all its partitions (eager) or none that it may keep (cooperative, KIP-429). In
the second case it reports its partitions to the leader, revokes those that the new assignment takes away, and joins
once more. It must never send JoinGroup while the application still has partitions to give up.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from penstock.client import errors
from penstock.client.cluster import TopicPartition
from penstock.client.group.assignors import Assignor, ReceivedAssignment, is_cooperative
from penstock.client.group.assignors.wire import read_assignment, write_subscription
from penstock.client.group.leader import GroupLeader
from penstock.client.group.membership import (
    COORDINATOR_MOVED,
    POLL_OVERDUE,
    Action,
    Membership,
    MembershipSettings,
    MemberStatus,
    RefreshMetadata,
    Send,
)
from penstock.client.group.types import NO_GENERATION, Event
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
    5_000  # JoinGroup is answered after the rebalance timeout at the latest; this is for the network
)
REASON_CHARS_MAX = 255  # the longest reason that brokers accept (KIP-800)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicSettings(MembershipSettings):
    assignors: tuple[Assignor, ...]
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000


def leave_by_one(request: LeaveGroupRequest) -> LeaveGroupRequest:
    """The same for brokers before Kafka 2.4, which take one member per request and no reason."""
    return LeaveGroupRequest(group_id=request.group_id, member_id=request.members[0].member_id)


class Phase(Enum):
    OUT = auto()
    """In no generation, or it must join the next one."""
    ASSIGNING = auto()
    """It leads the group and loads the metadata to assign."""
    SYNCING = auto()
    STABLE = auto()


class ClassicMembership(Membership):
    settings: ClassicSettings

    def __init__(self, settings: ClassicSettings, *, now_ms: int) -> None:
        super().__init__(settings, now_ms=now_ms)
        self.is_cooperative = is_cooperative(settings.assignors)
        self.phase = Phase.OUT
        self.leading: GroupLeader | None = None
        """Set while this member leads the group."""
        self._generation = NO_GENERATION
        self._assignor: Assignor | None = None
        self._topics: frozenset[str] = frozenset()
        """The owned partitions, as reported with JoinGroup."""
        self._told_owned: frozenset[TopicPartition] = frozenset()
        self._received_assignment: ReceivedAssignment | None = None
        self._rejoin_reason: str | None = None
        self._leaving: str | None = None
        self._is_joining = False
        self._heartbeat_at_ms = now_ms
        self._heard_at_ms = now_ms
        self._has_learned = False

    # Called by the application

    @property
    def generation(self) -> int:
        return self._generation

    @property
    def status(self) -> MemberStatus:
        if self.phase is Phase.STABLE:
            return MemberStatus.MEMBER
        is_out = self._generation == NO_GENERATION and not self._is_joining
        return MemberStatus.NOT_MEMBER if is_out else MemberStatus.REBALANCING

    @property
    def topics_wanted(self) -> frozenset[str] | None:
        if self.subscription.pattern is not None:
            return None
        return self.subscription.topics | (self.leading.topics if self.leading else frozenset())

    def leave(self, reason: str, now_ms: int, *, for_good: bool = False) -> None:
        self._in_flight = None  # the response to a request in flight no longer counts
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

    def commit_fenced(self, error: ErrorCode, now_ms: int) -> None:
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
        """`next_action` waits for it."""

    def _poll_overdue(self, now_ms: int) -> None:
        if self.settings.instance_id is None and self.member_id:
            self._leaving = POLL_OVERDUE
        self._forget_generation(POLL_OVERDUE)

    def _poll_resumed(self, now_ms: int) -> None:
        """`next_action` joins again."""

    def _counts_polls(self) -> bool:
        return bool(self.subscription) and self._leaving is None

    # The next action

    def _next_action(self, now_ms: int) -> Action | None:
        if self._leaving is not None:
            return self._send_leave(self._leaving)
        if self._is_poll_overdue or not self.subscription:
            return None
        self._watch_session(now_ms)
        match self.phase:
            case Phase.ASSIGNING:
                return RefreshMetadata()
            case Phase.SYNCING:
                return self._send_sync()
            case Phase.STABLE if self._rejoin_reason is None:
                return self._send_heartbeat(now_ms)
        if self._prepare():
            if self.subscription.pattern is not None and not self._has_learned:
                return RefreshMetadata()
            return self._send_join()
        return self._send_heartbeat(now_ms)

    def _next_at_ms(self) -> int | None:
        if self._generation == NO_GENERATION or self._is_poll_overdue:
            return None
        return min(self._heartbeat_at_ms, self._heard_at_ms + self.settings.session_timeout_ms)

    def _prepare(self) -> bool:
        """Whether the application has given up all partitions that it must before this member joins."""
        keep: frozenset[TopicPartition] = frozenset()
        if self.is_cooperative:
            wanted = self._matched_topics()
            keep = frozenset(each for each in self.reconciliation.target if each.topic in wanted)
        if not keep >= self.reconciliation.target:
            self.reconciliation.revoke(keep=keep)
        return not self.reconciliation.is_reconciling

    def _matched_topics(self) -> frozenset[str]:
        return self.subscription.matched(self.cluster, with_internal=self.settings.with_internal_topics)

    def _watch_session(self, now_ms: int) -> None:
        if self._generation == NO_GENERATION:
            self._heard_at_ms = now_ms
        elif now_ms - self._heard_at_ms > self.settings.session_timeout_ms:
            # The group may have removed this member; only a coordinator can tell, so look for another.
            logger.warning(
                "group %s: no heartbeat response within session.timeout.ms", self.settings.group_id
            )
            self.coordinator_is_lost = True
            self._heard_at_ms = now_ms

    def _send_join(self) -> Send:
        settings = self.settings
        self._topics = self._matched_topics()
        topics = sorted(self._topics)
        self._told_owned = self.reconciliation.target if self.is_cooperative else frozenset()
        protocols = [
            JoinGroupRequestProtocol(
                name=assignor.name,
                metadata=write_subscription(
                    topics,
                    user_data=assignor.user_data(topics, self._received_assignment),
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

    # Responses

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
                self._left(now_ms)

    def _unanswered(self, request: Any, now_ms: int) -> None:
        if isinstance(request, LeaveGroupRequest):
            self._left(now_ms)  # the session times out by itself
        elif isinstance(request, HeartbeatRequest):
            self._heartbeat_at_ms = now_ms
        else:
            self._is_joining = False
            self.phase = Phase.OUT
            self._request_rejoin("the coordinator did not respond")

    def _join_answered(self, response: JoinGroupResponse, now_ms: int) -> None:
        match response.error_code:
            case ErrorCode.NONE:
                self._joined(response, now_ms)
            case ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = response.member_id  # it joins with this member id at once (KIP-394)
            case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.ILLEGAL_GENERATION as error:
                self._refused(error, "a join")
            case error:
                self._retry_or_fail(error, now_ms)

    def _joined(self, response: JoinGroupResponse, now_ms: int) -> None:
        chosen = [each for each in self.settings.assignors if each.name == response.protocol_name]
        if not chosen:
            message = (
                f"the group chose the assignor {response.protocol_name!r}, which this member does not have"
            )
            self._fail(errors.InconsistentGroupProtocol(message, about=self.settings.group_id))
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
                self.leading = GroupLeader(response.members, has_rack=self.settings.rack is not None)
            except MalformedMessage as exc:
                self._fail(exc)
                return
            if not response.skip_assignment:
                self.phase = Phase.ASSIGNING

    def metadata_refreshed(self, cluster: Any, now_ms: int) -> None:
        self._has_learned = True
        if self.phase is Phase.ASSIGNING and self.leading is not None and self._assignor is not None:
            self.cluster = cluster
            try:
                self.leading.assign(self._assignor, cluster)
            except (
                Exception
            ) as error:  # an assignor may be the application's own: the application gets its error
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
                self._request_rejoin("the group rebalanced before the assignment")
            case (ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.ILLEGAL_GENERATION) as error:
                self._refused(error, "a sync")
            case error:
                self.phase = Phase.OUT
                self._request_rejoin(f"SyncGroup failed with {error.name}")
                self._retry_or_fail(error, now_ms)

    def _synced(self, response: SyncGroupResponse, now_ms: int) -> None:
        assert self._assignor is not None
        if response.protocol_name not in (None, self._assignor.name):
            message = (
                f"the group uses the assignor {response.protocol_name!r}, but this member joined for another"
            )
            self._fail(errors.InconsistentGroupProtocol(message, about=self.settings.group_id))
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
        self._received_assignment = ReceivedAssignment(
            tuple(share.partitions), self._generation, share.user_data
        )
        self._assignor.assigned(self._received_assignment)
        self.reconciliation.set_target(share.partitions)
        if self.is_cooperative and not self._told_owned <= self.reconciliation.target:
            self._request_rejoin("it revoked partitions that other members get")
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
        if error in COORDINATOR_MOVED:
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
        """The group has removed this member: its partitions are lost, and it joins as a new one."""
        reason = f"{what} failed with {error.name}: the group has removed this member"
        if self._generation != NO_GENERATION:
            logger.warning("group %s: %s", self.settings.group_id, reason)
        self._forget_generation(reason)
        if error is not ErrorCode.ILLEGAL_GENERATION:
            self.member_id = ""

    def _forget_generation(self, reason: str) -> None:
        self._generation = NO_GENERATION
        self.phase = Phase.OUT
        self.leading = None
        self.reconciliation.lose(reason)
        self._rejoin_reason = reason

    def _left(self, now_ms: int) -> None:
        reason, self._leaving = self._leaving or "it left", None
        self._forget_generation(reason)
        self.member_id = ""

    def _request_rejoin(self, reason: str) -> None:
        self._rejoin_reason = self._rejoin_reason or reason

    def _cluster_changed(self, now_ms: int) -> None:
        """A leader checks whether there is more or less to assign; every member checks the matches of its pattern."""
        if self.phase is not Phase.STABLE:
            return
        if self.leading is not None and self.leading.is_outdated(self.cluster):
            self._request_rejoin("topics or partition counts changed")
        elif self.subscription.pattern is not None and self._matched_topics() != self._topics:
            self._request_rejoin("other topics match the subscription")

    def _fail(self, error: BaseException) -> None:
        super()._fail(error)
        self._forget_generation(str(error))
