"""The part that both group protocols share: one request at a time, retries, and the poll interval.

A membership is sans-IO. Its driver calls `next_action(now_ms)`, does the action, and reports the outcome (`answered`,
`failed`, `metadata_refreshed`). If there is no action, `wake_at_ms` says when to call again. Events for the application
wait in `reconciliation`. A membership never has two requests in flight, and sends nothing after `failure` is set.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from penstock.client.cluster import Cluster
from penstock.client.errors import PenstockError
from penstock.client.group.reconciliation import Reconciliation
from penstock.client.group.types import Event, GroupMetadata, Subscription
from penstock.protocol.errors import ErrorCode
from penstock.runtime.backoff import Backoff

logger = logging.getLogger(__name__)

COORDINATOR_MOVED = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
"""Another broker may be the coordinator now."""

POLL_OVERDUE = "poll() was not called for longer than max.poll.interval.ms"


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request to the group coordinator."""

    request: Any
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class RefreshMetadata:
    """Refresh the metadata of all `Membership.topics_wanted`, then call `metadata_refreshed`."""


Action = Send | RefreshMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipSettings:
    group_id: str
    instance_id: str | None = None
    rack: str | None = None
    poll_interval_ms: int = 300_000
    request_timeout_ms: int = 30_000
    backoff: Backoff = Backoff(100, 1_000, jitter=0)  # noqa: RUF009 - immutable
    with_internal_topics: bool = False
    """A pattern also matches internal topics."""


class MemberStatus(Enum):
    """Whether the group would accept this member's commits."""

    MEMBER = auto()
    REBALANCING = auto()
    """Not now, but soon; the application has nothing to do."""
    NOT_MEMBER = auto()


