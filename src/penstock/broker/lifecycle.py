"""Registers this broker with the active controller, sends its heartbeats, and asks for a controlled shutdown.

`lifecycle_core` decides; this is its driver. Requests go through the controller channel, which finds the active
controller: on a node that is the active controller itself they are local calls.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.broker.lifecycle_core import NO_EPOCH, BrokerState, Heartbeat, LifecycleCore, Register
from penstock.metadata.cache import MetadataCache
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.errors import Refused
from penstock.metadata.image import Endpoint, FeatureRange, MetadataImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import broker_registration as messages
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from penstock.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from penstock.protocol.types import Uuid
from penstock.runtime import Supervisor

logger = logging.getLogger(__name__)

# A controller fail-over is shorter. If all nodes of a cluster stop together, the last one must not wait long.
SHUTDOWN_REQUEST_TIMEOUT_MS = 2_000


class ControllerRequests(Protocol):
    """See `controller_channel.ControllerChannel`."""

    async def ask(self, request: Any, *, timeout_ms: int) -> Any:
        """The response of the active controller. Raises `Refused` if there is none within the timeout."""
        ...


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """What a broker registers. `directories` are the log directories that are online."""

    node_id: int
    cluster_id: str
    incarnation_id: Uuid
    """New at every start of the process."""
    endpoints: tuple[Endpoint, ...]
    features: dict[str, FeatureRange]
    directories: tuple[Uuid, ...]
    rack: str | None = None


class BrokerLifecycle:
    def __init__(
        self,
        identity: BrokerIdentity,
        core: LifecycleCore,
        *,
        controller: ControllerRequests,
        metadata: MetadataCache,
        supervisor: Supervisor,
        timeout_ms: int,
        failed: Callable[[str], None],
    ) -> None:
        """`timeout_ms` limits one request. `failed` gets the reason why the broker must stop."""
        self._identity = identity
        self._core = core
        self._controller = controller
        self._metadata = metadata
        self._supervisor = supervisor
        self._timeout_ms = timeout_ms
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._changed: list[asyncio.Future[None]] = []
        self._last_error: ErrorCode | None = None

    @property
    def state(self) -> BrokerState:
        return self._core.state

    @property
    def broker_epoch(self) -> int:
        """The epoch of the last registration; -1 before the first."""
        return self._core.broker_epoch

    def start(self) -> None:
        self._metadata.subscribe(self._metadata_changed)
        self._metadata_applied(self._metadata.image)
        self._task = self._supervisor.run("broker lifecycle", self._run)

    async def until_caught_up(self) -> None:
        """Wait until the broker is registered and has the metadata up to its registration."""
        await self._until(lambda: self._core.state is not BrokerState.STARTING)

    async def until_unfenced(self) -> None:
        """Tell the controller that the partitions are open; wait until the broker is unfenced, in its own metadata,
        too."""
        self._core.set_ready(self._now_ms())
        self._wake.set()
        await self._until(self._is_unfenced)

    async def report_directories(self, offline: tuple[Uuid, ...]) -> None:
        """Report the log directories that failed since the start; wait until the controller knows them."""
        self._core.directories_failed(offline, self._now_ms())
        self._wake.set()
        await self._until(lambda: set(offline) <= set(self._core.reported_directories))

    async def shut_down(self, *, timeout_ms: int) -> None:
        """Ask the controller to move the leaders to other brokers; wait until they have moved."""
        self._core.shut_down(self._now_ms())
        self._wake.set()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._until(lambda: self._core.state is BrokerState.SHUTTING_DOWN)
        except TimeoutError:
            logger.warning(
                "the controlled shutdown did not complete within %d ms; stopping without it", timeout_ms
            )

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            self._metadata.unsubscribe(self._metadata_changed)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self._notify()  # `_until` raises: the broker is stopping

    # -- the task

    async def _run(self) -> None:
        core = self._core
        while core.failure is None and core.state is not BrokerState.SHUTTING_DOWN:
            request = core.next_request(self._now_ms())
            if request is None:
                await self._wait()
            elif isinstance(request, Register):
                await self._register(request)
            else:
                await self._send_heartbeat(request)
            self._notify()
        if core.failure is not None:
            self._failed(core.failure)

    async def _wait(self) -> None:
        self._wake.clear()
        timer = self._loop.call_at(self._core.next_ms / 1000, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()

    async def _register(self, wanted: Register) -> None:
        me = self._identity
        request = BrokerRegistrationRequest(
            broker_id=me.node_id,
            cluster_id=me.cluster_id,
            incarnation_id=me.incarnation_id,
            listeners=[
                messages.Listener(name=each.listener, host=each.host, port=each.port,
                                  security_protocol=each.security_protocol)
                for each in me.endpoints
            ],
            features=[
                messages.Feature(name=name, min_supported_version=each.min_level,
                                 max_supported_version=each.max_level)
                for name, each in me.features.items()
            ],
            rack=me.rack,
            log_dirs=list(me.directories),
            previous_broker_epoch=wanted.previous_broker_epoch,
        )  # fmt: skip
        response: BrokerRegistrationResponse | None = await self._ask(request, self._timeout_ms)
        if response is None:
            self._core.request_failed(self._now_ms())
        elif response.error_code is ErrorCode.NONE:
            self._last_error = None
            self._core.registered(response.broker_epoch, self._now_ms())
            logger.info("registered broker %d with broker epoch %d", me.node_id, response.broker_epoch)
        else:
            self._log_once("registration", response.error_code)
            self._core.registration_refused(response.error_code, self._now_ms())

    async def _send_heartbeat(self, wanted: Heartbeat) -> None:
        request = BrokerHeartbeatRequest(
            broker_id=self._identity.node_id,
            broker_epoch=wanted.broker_epoch,
            current_metadata_offset=wanted.metadata_offset,
            want_fence=wanted.want_fence,
            want_shut_down=wanted.want_shut_down,
            offline_log_dirs=list(wanted.offline_directories),
        )
        timeout_ms = self._timeout_ms
        if wanted.want_shut_down:
            timeout_ms = min(timeout_ms, SHUTDOWN_REQUEST_TIMEOUT_MS)
        response: BrokerHeartbeatResponse | None = await self._ask(request, timeout_ms)
        before = self._core.state, self._core.is_fenced
        if response is None:
            self._core.request_failed(self._now_ms())
        elif response.error_code is ErrorCode.NONE:
            self._last_error = None
            self._core.heartbeat_answered(
                is_caught_up=response.is_caught_up,
                is_fenced=response.is_fenced,
                should_shut_down=response.should_shut_down,
                now_ms=self._now_ms(),
            )
        else:
            self._log_once("heartbeat", response.error_code)
            self._core.heartbeat_refused(response.error_code, self._now_ms())
        is_refused = (
            response is not None and response.error_code is not ErrorCode.NONE
        )  # which is logged above
        if before == (BrokerState.RUNNING, False) and self._core.is_fenced and not is_refused:
            logger.warning("the controller has fenced this broker: its heartbeats came too late")

    async def _ask(self, request: Any, timeout_ms: int) -> Any:
        """The response, or None if there is none."""
        try:
            return await self._controller.ask(request, timeout_ms=timeout_ms)
        except Refused as refused:
            if refused.error is not self._last_error:
                self._last_error = refused.error
                logger.warning("no active controller could be reached; retrying: %s", refused)
            return None

    def _log_once(self, what: str, error: ErrorCode) -> None:
        if error is not self._last_error:
            self._last_error = error
            hint = ""
            if error is ErrorCode.DUPLICATE_BROKER_REGISTRATION:
                hint = (
                    f": another broker with node.id={self._identity.node_id} is running, or the session of this "
                    "broker's earlier process has not expired yet"
                )
            logger.warning("the controller refused the %s with %s%s; retrying", what, error.name, hint)

    # -- changes

    def _metadata_changed(self, delta: MetadataDelta) -> None:
        self._metadata_applied(delta.image)
        self._notify()

    def _metadata_applied(self, image: MetadataImage) -> None:
        broker = image.brokers.get(self._identity.node_id)
        registered_epoch = NO_EPOCH if broker is None else broker.epoch
        self._core.metadata_applied(image.offset, registered_epoch=registered_epoch)

    def _is_unfenced(self) -> bool:
        broker = self._metadata.image.brokers.get(self._identity.node_id)
        return (
            self._core.state is not BrokerState.STARTING
            and broker is not None
            and broker.epoch == self._core.broker_epoch
            and not broker.is_fenced
        )

    async def _until(self, is_done: Callable[[], bool]) -> None:
        while not is_done():
            if self._core.failure is not None or self._task is None:
                raise LifecycleEnded(self._core.failure or "the broker is stopping")
            changed = self._loop.create_future()
            self._changed.append(changed)
            await changed

    def _notify(self) -> None:
        changed, self._changed = self._changed, []
        for waiter in changed:
            if not waiter.done():
                waiter.set_result(None)

    def _now_ms(self) -> float:
        return self._loop.time() * 1000


class LifecycleEnded(Exception):
    """The broker cannot be registered."""
