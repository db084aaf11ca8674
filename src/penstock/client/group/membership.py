"""What both protocols of group membership have in common: requests one at a time, patience, and the poll interval.

A membership is sans-IO. Its driver asks `next_action(now_ms)` what to do, does it, and tells what came of it
(`answered`, `failed`, `learned`); where there is nothing to do, `wake_at_ms` tells when to ask again. Everything that
concerns the application waits in `holdings` until it takes it. A membership never sends two requests at once, and after
`failure` is set it sends nothing more.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from penstock.client.backoff import Backoff
from penstock.client.cluster import Cluster
from penstock.client.errors import PenstockError
from penstock.client.group.holdings import Holdings
from penstock.client.group.nouns import Event, GroupMetadata, Subscription
from penstock.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

COORDINATOR_GONE = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
"""Another broker may be the coordinator by now."""

STALLED = "poll() was not called for longer than max.poll.interval.ms"


@dataclass(frozen=True, slots=True)
class Send:
    """Ask the group's coordinator."""

    request: Any
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class LearnTopics:
    """Refresh the picture of the cluster, with all of `Membership.topics_wanted` in it, then call `learned`."""


Action = Send | LearnTopics


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipSettings:
    group_id: str
    instance_id: str | None = None
    rack: str | None = None
    poll_interval_ms: int = 300_000
    request_timeout_ms: int = 30_000
    backoff_ms: int = 100
    backoff_max_ms: int = 1_000
    with_internal_topics: bool = False
    """A pattern matches internal topics, too."""


class Standing(Enum):
    """Whether the group would take this member's commits."""

    MEMBER = auto()
    REBALANCING = auto()
    """Not now, but soon, without any doing of the application."""
    OUT = auto()


class Membership(ABC):
    def __init__(self, settings: MembershipSettings, *, now_ms: int) -> None:
        self.settings = settings
        self.holdings = Holdings()
        self.subscription = Subscription()
        self.cluster = Cluster()
        self.failure: BaseException | None = None
        """Set once, and for good: what the application has to be told instead of the next event."""
        self.member_id = ""
        self.coordinator_is_lost = False
        """The driver has to look for the coordinator anew; it sets this back."""
        self._in_flight: Send | None = None
        self._known_as: GroupMetadata | None = None
        self._polled_at_ms = now_ms
        self._is_stalled = False
        self._ready_at_ms = now_ms
        self._failures = 0
        self._backoff = Backoff(settings.backoff_ms, settings.backoff_max_ms)

    # What the application does

    def subscribe(self, subscription: Subscription, now_ms: int) -> None:
        if subscription != self.subscription:
            self.subscription = subscription
            if not subscription:
                self._known_as = None
            self.note_poll(now_ms)
            self._subscription_changed(now_ms)

    def note_poll(self, now_ms: int) -> None:
        """The application is alive and asks for more."""
        self._polled_at_ms = now_ms
        if self._is_stalled:
            self._is_stalled = False
            self._come_back(now_ms)

    def next_event(self) -> Event | None:
        return self.holdings.next_event()

    def acknowledge(self, event: Event, now_ms: int) -> None:
        if self.holdings.acknowledge(event):
            self._acknowledged(event, now_ms)

    def reset_failure(self) -> None:
        """The application was told; a new subscription begins anew."""
        if self.failure is not None:
            self.failure = None
            self._in_flight = None

    @property
    def metadata(self) -> GroupMetadata:
        """Who it is, or was last, to the group. A member that was put out goes on under its old name until it joins
        again: were it nobody, a transaction could commit offsets that belong to others by now."""
        return self._known_as or GroupMetadata(self.settings.group_id)

    def _become_known(self) -> None:
        """The group counts this member in its present generation."""
        settings = self.settings
        self._known_as = GroupMetadata(
            settings.group_id, self.generation, self.member_id, settings.instance_id
        )

    @property
    @abstractmethod
    def generation(self) -> int:
        """Or epoch."""

    @property
    @abstractmethod
    def standing(self) -> Standing: ...

    @abstractmethod
    def leave(self, reason: str, now_ms: int, *, for_good: bool = False) -> None:
        """Say goodbye with the next request; a static member keeps its place for a while, unless it is `for_good`."""

    @property
    @abstractmethod
    def has_left(self) -> bool:
        """There is no goodbye that still has to be said."""

    def give_up_goodbye(self, now_ms: int) -> None:
        """It was not said, or not answered in time: the session ends by itself."""
        if not self.has_left:
            self._in_flight = None
            self._gone(now_ms)

    @property
    @abstractmethod
    def topics_wanted(self) -> frozenset[str] | None:
        """What the picture of the cluster has to show; None for all topics."""

    @abstractmethod
    def put_out(self, error: ErrorCode, now_ms: int) -> None:
        """A commit was refused because the group does not know this member, or not in this generation."""

    # What the driver does

    def next_action(self, now_ms: int) -> Action | None:
        if self._in_flight is not None or self.failure is not None or now_ms < self._ready_at_ms:
            return None
        self._watch_poll(now_ms)
        action = self._next_action(now_ms)
        if isinstance(action, Send):
            self._in_flight = action
        return action

    def wake_at_ms(self, now_ms: int) -> int | None:
        """When to ask `next_action` again, if nothing else happens before; None: not by itself."""
        if self._in_flight is not None or self.failure is not None:
            return None
        if now_ms < self._ready_at_ms:
            return self._ready_at_ms
        times = [self._next_at_ms()]
        if not self._is_stalled and self._counts_polls():
            times.append(self._polled_at_ms + self.settings.poll_interval_ms + 1)
        return min((time for time in times if time is not None), default=None)

    def answered(self, action: Send, response: Any, now_ms: int) -> None:
        if action is self._in_flight:
            self._in_flight = None
            self._answered(action.request, response, now_ms)

    def failed(self, action: Send, error: PenstockError, now_ms: int) -> None:
        """There is no answer and there will be none. An error that is not retriable is for the application."""
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

    def learned(self, cluster: Cluster, now_ms: int) -> None:
        """The picture was refreshed because `LearnTopics` asked for it."""
        self.cluster_changed(cluster, now_ms)

    # For both protocols

    def _fail(self, error: BaseException) -> None:
        self.failure = error
        self.holdings.lose(str(error))

    def _back_off(self, now_ms: int) -> None:
        self._failures += 1
        self._ready_at_ms = now_ms + int(self._backoff.wait_ms(self._failures))

    def _succeeded(self) -> None:
        self._failures = 0

    def _watch_poll(self, now_ms: int) -> None:
        if (
            not self._is_stalled
            and self._counts_polls()
            and now_ms - self._polled_at_ms > self.settings.poll_interval_ms
        ):
            self._is_stalled = True
            logger.warning(
                "group %s: %s (%d ms), so member %s leaves it; others get its partitions until poll() is called again."
                " Process records in smaller steps (max.poll.records), or raise max.poll.interval.ms",
                self.settings.group_id,
                STALLED,
                self.settings.poll_interval_ms,
                self.member_id or "(new)",
            )
            self._stall(now_ms)

    # What each of them decides

    @abstractmethod
    def _next_action(self, now_ms: int) -> Action | None: ...

    @abstractmethod
    def _next_at_ms(self) -> int | None: ...

    @abstractmethod
    def _counts_polls(self) -> bool:
        """It is in the group, or wants to be."""

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
    def _gone(self, now_ms: int) -> None:
        """It is no member any more."""

    @abstractmethod
    def _stall(self, now_ms: int) -> None:
        """The application does not poll: leave, and take no part until it comes back."""

    @abstractmethod
    def _come_back(self, now_ms: int) -> None: ...
