"""The driver of the broker lifecycle, with a scripted controller on a virtual loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from penstock.broker.lifecycle import BrokerIdentity, BrokerLifecycle, LifecycleEnded
from penstock.broker.lifecycle_core import BrokerState, LifecycleCore
from penstock.metadata.cache import MetadataCache
from penstock.metadata.errors import Refused
from penstock.metadata.features import SUPPORTED
from penstock.metadata.image import Endpoint
from penstock.metadata.records import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from penstock.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from penstock.protocol.types import Uuid
from penstock.runtime import Supervisor
from simulator.loop import VirtualLoop, run_virtual

NODE_ID = 4


class ScriptedController:
    """Registers the broker at the next offset, and unfences it when it asks for that."""

    def __init__(self, metadata: MetadataCache) -> None:
        self.metadata = metadata
        self.registrations: list[BrokerRegistrationRequest] = []
        self.heartbeats: list[BrokerHeartbeatRequest] = []
        self.refusals: list[ErrorCode] = []
        """Errors of the next registrations."""
        self.is_reachable = True
        self.leaders = 0
        """Heartbeats until the leaders of a broker that shuts down have moved."""

    async def ask(self, request: Any, *, timeout_ms: int) -> Any:
        await asyncio.sleep(0.001)
        if not self.is_reachable:
            await asyncio.sleep(timeout_ms / 1000)
            raise Refused(ErrorCode.REQUEST_TIMED_OUT)
        if isinstance(request, BrokerRegistrationRequest):
            return self._register(request)
        return self._heartbeat(request)

    def _register(self, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
        self.registrations.append(request)
        if self.refusals:
            return BrokerRegistrationResponse(error_code=self.refusals.pop(0))
        epoch = self.metadata.image.offset + 1
        self.write(
            RegisterBrokerRecord(
                broker_id=NODE_ID,
                incarnation_id=request.incarnation_id,
                broker_epoch=epoch,
                end_points=[],
                features=[],
                rack=None,
                log_dirs=[],
                fenced=True,
            )
        )
        return BrokerRegistrationResponse(broker_epoch=epoch)

    def _heartbeat(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        self.heartbeats.append(request)
        broker = self.metadata.image.brokers[NODE_ID]
        if broker.is_fenced and not request.want_fence:
            self.write(
                BrokerRegistrationChangeRecord(broker_id=NODE_ID, broker_epoch=broker.epoch, fenced=-1)
            )
        should_shut_down = request.want_shut_down and self.leaders == 0
        self.leaders -= request.want_shut_down and self.leaders > 0
        return BrokerHeartbeatResponse(
            is_caught_up=True, is_fenced=request.want_fence, should_shut_down=should_shut_down
        )

    def write(self, record: object) -> None:
        image = self.metadata.image
        self.metadata.publish(image.apply([record], offset=image.offset + 1, epoch=1))


class Harness:
    def __init__(self) -> None:
        self.metadata = MetadataCache()
        self.controller = ScriptedController(self.metadata)
        self.failures: list[str] = []
        core = LifecycleCore(
            previous_broker_epoch=-1,
            heartbeat_interval_ms=2000,
            session_timeout_ms=9000,
            registration_timeout_ms=60_000,
            now_ms=asyncio.get_running_loop().time() * 1000,
            draw=lambda: 0.5,
        )
        identity = BrokerIdentity(
            node_id=NODE_ID,
            cluster_id="cluster",
            incarnation_id=Uuid(b"incarnation".ljust(16, b"\0")),
            endpoints=(Endpoint("PLAINTEXT", "localhost", 9092, 0),),
            features=SUPPORTED,
            directories=(Uuid(b"disk".ljust(16, b"\0")),),
            rack="r1",
        )
        self.lifecycle = BrokerLifecycle(
            identity,
            core,
            controller=self.controller,
            metadata=self.metadata,
            supervisor=Supervisor(),
            timeout_ms=4500,
            failed=self.failures.append,
        )

    async def run(self) -> None:
        self.lifecycle.start()
        await self.lifecycle.until_caught_up()
        await self.lifecycle.until_unfenced()


def simulated(story: Callable[[Harness], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    async def tell() -> None:
        harness = Harness()
        try:
            await story(harness)
        finally:
            await harness.lifecycle.close()

    def test() -> None:
        run_virtual(VirtualLoop(), tell())

    test.__name__ = story.__name__
    return test


@simulated
async def test_a_broker_registers_and_is_unfenced(harness: Harness) -> None:
    await harness.run()

    (registration,) = harness.controller.registrations
    assert (registration.broker_id, registration.cluster_id, registration.rack) == (NODE_ID, "cluster", "r1")
    assert [listener.port for listener in registration.listeners] == [9092]
    assert registration.previous_broker_epoch == -1
    assert harness.lifecycle.state is BrokerState.RUNNING
    assert harness.lifecycle.broker_epoch == 0
    assert len(harness.controller.heartbeats) == 1, "a start has no heartbeat that changes nothing"


@simulated
async def test_heartbeats_go_on_and_report_the_metadata_offset(harness: Harness) -> None:
    await harness.run()
    await asyncio.sleep(4.5)

    offsets = [heartbeat.current_metadata_offset for heartbeat in harness.controller.heartbeats]
    assert offsets == [0, 1, 1]


@simulated
async def test_a_start_waits_for_a_controller(harness: Harness) -> None:
    harness.controller.is_reachable = False
    running = asyncio.ensure_future(harness.run())
    await asyncio.sleep(20)
    assert not running.done()

    harness.controller.is_reachable = True
    await running

    assert harness.lifecycle.state is BrokerState.RUNNING


@simulated
async def test_a_start_ends_if_the_registration_is_refused_for_good(harness: Harness) -> None:
    harness.controller.refusals = [ErrorCode.INCONSISTENT_CLUSTER_ID]

    with pytest.raises(LifecycleEnded, match="another cluster"):
        await harness.run()

    assert len(harness.failures) == 1


@simulated
async def test_a_controlled_shutdown_returns_when_the_leaders_have_moved(harness: Harness) -> None:
    await harness.run()
    harness.controller.leaders = 2

    await harness.lifecycle.shut_down(timeout_ms=30_000)

    assert harness.lifecycle.state is BrokerState.SHUTTING_DOWN
    assert [heartbeat.want_shut_down for heartbeat in harness.controller.heartbeats] == [
        False,
        True,
        True,
        True,
    ]


@simulated
async def test_a_controlled_shutdown_is_bounded(harness: Harness) -> None:
    await harness.run()
    harness.controller.leaders = 1000
    loop = asyncio.get_running_loop()
    began = loop.time()

    await harness.lifecycle.shut_down(timeout_ms=30_000)

    assert loop.time() - began == pytest.approx(30, abs=0.01)


@simulated
async def test_a_controlled_shutdown_without_a_controller_is_short(harness: Harness) -> None:
    await harness.run()
    harness.controller.is_reachable = False
    loop = asyncio.get_running_loop()
    began = loop.time()

    await harness.lifecycle.shut_down(timeout_ms=30_000)

    assert loop.time() - began < 5
