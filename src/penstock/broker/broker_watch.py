"""Notices at once when the process of a broker is gone, without waiting for its session timeout.

Every controller holds one idle connection to each unfenced broker. When the process ends, its operating system closes
the connection and refuses the next one. Then the active controller fences the broker. Every controller watches, not
only the active one, because both may be the same process.

Only a refusal counts, and only after an earlier connection to the same address. A broker that is paused, cut off or
slow keeps its session timeout. If a broker sends heartbeats after all, the refusal came from something in between: for
this registration, connections to it are no longer believed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from penstock.metadata.cache import MetadataCache
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.image import BrokerImage, Endpoint
from penstock.runtime import Network, Supervisor
from penstock.runtime.backoff import Backoff
from penstock.runtime.network import Stream

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 10.0
RETRY_FIRST_MS, RETRY_MAX_MS = 100, 5_000
STEADY_S = 1.0
"""A connection that is closed earlier counts as a failure: the broker may have too many connections."""
BUFFER_BYTES = 512  # a broker sends nothing without a request

Gone = Callable[[int, int], None]
"""Called with the node id and the broker epoch."""


@dataclass(slots=True)
class _Watched:
    """A broker, and the task that watches it."""

    epoch: int
    endpoint: Endpoint
    task: asyncio.Task[None]
    is_gone: bool = False
    """Its process is gone, as far as is known: the next active controller is told as well."""
    was_gone: bool = False
    """Its process was reported as gone. It is not reported twice in the same epoch."""


class BrokerWatch:
    def __init__(
        self,
        *,
        node_id: int,
        listener: str,
        network: Network,
        metadata: MetadataCache,
        supervisor: Supervisor,
        draw: Callable[[], float],
        gone: Gone,
    ) -> None:
        """`listener` is the inter-broker listener. `gone` is called when the process of a broker is gone."""
        self._node_id = node_id
        self._listener = listener
        self._network = network
        self._metadata = metadata
        self._supervisor = supervisor
        self._backoff = Backoff(RETRY_FIRST_MS, RETRY_MAX_MS, draw=draw)
        self._gone = gone
        self._watched: dict[int, _Watched] = {}

    def start(self) -> None:
        self._metadata.install(self._metadata_changed)

    async def close(self) -> None:
        if self._metadata_changed in self._metadata:
            self._metadata.unsubscribe(self._metadata_changed)
        tasks = [watched.task for watched in self._watched.values()]
        self._watched.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def report_again(self) -> None:
        """This controller became the active one: report the brokers that are gone."""
        for node_id, watched in list(self._watched.items()):
            if watched.is_gone:
                self._gone(node_id, watched.epoch)

    def _metadata_changed(self, delta: MetadataDelta) -> None:
        for node_id in delta.brokers:
            broker = delta.image.brokers.get(node_id)
            watched = self._watched.get(node_id)
            if node_id == self._node_id:
                continue
            if watched is not None and (broker is None or broker.epoch != watched.epoch):
                watched.task.cancel()
                del self._watched[node_id]
                watched = None
            if broker is None or broker.is_fenced:
                continue
            if watched is None:
                self._begin(broker)
            elif node_id in delta.before.brokers and delta.before.brokers[node_id].is_fenced:
                watched.is_gone = False  # it sends heartbeats

    def _begin(self, broker: BrokerImage) -> None:
        endpoint = broker.endpoint(self._listener) or next(iter(broker.endpoints), None)
        if endpoint is None:
            return
        node_id = broker.node_id
        task = self._supervisor.run(f"watch broker {node_id}", lambda: self._watch(node_id))
        self._watched[node_id] = _Watched(broker.epoch, endpoint, task)

    async def _watch(self, node_id: int) -> None:
        loop = asyncio.get_running_loop()
        watched = self._watched[node_id]
        was_connected = False
        failures = 0
        while True:
            idle = _Idle()
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    stream = await self._network.connect(
                        watched.endpoint.host, watched.endpoint.port, idle.over
                    )
            except ConnectionRefusedError:
                if was_connected and not watched.was_gone:
                    watched.is_gone = watched.was_gone = True
                    self._report(node_id, watched.epoch)
            except (OSError, TimeoutError):
                pass
            else:
                was_connected, watched.is_gone = True, False
                connected_s = loop.time()
                await _until_closed(stream, idle.ended)
                if loop.time() - connected_s >= STEADY_S:
                    failures = 0
            failures += 1
            if failures > 1:  # a steady connection that is closed is opened again at once
                await asyncio.sleep(self._backoff.wait_ms(failures - 1) / 1000)

    def _report(self, node_id: int, epoch: int) -> None:
        broker = self._metadata.image.brokers.get(node_id)
        if broker is not None and broker.is_active:  # not one that has stopped with a controlled shutdown
            logger.warning("the process of broker %d is gone: its connection is refused", node_id)
        self._gone(node_id, epoch)


async def _until_closed(stream: Stream, ended: asyncio.Event) -> None:
    try:
        await ended.wait()
    finally:
        stream.abort()


class _Idle:
    """A stream that only waits for its end."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self._buffer = memoryview(bytearray(BUFFER_BYTES))

    def over(self, stream: Stream) -> _Idle:
        return self

    def lend_buffer(self) -> memoryview:
        return self._buffer

    def received(self, size: int) -> None:
        pass

    def drained(self) -> None:
        pass

    def closed(self, reason: BaseException | None) -> None:
        self.ended.set()
