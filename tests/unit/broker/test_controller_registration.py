"""The registration of a controller: when it is sent, and when it is sent again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from penstock.broker.controller_registration import ControllerIdentity, ControllerRegistration
from penstock.metadata.cache import MetadataCache
from penstock.metadata.records import RegisterControllerRecord
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.controller_registration import ControllerRegistrationResponse
from penstock.protocol.types import Uuid
from penstock.runtime import Supervisor
from penstock.runtime.backoff import Backoff
from simulator.loop import VirtualLoop, run_virtual

ME = 1
INCARNATION = Uuid(b"this process".ljust(16, b"\0"))


class Harness:
    """A controller, and an active controller that gives `error` and answers after 5 ms."""

    def __init__(self) -> None:
        self.error = ErrorCode.NONE
        self.request_count = 0
        self.metadata = MetadataCache()
        self.registration = ControllerRegistration(
            ControllerIdentity(ME, INCARNATION, (), {}),
            controller=self,
            metadata=self.metadata,
            supervisor=Supervisor(),
            backoff=Backoff(100, 60_000, jitter=0),
            timeout_ms=1000,
        )

    async def ask(self, request: Any, *, timeout_ms: int) -> Any:
        self.request_count += 1
        await asyncio.sleep(0.005)
        return ControllerRegistrationResponse(error_code=self.error)

    def replay(self, incarnation: bytes, node_id: int = ME) -> None:
        """The metadata log has the registration of a process."""
        record = RegisterControllerRecord(
            controller_id=node_id,
            incarnation_id=Uuid(incarnation.ljust(16, b"\0")),
            zk_migration_ready=False,
            end_points=[],
            features=[],
        )
        image = self.metadata.image
        self.metadata.publish(image.apply([record], offset=image.offset + 1, epoch=1))


def simulated(story: Callable[[Harness], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    async def tell() -> None:
        harness = Harness()
        harness.registration.start()
        try:
            await story(harness)
        finally:
            await harness.registration.close()

    def test() -> None:
        run_virtual(VirtualLoop(), tell())

    test.__name__ = story.__name__
    return test


@simulated
async def test_a_controller_registers_once(harness: Harness) -> None:
    await asyncio.sleep(1)
    harness.replay(INCARNATION)
    await asyncio.sleep(1000)

    assert harness.request_count == 1


@simulated
async def test_a_controller_that_lags_does_not_fill_the_metadata_log_with_registrations(
    harness: Harness,
) -> None:
    for number in range(300):
        await asyncio.sleep(0.1)
        harness.replay(b"earlier process %d" % (number % 10))

    assert harness.request_count == 1


@simulated
async def test_a_registration_that_does_not_reach_the_metadata_is_sent_again(harness: Harness) -> None:
    await asyncio.sleep(61)

    assert harness.request_count == 2


@simulated
async def test_a_controller_whose_registration_was_replaced_registers_again(harness: Harness) -> None:
    await asyncio.sleep(1)
    harness.replay(INCARNATION)
    await asyncio.sleep(1)

    harness.replay(b"another process")
    await asyncio.sleep(1)

    assert harness.request_count == 2


@simulated
async def test_a_refused_registration_is_sent_again_with_a_backoff(harness: Harness) -> None:
    harness.error = ErrorCode.UNSUPPORTED_VERSION
    await asyncio.sleep(10)
    assert 5 <= harness.request_count <= 10

    harness.error = ErrorCode.NONE
    await asyncio.sleep(10)
    harness.replay(INCARNATION)
    count = harness.request_count
    await asyncio.sleep(1000)

    assert harness.request_count == count
