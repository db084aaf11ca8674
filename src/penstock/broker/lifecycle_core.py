"""The life of a broker as the controller sees it, without I/O. `lifecycle` sends the requests.

    STARTING --caught up--> RECOVERY --unfenced--> RUNNING --shut_down--> PENDING_CONTROLLED_SHUTDOWN --> SHUTTING_DOWN

The states are Kafka's:

- STARTING: the broker registers, and reads the metadata log up to its registration.
- RECOVERY: it has the metadata, opens its partitions, and is still fenced.
- RUNNING: it is unfenced and sends heartbeats. The controller fences it if they stop.
- PENDING_CONTROLLED_SHUTDOWN: it asked the controller to move its leaders to other brokers.
- SHUTTING_DOWN: it may stop.

At most one request is in flight. A broker whose registration is gone (it was unregistered, or another process had
registered its node id) registers again and gets a new epoch; the state stays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Uuid
from penstock.runtime.backoff import Backoff

NO_EPOCH = -1
NEVER = float("inf")
CLOCK_ERROR_MS = 0.01  # a timer in seconds fires a rounding error before its time in milliseconds

# Kafka's waits. The first heartbeats follow quickly, so that a broker without recovery work starts quickly.
STARTING_INTERVAL_MS = 10
FIRST_SHUTDOWN_INTERVAL_MS = 50
SHUTDOWN_INTERVAL_MS = 100  # ours: each heartbeat moves a portion of the leaders
RETRY_FIRST_MS = 100

# The registration is refused for good: another attempt would be refused, too.
FATAL = {
    ErrorCode.INCONSISTENT_CLUSTER_ID: "the controllers belong to another cluster; check the cluster.id in "
    "meta.properties, controller.quorum.bootstrap.servers and controller.quorum.voters",
    ErrorCode.UNSUPPORTED_VERSION: "this version does not support the features of the cluster; "
    "install the version that the other nodes have",
    ErrorCode.INVALID_REGISTRATION: "the controller found the listeners or log directories invalid; "
    "check that no other node uses a copy of this node's log directories",
}
_GONE = (ErrorCode.BROKER_ID_NOT_REGISTERED, ErrorCode.STALE_BROKER_EPOCH)


class BrokerState(Enum):
    STARTING = auto()
    RECOVERY = auto()
    RUNNING = auto()
    PENDING_CONTROLLED_SHUTDOWN = auto()
    SHUTTING_DOWN = auto()


@dataclass(frozen=True, slots=True)
class Register:
    """Send BrokerRegistration."""

    previous_broker_epoch: int
    """The epoch before a clean shutdown; -1 after a crash (KIP-966)."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Send BrokerHeartbeat with this content."""

    broker_epoch: int
    metadata_offset: int
    want_fence: bool
    want_shut_down: bool
    offline_directories: tuple[Uuid, ...]


