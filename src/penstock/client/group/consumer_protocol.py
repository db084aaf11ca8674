"""Membership in the consumer protocol (KIP-848), with one request: ConsumerGroupHeartbeat.

The coordinator assigns. A member joins with epoch 0 and an id that it made itself. Each response may bring a new epoch
and a target assignment. The member revokes what is not in it and reports that with its next heartbeat, which does not
wait for the interval; then it takes the added partitions and reports them too. A field that is None means "unchanged":
so after any failure, when it is unknown what the coordinator has received, the next heartbeat has all fields.

It must never report a partition that the application does not own, nor leave out one that it does.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from penstock.client import errors
from penstock.client.cluster import TopicPartition
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
from penstock.client.group.types import Assigned, Event
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from penstock.protocol.types import Uuid

logger = logging.getLogger(__name__)

JOINS = 0
LEAVES = -1
LEAVES_FOR_A_WHILE = -2  # static members: their partitions stay assigned
NOT_A_MEMBER = -1  # in commits and lookups

HEARTBEAT_INTERVAL_MS = 5_000  # until the broker sends its own

FENCED = (
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,  # the coordinator lost its state, as after a power failure
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerProtocolSettings(MembershipSettings):
    member_id: str
    remote_assignor: str | None = None


@dataclass(slots=True)
class _Reported:
    """The fields that the coordinator has received, as far as that is known."""

    is_joined: bool = False
    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    owned: frozenset[TopicPartition] | None = None


class ConsumerMembership(Membership):
    settings: ConsumerProtocolSettings

    def __init__(self, settings: ConsumerProtocolSettings, *, now_ms: int) -> None:
        super().__init__(settings, now_ms=now_ms)
        self.member_id = settings.member_id
        self.matches_patterns_here = False
        """The brokers are too old to match patterns."""
        self._epoch = JOINS
        self._reported = _Reported()
        self._heartbeat_at_ms = now_ms
        self._interval_ms = HEARTBEAT_INTERVAL_MS
        self._leaving: tuple[str, int] | None = None
        self._assigned: dict[Uuid, tuple[int, ...]] | None = None
        """The target assignment of the coordinator; None before the first response."""
        self._names: dict[Uuid, str] = {}
        """Of all topics that this member ever had, so that they stay known when the metadata changes."""
        self._learn_at_ms: int | None = None
        self._has_learned = False
        self._has_said_pattern = False
        """Whether the pattern must be removed explicitly."""

    # Called by the application

    @property
    def generation(self) -> int:
        return self._epoch if self._epoch > 0 else NOT_A_MEMBER

    @property
    def status(self) -> MemberStatus:
        if self._epoch > 0:
            return MemberStatus.MEMBER
        return (
            MemberStatus.NOT_MEMBER
            if self.reconciliation.is_reconciling or not self.subscription
            else MemberStatus.REBALANCING
        )

    @property
    def topics_wanted(self) -> frozenset[str] | None:
        if self.subscription.pattern is not None:
            return None
        return self.subscription.topics | {partition.topic for partition in self.reconciliation.target}

    def leave(self, reason: str, now_ms: int, *, for_good: bool = False) -> None:
        self._in_flight = None  # the response to a request in flight no longer counts
        if self._epoch > 0 or self._reported.is_joined:
            stays = self.settings.instance_id is not None and not for_good
            self._leaving = reason, LEAVES_FOR_A_WHILE if stays else LEAVES
            self._ready_at_ms = min(self._ready_at_ms, now_ms)
        else:
            self._restart(reason, now_ms)

    @property
    def has_left(self) -> bool:
        return self._leaving is None

    def commit_fenced(self, error: ErrorCode, now_ms: int) -> None:
        if self._epoch <= 0:
            return
        if error is ErrorCode.FENCED_INSTANCE_ID:
            self._fail(errors.of(error, about=f"group {self.settings.group_id}"))
        elif error in FENCED:
            self._fenced(error, "a commit", now_ms)

    def heartbeat_now(self, now_ms: int) -> None:
        """The member epoch is stale: ask for the new one now."""
        self._heartbeat_at_ms = min(self._heartbeat_at_ms, now_ms)

    def match_patterns_here(self, instead_of: Send, now_ms: int) -> None:
        """The coordinator is too old for patterns, so `instead_of` was not sent."""
        self.matches_patterns_here = True
        self._has_said_pattern = False
        self.failed(instead_of, errors.Disconnected("not sent"), now_ms)
        self.coordinator_is_lost = False

    def _subscription_changed(self, now_ms: int) -> None:
        self._has_learned = False
        self._heartbeat_at_ms = now_ms

    def _acknowledged(self, event: Event, now_ms: int) -> None:
        self._heartbeat_at_ms = now_ms
        if not isinstance(event, Assigned):
            self._reconcile(now_ms)

    def _poll_overdue(self, now_ms: int) -> None:
        if self._epoch > 0:
            stays = self.settings.instance_id is not None
            self._leaving = POLL_OVERDUE, LEAVES_FOR_A_WHILE if stays else LEAVES
        self._restart(POLL_OVERDUE, now_ms)

    def _poll_resumed(self, now_ms: int) -> None:
        self._heartbeat_at_ms = now_ms

    def _counts_polls(self) -> bool:
        return bool(self.subscription) and self._leaving is None

    # The next action

    def _next_action(self, now_ms: int) -> Action | None:
        if self._leaving is not None:
            return self._send_leave(self._leaving[1])
        if self._is_poll_overdue or not self.subscription:
            return None
        if self._learn_at_ms is not None and now_ms >= self._learn_at_ms:
            return RefreshMetadata()
        if self._epoch == JOINS and self.reconciliation.is_reconciling:
            return None  # the application gives up its lost partitions before the member joins again
        if now_ms < self._heartbeat_at_ms:
            return None
        if self._matches_here and not self._has_learned:
            return RefreshMetadata()
        return self._send_heartbeat(now_ms)

    def _next_at_ms(self) -> int | None:
        if (
            self._is_poll_overdue
            or not self.subscription
            or (self._epoch == JOINS and self.reconciliation.is_reconciling)
        ):
            return None
        return min(self._heartbeat_at_ms, self._learn_at_ms or self._heartbeat_at_ms)

    @property
    def _matches_here(self) -> bool:
        pattern = self.subscription.pattern
        return pattern is not None and (self.matches_patterns_here or not isinstance(pattern, str))

    def _send_heartbeat(self, now_ms: int) -> Send:
        settings, reported = self.settings, self._reported
        request = ConsumerGroupHeartbeatRequest(
            group_id=settings.group_id,
            member_id=self.member_id,
            member_epoch=self._epoch,
            instance_id=settings.instance_id,
        )
        if not reported.is_joined:
            request.rack_id = settings.rack
            request.rebalance_timeout_ms = settings.poll_interval_ms
            request.server_assignor = settings.remote_assignor
            reported.is_joined = True
        self._subscription_fields(request)
        owned = frozenset[TopicPartition]() if self._epoch == JOINS else self.reconciliation.owned
        if reported.owned != owned:
            request.topic_partitions = self._by_id(owned)
            reported.owned = owned
        self._heartbeat_at_ms = now_ms + self._interval_ms
        return Send(request, settings.request_timeout_ms)

    def _subscription_fields(self, request: ConsumerGroupHeartbeatRequest) -> None:
        topics: tuple[str, ...] = ()
        pattern: str | None = None
        if isinstance(self.subscription.pattern, str) and not self._matches_here:
            pattern = self.subscription.pattern
        else:
            topics = tuple(sorted(self._matched_topics()))
        reported = self._reported
        if reported.topics != topics:
            request.subscribed_topic_names = list(topics)
        if reported.pattern != pattern or (reported.topics is None and self._has_said_pattern):
            request.subscribed_topic_regex = pattern or ""  # an empty pattern removes the last one
            self._has_said_pattern |= pattern is not None
        reported.topics, reported.pattern = topics, pattern

    def _matched_topics(self) -> frozenset[str]:
        return self.subscription.matched(self.cluster, with_internal=self.settings.with_internal_topics)

    def _by_id(self, partitions: Iterable[TopicPartition]) -> list[TopicPartitions]:
        ids = {name: topic_id for topic_id, name in self._names.items()}
        found: dict[Uuid, list[int]] = {}
        for topic, index in sorted(partitions):
            found.setdefault(ids[topic], []).append(index)
        return [TopicPartitions(topic_id=topic_id, partitions=each) for topic_id, each in found.items()]

    def _send_leave(self, epoch: int) -> Send:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.settings.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.settings.instance_id,
        )
        return Send(request, self.settings.request_timeout_ms)

    # Responses

    def _answered(self, request: Any, response: Any, now_ms: int) -> None:
        if request.member_epoch < 0:
            self._left(now_ms)
            return
        match response.error_code:
            case ErrorCode.NONE:
                self._accepted(response, now_ms)
            case error if error in FENCED:
                self._fenced(error, "a heartbeat", now_ms)
            case error:
                self._reported = _Reported()
                self._heartbeat_at_ms = now_ms
                self._retry_or_fail(error, response.error_message, now_ms)

    def _unanswered(self, request: Any, now_ms: int) -> None:
        if request.member_epoch < 0:
            self._left(now_ms)  # the session times out by itself
            return
        self._reported = _Reported()
        self._heartbeat_at_ms = now_ms

    def _accepted(self, response: ConsumerGroupHeartbeatResponse, now_ms: int) -> None:
        self._succeeded()
        if response.heartbeat_interval_ms > 0 and response.heartbeat_interval_ms != self._interval_ms:
            self._interval_ms = response.heartbeat_interval_ms
            self._heartbeat_at_ms = min(self._heartbeat_at_ms, now_ms + self._interval_ms)
        if response.member_id:
            self.member_id = response.member_id
        self._epoch = response.member_epoch
        self._become_known()
        if response.assignment is not None:
            before, self._assigned = (
                self._assigned,
                {
                    topic.topic_id: tuple(sorted(topic.partitions))
                    for topic in response.assignment.topic_partitions
                },
            )
            self._reconcile(now_ms, is_news=before != self._assigned)
        if self._reported.owned != self.reconciliation.owned:
            self._heartbeat_at_ms = now_ms  # partitions were revoked or assigned while this was in flight

    def _reconcile(self, now_ms: int, *, is_news: bool = False) -> None:
        """Set the target to the coordinator's, as far as the names of the topics are known."""
        if self._assigned is None:
            return
        self._names |= {
            topic_id: topic.name
            for topic_id in self._assigned
            if (topic := self.cluster.topics_by_id.get(topic_id)) is not None
        }
        target = frozenset(
            TopicPartition(self._names[topic_id], index)
            for topic_id, indexes in self._assigned.items()
            if topic_id in self._names
            for index in indexes
        )
        if self._assigned.keys() - self._names.keys():
            self._learn_at_ms = now_ms if is_news else self._learn_at_ms or now_ms
        else:
            self._learn_at_ms = None
        if is_news or target != self.reconciliation.target:
            self.reconciliation.set_target(target)

    def metadata_refreshed(self, cluster: Any, now_ms: int) -> None:
        self._has_learned = True
        if self._learn_at_ms is not None:
            # If a topic is still unknown after this.
            self._learn_at_ms = now_ms + int(self.settings.backoff.max_ms)
        super().metadata_refreshed(cluster, now_ms)

    def _cluster_changed(self, now_ms: int) -> None:
        self._reconcile(now_ms)
        if self._matches_here and self._reported.topics != tuple(sorted(self._matched_topics())):
            self._heartbeat_at_ms = min(self._heartbeat_at_ms, now_ms)

    def _retry_or_fail(self, error: ErrorCode, message: str | None, now_ms: int) -> None:
        if error in COORDINATOR_MOVED:
            self.coordinator_is_lost = True
            self._back_off(now_ms)
        elif error.is_retriable:
            self._back_off(now_ms)
        else:
            self._fail(errors.of(error, message, about=f"group {self.settings.group_id}"))

    def _fenced(self, error: ErrorCode, what: str, now_ms: int) -> None:
        reason = f"{what} failed with {error.name}: the group has removed this member"
        logger.warning("group %s: %s", self.settings.group_id, reason)
        self._restart(reason, now_ms)

    def _left(self, now_ms: int) -> None:
        reason, _ = self._leaving or ("it left", LEAVES)
        self._leaving = None
        self._restart(reason, now_ms)

    def _restart(self, reason: str, now_ms: int) -> None:
        """Its partitions are lost. Once the application knows, the next heartbeat joins."""
        self._epoch = JOINS
        self._reported = _Reported()
        self._assigned = None
        self._learn_at_ms = None
        self._heartbeat_at_ms = now_ms
        self.reconciliation.lose(reason)

    def _fail(self, error: BaseException) -> None:
        super()._fail(error)
        self._epoch = JOINS
        self._reported = _Reported()
        self._assigned = None
