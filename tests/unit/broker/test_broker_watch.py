"""The broker watch: when is the process of a broker gone?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from penstock.broker.broker_watch import BrokerWatch
from penstock.metadata.cache import MetadataCache
from penstock.metadata.records import (
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from penstock.protocol.types import Uuid
from penstock.runtime import Supervisor
from penstock.runtime.network import Stream, StreamHandler
from simulator.loop import VirtualLoop, run_virtual

ME, BROKER = 1, 2


class FakeStream:
    def __init__(self) -> None:
        self.handler: StreamHandler
        self.is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True


class FakeNetwork:
    """Connects, or raises `error`."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.attempts: list[tuple[str, int]] = []
        self.open: list[FakeStream] = []

    async def connect(self, host: str, port: int, handler: Callable[[Stream], StreamHandler]) -> Any:
        self.attempts.append((host, port))
        if self.error is not None:
            raise self.error
        stream: Any = FakeStream()
        stream.handler = handler(stream)
        self.open.append(stream)
        return stream

    def close_all(self) -> None:
        streams, self.open = self.open, []
        for stream in streams:
            stream.handler.closed(ConnectionResetError())


class Harness:
    def __init__(self) -> None:
        self.network = FakeNetwork()
        self.metadata = MetadataCache()
        self.gone: list[tuple[int, int]] = []
        network: Any = self.network
        self.watch = BrokerWatch(
            node_id=ME,
            listener="INTERNAL",
            network=network,
            metadata=self.metadata,
            supervisor=Supervisor(),
            draw=lambda: 0.5,
            gone=lambda node_id, epoch: self.gone.append((node_id, epoch)),
        )
        self.watch.start()

    def write(self, record: object) -> None:
        image = self.metadata.image
        self.metadata.publish(image.apply([record], offset=image.offset + 1, epoch=1))

    def register(self, node_id: int = BROKER, *, epoch: int = 7, fenced: bool = False) -> None:
        self.write(
            RegisterBrokerRecord(
                broker_id=node_id,
                incarnation_id=Uuid(bytes(16)),
                broker_epoch=epoch,
                end_points=[
                    BrokerEndpoint(name="CLIENTS", host="outside", port=1, security_protocol=0),
                    BrokerEndpoint(name="INTERNAL", host="inside", port=2, security_protocol=0),
                ],
                features=[],
                rack=None,
                log_dirs=[],
                fenced=fenced,
            )
        )

    def fence(self, change: int, *, epoch: int = 7) -> None:
        self.write(BrokerRegistrationChangeRecord(broker_id=BROKER, broker_epoch=epoch, fenced=change))


def simulated(story: Callable[[Harness], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    async def tell() -> None:
        harness = Harness()
        try:
            await story(harness)
        finally:
            await harness.watch.close()

    def test() -> None:
        run_virtual(VirtualLoop(), tell())

    test.__name__ = story.__name__
    return test


@simulated
async def test_a_broker_whose_connection_is_closed_and_refused_is_gone(harness: Harness) -> None:
    harness.register()
    await asyncio.sleep(1)
    assert harness.network.attempts == [("inside", 2)], "one idle connection, at the inter-broker listener"

    harness.network.error = ConnectionRefusedError()
    harness.network.close_all()
    await asyncio.sleep(0.01)

    assert harness.gone == [(BROKER, 7)]


@simulated
async def test_a_closed_connection_alone_is_opened_again(harness: Harness) -> None:
    harness.register()
    await asyncio.sleep(1)

    harness.network.close_all()
    await asyncio.sleep(1)

    assert len(harness.network.open) == 1
    assert harness.gone == []


@simulated
async def test_an_address_that_never_accepted_a_connection_proves_nothing(harness: Harness) -> None:
    harness.network.error = ConnectionRefusedError()
    harness.register()

    await asyncio.sleep(60)

    assert harness.gone == []
    assert len(harness.network.attempts) < 40, "attempts have a backoff"


@simulated
async def test_a_broker_that_cannot_be_reached_is_not_gone(harness: Harness) -> None:
    harness.register()
    await asyncio.sleep(1)

    harness.network.error = OSError(113, "no route to host")
    harness.network.close_all()
    await asyncio.sleep(60)

    assert harness.gone == []


@simulated
async def test_a_broker_that_lives_after_all_is_not_reported_twice(harness: Harness) -> None:
    harness.register()
    await asyncio.sleep(1)
    harness.network.error = ConnectionRefusedError()
    harness.network.close_all()
    await asyncio.sleep(1)
    harness.fence(1)
    harness.network.error = None
    harness.fence(-1)
    await asyncio.sleep(10)

    harness.network.error = ConnectionRefusedError()
    harness.network.close_all()
    await asyncio.sleep(10)

    assert harness.gone == [(BROKER, 7)]


@simulated
async def test_a_broker_that_lives_after_all_is_not_reported_to_the_next_active_controller(
    harness: Harness,
) -> None:
    harness.register()
    await asyncio.sleep(1)
    harness.network.error = ConnectionRefusedError()
    harness.network.close_all()
    await asyncio.sleep(1)
    assert harness.gone == [(BROKER, 7)]

    harness.fence(1)
    harness.fence(-1)
    await asyncio.sleep(60)
    harness.watch.report_again()

    assert harness.gone == [(BROKER, 7)], "its heartbeats unfenced it"


@simulated
async def test_a_broker_that_closes_every_connection_is_not_flooded_with_new_ones(harness: Harness) -> None:
    harness.register()

    for _ in range(10_000):
        await asyncio.sleep(0.001)
        harness.network.close_all()

    assert len(harness.network.attempts) < 15, "attempts have a backoff"


@simulated
async def test_a_restarted_broker_is_watched_again(harness: Harness) -> None:
    harness.register()
    await asyncio.sleep(1)
    harness.network.error = ConnectionRefusedError()
    harness.network.close_all()
    await asyncio.sleep(1)
    harness.network.error = None
    harness.register(epoch=20)
    await asyncio.sleep(1)

    harness.network.error = ConnectionRefusedError()
    harness.network.close_all()
    await asyncio.sleep(1)

    assert harness.gone == [(BROKER, 7), (BROKER, 20)]


@simulated
async def test_a_new_active_controller_is_told_who_is_gone(harness: Harness) -> None:
    harness.register()
    await asyncio.sleep(1)
    harness.network.error = ConnectionRefusedError()
    harness.network.close_all()
    await asyncio.sleep(1)
    harness.gone.clear()

    harness.watch.report_again()

    assert harness.gone == [(BROKER, 7)]


@simulated
async def test_fenced_and_unregistered_brokers_and_the_own_node_are_not_watched(harness: Harness) -> None:
    harness.register(fenced=True)
    harness.register(ME)
    await asyncio.sleep(1)
    assert harness.network.attempts == []
    harness.register(3)
    await asyncio.sleep(1)
    (stream,) = harness.network.open

    harness.write(UnregisterBrokerRecord(broker_id=3, broker_epoch=7))
    await asyncio.sleep(1)

    assert stream.is_aborted
