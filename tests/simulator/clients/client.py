"""A client that lives as long as the scenario. It reconnects when necessary but retries nothing.

A missing response means either a lost connection, after which the outcome is unknown, or a broken promise: a running
node must answer in time.
"""

from __future__ import annotations

import asyncio
from typing import Any

from penstock.client.connection import ClientConnection, Disconnected
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from penstock.protocol.types import Uuid
from simulator.simulation import BrokenPromise, Simulation

BACKOFF_S = 0.05
ANSWER_S_MAX = 60.0

EARLIEST, LATEST = -2, -1


class LostConnection(Exception):
    """The connection closed before the response arrived."""


class SimulatedClient:
    def __init__(self, simulation: Simulation, name: str) -> None:
        self.simulation = simulation
        self.name = name
        self.random = simulation.generator(f"client/{name}")
        self.connections = 0
        """Connections so far. A new one means that responses may have been lost."""
        self.sent_at = 0.0
        """When the last request was sent."""
        self._connection: ClientConnection | None = None

    async def connect(self) -> None:
        """Return when connected."""
        while self._connection is None:
            try:
                self._connection = await self.simulation.connect(self.name)
                self.connections += 1
            except ConnectionError:
                await asyncio.sleep(self.random.uniform(0, BACKOFF_S))

    def send(self, request: Any, *, version: int | None = None) -> asyncio.Future[Any]:
        """Send on the current connection, by default in the newest version. Raises LostConnection if there is none."""
        if self._connection is None:
            raise LostConnection
        self.sent_at = self.simulation.loop.time()
        try:
            future = self._connection.send(request, version=version)
        except Disconnected as error:
            self._connection = None
            raise LostConnection from error
        future.add_done_callback(_retrieve_exception)
        return future

    def send_and_forget(self, request: Any) -> None:
        if self._connection is not None and not self._connection.is_closed:
            self._connection.send_and_forget(request)

    async def answer(
        self, request: Any, future: asyncio.Future[Any], *, within_s: float = ANSWER_S_MAX
    ) -> Any:
        """Wait for the response to a request that was sent."""
        try:
            # Not `wait_for`: in Python 3.11 it loses a cancellation if the connection closes at the same time.
            async with asyncio.timeout(within_s):
                return await future
        except Disconnected as error:
            self._connection = None
            raise LostConnection from error
        except TimeoutError:
            kind = type(request).__name__
            raise BrokenPromise(f"{self.name} got no response to {kind} in {within_s} s") from None

    async def ask(self, request: Any, *, version: int | None = None, within_s: float = ANSWER_S_MAX) -> Any:
        await self.connect()
        return await self.answer(request, self.send(request, version=version), within_s=within_s)

    def disconnect(self) -> None:
        """Close the connection. Requests in flight may still arrive; their responses are ignored."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    # Requests that several kinds of clients use

    async def metadata(self, *topics: str) -> MetadataResponse:
        """Of these topics, or of all."""
        wanted = [MetadataRequestTopic(name=topic) for topic in topics] if topics else None
        response: MetadataResponse = await self.ask(
            MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        )
        return response

    async def find_topic(self, topic: str) -> tuple[Uuid, int] | None:
        """The topic's id and number of partitions; None if it does not exist."""
        (found,) = (await self.metadata(topic)).topics
        if found.error_code == ErrorCode.NONE:
            return found.topic_id, len(found.partitions)
        if found.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise BrokenPromise(f"metadata of {topic}: {found.error_code.name}")
        return None

    async def offset(self, topic: str, index: int, timestamp: int) -> int | ErrorCode:
        """The first or last offset of a partition, or an error code."""
        response = await self.ask(
            ListOffsetsRequest(
                replica_id=-1,
                topics=[
                    ListOffsetsTopic(
                        name=topic,
                        partitions=[ListOffsetsPartition(partition_index=index, timestamp=timestamp)],
                    )
                ],
            )
        )
        (found,) = response.topics[0].partitions
        error: ErrorCode = found.error_code
        offset: int = found.offset
        return offset if error == ErrorCode.NONE else error


def _retrieve_exception(future: asyncio.Future[Any]) -> None:
    """A client that gives up after the first of several responses leaves the others unread."""
    if not future.cancelled():
        future.exception()