class LifecycleCore:
    def __init__(
        self,
        *,
        previous_broker_epoch: int,
        heartbeat_interval_ms: int,
        session_timeout_ms: int,
        registration_timeout_ms: int,
        now_ms: float,
        draw: Callable[[], float],
    ) -> None:
        self.state = BrokerState.STARTING
        self.broker_epoch = NO_EPOCH
        """That of the last registration, even if it is gone: leaders then refuse the fetches of this process. They do
        not check -1, which stands for a version that does not know broker epochs (KIP-903)."""
        self.is_registered = False
        self.failure: str | None = None
        """Why the broker must stop."""
        self.is_fenced = True
        self.reported_directories: tuple[Uuid, ...] = ()
        """Failed log directories that the controller knows."""
        self.next_ms = now_ms
        """When `next_request` has something to send, unless a request is in flight."""
        self._previous_epoch = previous_broker_epoch
        self._metadata_offset = -1
        self._registered_epoch = NO_EPOCH
        self._is_ready = False
        self._offline: tuple[Uuid, ...] = ()
        self._interval_ms = heartbeat_interval_ms
        self._registration_timeout_ms = registration_timeout_ms
        self._registration_deadline_ms = now_ms + registration_timeout_ms
        self._backoff = Backoff(RETRY_FIRST_MS, session_timeout_ms / 2, jitter=0.02, draw=draw)
        self._failures = 0
        self._in_flight: Register | Heartbeat | None = None
        self._fenced_count = 0
        """Responses that left the broker fenced although it was ready."""
        self._has_shutdown_response = False

    def next_request(self, now_ms: float) -> Register | Heartbeat | None:
        """The request to send now."""
        if self._in_flight or now_ms < self.next_ms - CLOCK_ERROR_MS or self.failure or self._is_over:
            return None
        if self.is_registered:
            self._in_flight = self._heartbeat()
        else:
            self._in_flight = Register(self._previous_epoch)
        self.next_ms = NEVER
        return self._in_flight

    # What happens to the broker

    def metadata_applied(self, offset: int, *, registered_epoch: int) -> None:
        """The broker has applied the metadata log up to `offset`. There its registration has `registered_epoch`, or
        -1."""
        self._metadata_offset = offset
        self._registered_epoch = registered_epoch
        self._check_caught_up()

    def set_ready(self, now_ms: float) -> None:
        """The partitions are open: the broker may be unfenced."""
        self._is_ready = True
        self._send_now(now_ms)

    def directories_failed(self, offline: tuple[Uuid, ...], now_ms: float) -> None:
        """Log directories failed. `offline` are all that failed since the start."""
        self._offline = offline
        self._send_now(now_ms)

    def shut_down(self, now_ms: float) -> None:
        """Ask the controller to move the leaders away. Without a registration there is nothing to move."""
        if self.state is BrokerState.SHUTTING_DOWN:
            return
        if not self.is_registered or self.state is BrokerState.STARTING:
            self.state = BrokerState.SHUTTING_DOWN
        else:
            self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
            self._send_now(now_ms)

    # Responses

    def registered(self, broker_epoch: int, now_ms: float) -> None:
        self._answered()
        self.broker_epoch = broker_epoch
        self.is_registered = True
        self._previous_epoch = broker_epoch
        self._check_caught_up()
        is_opening = (
            self.state is BrokerState.RECOVERY and not self._is_ready
        )  # `set_ready` sends the next one
        self.next_ms = now_ms + (self._interval_ms if is_opening else 0)

    def registration_refused(self, error: ErrorCode, now_ms: float) -> None:
        if (why := FATAL.get(error)) is not None:
            self.failure = f"The controller refused to register this broker ({error.name}): {why}."
        elif now_ms >= self._registration_deadline_ms and self.state is BrokerState.STARTING:
            hint = ""
            if error is ErrorCode.DUPLICATE_BROKER_REGISTRATION:
                hint = "; another broker with this node.id is running: give each node its own node.id"
            self.failure = (
                f"The controller did not register this broker within initial.broker.registration.timeout.ms="
                f"{self._registration_timeout_ms}: {error.name}{hint}."
            )
        self._retry(now_ms)

    def heartbeat_answered(
        self, *, is_caught_up: bool, is_fenced: bool, should_shut_down: bool, now_ms: float
    ) -> None:
        sent = self._in_flight
        assert isinstance(sent, Heartbeat)
        self._answered()
        self.is_fenced = is_fenced
        self.reported_directories = sent.offline_directories
        if self.state is BrokerState.STARTING:
            self.next_ms = now_ms + STARTING_INTERVAL_MS
            if is_caught_up:
                self.state = BrokerState.RECOVERY
        elif self.state is BrokerState.RECOVERY:
            self.next_ms = now_ms + self._interval_ms
            if not is_fenced:
                self.state = BrokerState.RUNNING
            elif self._is_ready:  # the controller waits until this broker has caught up
                self._fenced_count += 1
                self.next_ms = now_ms + min(STARTING_INTERVAL_MS << self._fenced_count, self._interval_ms)
        elif self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            self.next_ms = now_ms + min(SHUTDOWN_INTERVAL_MS, self._interval_ms)
            if should_shut_down:
                self.state = BrokerState.SHUTTING_DOWN
            elif not self._has_shutdown_response:
                self._has_shutdown_response = True
                self.next_ms = now_ms + FIRST_SHUTDOWN_INTERVAL_MS
        else:
            self.next_ms = now_ms + self._interval_ms
        if self._has_news(sent):
            self.next_ms = now_ms  # something changed while the request was in flight

    def heartbeat_refused(self, error: ErrorCode, now_ms: float) -> None:
        if error in _GONE:
            self.is_registered = False
            self.is_fenced = True
        self._retry(now_ms)

    def request_failed(self, now_ms: float) -> None:
        """There was no response: no controller is reachable."""
        if (
            not self.is_registered
            and self.state is BrokerState.STARTING
            and now_ms >= self._registration_deadline_ms
        ):
            self.failure = (
                f"No active controller could be reached within initial.broker.registration.timeout.ms="
                f"{self._registration_timeout_ms}; check that a majority of the controllers is running."
            )
        if isinstance(self._in_flight, Heartbeat) and self._in_flight.want_shut_down:
            self.state = BrokerState.SHUTTING_DOWN  # no controller is left to move its leaders
        self._retry(now_ms)

    # Rules

    @property
    def _is_over(self) -> bool:
        return self.state is BrokerState.SHUTTING_DOWN

    def _heartbeat(self) -> Heartbeat:
        return Heartbeat(
            broker_epoch=self.broker_epoch,
            metadata_offset=self._metadata_offset,
            want_fence=not self._is_ready,
            want_shut_down=self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN,
            offline_directories=self._offline,
        )

    def _has_news(self, sent: Heartbeat) -> bool:
        new = self._heartbeat()
        return (sent.want_fence, sent.want_shut_down, sent.offline_directories) != (
            new.want_fence,
            new.want_shut_down,
            new.offline_directories,
        )

    def _check_caught_up(self) -> None:
        """The controller has the same rule: a broker has caught up when it has applied its registration."""
        is_starting = self.state is BrokerState.STARTING
        if is_starting and self.is_registered and self._registered_epoch == self.broker_epoch:
            self.state = BrokerState.RECOVERY

    def _send_now(self, now_ms: float) -> None:
        """Unless a request is in flight: its response sends the news."""
        if self._in_flight is None:
            self.next_ms = now_ms

    def _answered(self) -> None:
        self._in_flight = None
        self._failures = 0

    def _retry(self, now_ms: float) -> None:
        self._in_flight = None
        self._failures += 1
        self.next_ms = now_ms + self._backoff.wait_ms(self._failures)
