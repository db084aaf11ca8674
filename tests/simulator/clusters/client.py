"""A client of a cluster: one connection per node, and the leaders that metadata shows.

It retries nothing. A missing response means that the outcome is unknown (`NoAnswer`): nodes may be dead, paused or
unreachable. So it is never a broken promise as such; `scenario` checks that everything is answered once the faults end.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from penstock.client.connection import ClientConnection
from penstock.client.errors import Disconnected, TimedOut
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from penstock.protocol.types import Uuid
from simulator.cluster import SimulatedCluster

ANSWER_S_MAX = 4.0
NO_LEADER = -1


class NoAnswer(Exception):
    """There is no response. The node may have done what it was asked, or may do it later."""


@dataclass(frozen=True, slots=True)
class TopicView:
    """What metadata showed of a topic."""

    topic_id: Uuid
    leaders: tuple[tuple[int, int], ...]
    """Leader and leader epoch of each partition."""


class ClusterClient:
    def __init__(self, cluster: SimulatedCluster, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.random = cluster.generator(f"client/{name}")
        self._connections: dict[int, ClientConnection] = {}

    async def connect(self, node_id: int) -> ClientConnection:
        """The connection to this node. Raises NoAnswer."""
        connection = self._connections.get(node_id)
        if connection is not None and not connection.is_closed:
            return connection
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                connection = await self.cluster.connect(node_id, self.name)
        except (OSError, Disconnected, TimedOut) as error:  # OSError includes TimeoutError
            raise NoAnswer(f"node {node_id} cannot be reached: {error!r}") from error
        self._connections[node_id] = connection
        return connection

    async def send(self, node_id: int, request: Any, *, version: int | None = None) -> asyncio.Future[Any]:
        """Send a request; `answer` waits for the response."""
        connection = await self.connect(node_id)
        try:
            future = connection.send(request, version=version)
        except Disconnected as error:
            raise NoAnswer(f"node {node_id} is gone") from error
        future.add_done_callback(_retrieve_exception)
        return future

    async def answer(
        self, node_id: int, future: asyncio.Future[Any], *, within_s: float = ANSWER_S_MAX
    ) -> Any:
        try:
            async with asyncio.timeout(within_s):
                return await future
        except (Disconnected, TimedOut, TimeoutError) as error:
            self.disconnect(node_id)
            raise NoAnswer(f"node {node_id} does not answer: {error!r}") from error

    async def ask(
        self, node_id: int, request: Any, *, version: int | None = None, within_s: float = ANSWER_S_MAX
    ) -> Any:
        return await self.answer(
            node_id, await self.send(node_id, request, version=version), within_s=within_s
        )

    async def ask_any(self, request: Any, *, within_s: float = ANSWER_S_MAX) -> Any:
        """Ask a random broker, as a client does with its bootstrap servers."""
        return await self.ask(self.random.choice(self.cluster.broker_ids), request, within_s=within_s)

    def disconnect(self, node_id: int) -> None:
        connection = self._connections.pop(node_id, None)
        if connection is not None:
            connection.abort()

    def disconnect_all(self) -> None:
        for node_id in list(self._connections):
            self.disconnect(node_id)

    async def metadata(self, *topics: str) -> MetadataResponse:
        """Of these topics, or of all, as some broker knows it."""
        wanted = [MetadataRequestTopic(name=topic) for topic in topics] if topics else None
        response: MetadataResponse = await self.ask_any(
            MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        )
        return response

    async def find_topic(self, topic: str) -> TopicView | None:
        """As some broker knows it, which may be behind; None if it does not know the topic."""
        (found,) = (await self.metadata(topic)).topics
        if found.error_code != ErrorCode.NONE:
            return None
        leaders = {each.partition_index: (each.leader_id, each.leader_epoch) for each in found.partitions}
        return TopicView(found.topic_id, tuple(leaders[index] for index in range(len(leaders))))

    async def pause(self, seconds_max: float = 0.2) -> None:
        await asyncio.sleep(self.random.uniform(0, seconds_max))


def _retrieve_exception(future: asyncio.Future[Any]) -> None:
    """A client that gives up after the first of several responses leaves the others unread."""
    if not future.cancelled():
        future.exception()