class Membership(ABC):
    def __init__(self, settings: MembershipSettings, *, now_ms: int) -> None:
        self.settings = settings
        self.reconciliation = Reconciliation()
        self.subscription = Subscription()
        self.cluster = Cluster()
        self.failure: BaseException | None = None
        """Set once: the error that the application gets instead of the next event."""
        self.member_id = ""
        self.coordinator_is_lost = False
        """The driver must look up the coordinator again, and then resets this."""
        self._in_flight: Send | None = None
        self._known_as: GroupMetadata | None = None
        self._polled_at_ms = now_ms
        self._is_poll_overdue = False
        self._ready_at_ms = now_ms
        self._failures = 0
        self._backoff = settings.backoff

    # Called by the application

    def subscribe(self, subscription: Subscription, now_ms: int) -> None:
        if subscription != self.subscription:
            self.subscription = subscription
            if not subscription:
                self._known_as = None
            self.note_poll(now_ms)
            self._subscription_changed(now_ms)

    def note_poll(self, now_ms: int) -> None:
        """The application has called poll()."""
        self._polled_at_ms = now_ms
        if self._is_poll_overdue:
            self._is_poll_overdue = False
            self._poll_resumed(now_ms)

    def next_event(self) -> Event | None:
        return self.reconciliation.next_event()

    def acknowledge(self, event: Event, now_ms: int) -> None:
        if self.reconciliation.acknowledge(event):
            self._acknowledged(event, now_ms)

    def reset_failure(self) -> None:
        """The application has received the error; the next subscription starts again."""
        if self.failure is not None:
            self.failure = None
            self._in_flight = None

    @property
    def metadata(self) -> GroupMetadata:
        """The member id and generation, present or last known. A fenced member keeps them until it joins again: without
        a member id, a transaction could commit offsets of partitions that other members own by now."""
        return self._known_as or GroupMetadata(self.settings.group_id)

    def _become_known(self) -> None:
        """The group has accepted this member in the present generation."""
        settings = self.settings
        self._known_as = GroupMetadata(
            settings.group_id, self.generation, self.member_id, settings.instance_id
        )

    @property
    @abstractmethod
    def generation(self) -> int:
        """The generation, or the member epoch."""

    @property
    @abstractmethod
    def status(self) -> MemberStatus: ...

    @abstractmethod
    def leave(self, reason: str, now_ms: int, *, for_good: bool = False) -> None:
        """Leave the group with the next request. A static member keeps its assignment until its session ends, unless
        `for_good`."""

    @property
    @abstractmethod
    def has_left(self) -> bool:
        """Whether no leave request is outstanding."""

    def abandon_leave(self, now_ms: int) -> None:
        """The leave request was not sent or not answered in time: the session times out by itself."""
        if not self.has_left:
            self._in_flight = None
            self._left(now_ms)

    @property
    @abstractmethod
    def topics_wanted(self) -> frozenset[str] | None:
        """The topics whose metadata is needed; None for all topics."""

    @abstractmethod
    def commit_fenced(self, error: ErrorCode, now_ms: int) -> None:
        """A commit was refused because the group does not know this member or its generation."""

    # Called by the driver

    def next_action(self, now_ms: int) -> Action | None:
        if self._in_flight is not None or self.failure is not None or now_ms < self._ready_at_ms:
            return None
        self._watch_poll(now_ms)
        action = self._next_action(now_ms)
        if isinstance(action, Send):
            self._in_flight = action
        return action

    def wake_at_ms(self, now_ms: int) -> int | None:
        """When to call `next_action` again if nothing happens before; None: only after an event."""
        if self._in_flight is not None or self.failure is not None:
            return None
        if now_ms < self._ready_at_ms:
            return self._ready_at_ms
        times = [self._next_at_ms()]
        if not self._is_poll_overdue and self._counts_polls():
            times.append(self._polled_at_ms + self.settings.poll_interval_ms + 1)
        return min((time for time in times if time is not None), default=None)

    def answered(self, action: Send, response: Any, now_ms: int) -> None:
        if action is self._in_flight:
            self._in_flight = None
            self._answered(action.request, response, now_ms)

    def failed(self, action: Send, error: PenstockError, now_ms: int) -> None:
        """The request failed without a response. An error that is not retriable is raised in the application."""
        if action is not self._in_flight:
            return
        self._in_flight = None
        if not error.retriable:
            self._fail(error)
            return
        self.coordinator_is_lost = True
        self._back_off(now_ms)
        self._unanswered(action.request, now_ms)

    def cluster_changed(self, cluster: Cluster, now_ms: int) -> None:
        self.cluster = cluster
        self._cluster_changed(now_ms)

    def metadata_refreshed(self, cluster: Cluster, now_ms: int) -> None:
        """The metadata that `RefreshMetadata` asked for."""
        self.cluster_changed(cluster, now_ms)

    # For both protocols

    def _fail(self, error: BaseException) -> None:
        self.failure = error
        self.reconciliation.lose(str(error))

    def _back_off(self, now_ms: int) -> None:
        self._failures += 1
        self._ready_at_ms = now_ms + int(self._backoff.wait_ms(self._failures))

    def _succeeded(self) -> None:
        self._failures = 0

    def _watch_poll(self, now_ms: int) -> None:
        if (
            not self._is_poll_overdue
            and self._counts_polls()
            and now_ms - self._polled_at_ms > self.settings.poll_interval_ms
        ):
            self._is_poll_overdue = True
            logger.warning(
                "group %s: %s (%d ms), so member %s leaves it until poll() is called again."
                " Lower max.poll.records, or raise max.poll.interval.ms",
                self.settings.group_id,
                POLL_OVERDUE,
                self.settings.poll_interval_ms,
                self.member_id or "(new)",
            )
            self._poll_overdue(now_ms)

    # Implemented by each protocol

    @abstractmethod
    def _next_action(self, now_ms: int) -> Action | None: ...

    @abstractmethod
    def _next_at_ms(self) -> int | None: ...

    @abstractmethod
    def _counts_polls(self) -> bool:
        """Whether it is in the group or joining."""

    @abstractmethod
    def _answered(self, request: Any, response: Any, now_ms: int) -> None: ...

    @abstractmethod
    def _unanswered(self, request: Any, now_ms: int) -> None: ...

    @abstractmethod
    def _subscription_changed(self, now_ms: int) -> None: ...

    @abstractmethod
    def _cluster_changed(self, now_ms: int) -> None: ...

    @abstractmethod
    def _acknowledged(self, event: Event, now_ms: int) -> None: ...

    @abstractmethod
    def _left(self, now_ms: int) -> None:
        """It is no longer a member."""

    @abstractmethod
    def _poll_overdue(self, now_ms: int) -> None:
        """The poll interval has passed: leave the group until the application polls again."""

    @abstractmethod
    def _poll_resumed(self, now_ms: int) -> None: ...
