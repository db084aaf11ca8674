"""Requests to other brokers, in the name of this broker's coordinators and partitions.

`BrokerRequests` finds the address of a broker in the metadata and sends over `net.node_connections`. `NodeQueues` joins
items for the same broker into one request: those of one iteration of the event loop, and those that arrive while the
requests before them are in flight. Neither retries: the owner of an item decides, because the leader may be another
broker by then.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from penstock.broker.endpoints import alive_endpoint
from penstock.net.node_connections import NodeAddress
from penstock.net.request_errors import Disconnected, RequestFailed

if TYPE_CHECKING:
    from penstock.metadata.delta import MetadataDelta
    from penstock.metadata.image import MetadataImage
    from penstock.net.node_connections import NodeConnections

logger = logging.getLogger(__name__)

PURPOSE = "coordinator"
"""The connections of coordinators: neither a large fetch nor a heartbeat shares them."""

TIMEOUT_S = 30.0  # the default of request.timeout.ms, as in Kafka

IN_FLIGHT_MAX = 5
"""Requests to one broker. With one, a partition whose followers are slow would delay the markers of all others."""

Item = TypeVar("Item")


class OtherBrokers(Protocol):
    """What sends a request to another broker. `BrokerRequests` implements it, and tests have a fake."""

    async def ask(self, node_id: int, request: Any, *, timeout_s: float = TIMEOUT_S) -> Any:
        """The response, or a `RequestFailed`: then the broker may have done what the request asks for, or not."""
        ...


class BrokerRequests:
    def __init__(
        self, connections: NodeConnections, image: Callable[[], MetadataImage], *, listener: str
    ) -> None:
        """`listener` is the name of the inter-broker listener."""
        self._connections = connections
        self._image = image
        self._listener = listener

    async def ask(self, node_id: int, request: Any, *, timeout_s: float = TIMEOUT_S) -> Any:
        found = alive_endpoint(self._image(), node_id, self._listener)
        if found is None:
            raise Disconnected(f"broker {node_id} is not available on listener {self._listener}")
        _, endpoint = found
        address = NodeAddress(node_id, endpoint.host, endpoint.port)
        return await self._connections.ask(address, PURPOSE, request, timeout_s=timeout_s)

    def metadata_changed(self, delta: MetadataDelta) -> None:
        """Requests to a broker that is fenced fail at once: it may hang, and another broker has taken over."""
        for node_id in delta.brokers:
            broker = delta.image.brokers.get(node_id)
            if broker is None or broker.is_fenced:
                self._connections.drop(node_id, PURPOSE)


class NodeQueues(Generic[Item]):
    def __init__(
        self,
        name: str,
        send: Callable[[int, list[Item]], Coroutine[Any, Any, None]],
        failed: Callable[[list[Item], Exception], None],
        *,
        items_max: int,
        in_flight_max: int = IN_FLIGHT_MAX,
    ) -> None:
        """`send` sends at most `items_max` items to a node in one request, and completes each. If it raises, `failed`
        gets all of them."""
        self._name = name
        self._send = send
        self._failed = failed
        self._items_max = items_max
        self._in_flight_max = in_flight_max
        self._queues: dict[int, deque[Item]] = {}
        self._in_flight: dict[int, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, node_id: int, item: Item) -> None:
        """Send `item` with all others of this iteration of the loop."""
        queue = self._queues.get(node_id)
        if queue is not None:
            queue.append(item)
            return
        self._queues[node_id] = deque([item])
        asyncio.get_running_loop().call_soon(self._send_next, node_id)

    async def close(self) -> None:
        """Items without a result are dropped: the node is stopping."""
        self._queues.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _send_next(self, node_id: int) -> None:
        queue = self._queues.get(node_id)
        while queue and self._in_flight.get(node_id, 0) < self._in_flight_max:
            items = [queue.popleft() for _ in range(min(len(queue), self._items_max))]
            self._in_flight[node_id] = self._in_flight.get(node_id, 0) + 1
            task = asyncio.get_running_loop().create_task(
                self._send_items(node_id, items), name=f"{self._name} to broker {node_id}"
            )
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if not queue:
            self._queues.pop(node_id, None)

    async def _send_items(self, node_id: int, items: list[Item]) -> None:
        try:
            await self._send(node_id, items)
        except RequestFailed as error:
            logger.debug("%s to broker %d failed: %s", self._name, node_id, error)
            self._failed(items, error)
        except Exception as error:
            # Without a result their owners would wait forever.
            logger.exception("%s to broker %d failed", self._name, node_id)
            self._failed(items, error)
        finally:
            self._in_flight[node_id] -= 1
            if not self._in_flight[node_id]:
                del self._in_flight[node_id]
            self._send_next(node_id)
