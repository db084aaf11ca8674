"""A client that lives as long as the scenario: it connects again whenever it has to, and nothing is retried for it.

An answer that does not come is either a lost connection, which says nothing about what became of the request,
or a promise broken: a node that lives must answer in time.
"""

from __future__ import annotations

import asyncio
from typing import Any

from penstock.client.connection import ClientConnection, Disconnected
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from penstock.protocol.types import Uuid
from penstock.testing.simulation import BrokenPromise, Simulation

BACKOFF_S = 0.05
ANSWER_S_MAX = 60.0

EARLIEST, LATEST = -2, -1


class LostConnection(Exception):
    """The connection ended before the answer came."""


class SimulatedClient:
    def __init__(self, simulation: Simulation, name: str) -> None:
        self.simulation = simulation
        self.name = name
        self.random = simulation.generator(f"client/{name}")
        self.connections = 0
        """How many there have been; a new one means that answers may have been lost."""
        self.sent_at = 0.0
        """When the last request was sent."""
        self._connection: ClientConnection | None = None

    async def connect(self) -> None:
        """Return when there is a connection."""
        while self._connection is None:
            try:
                self._connection = await self.simulation.connect(self.name)
                self.connections += 1
            except ConnectionError:
                await asyncio.sleep(self.random.uniform(0, BACKOFF_S))

    def send(self, request: Any, *, version: int | None = None) -> asyncio.Future[Any]:
        """Send on the present connection, in the newest version unless told which; LostConnection if there is none."""
        if self._connection is None:
            raise LostConnection
        self.sent_at = self.simulation.loop.time()
        try:
            future = self._connection.send(request, version=version)
        except Disconnected as error:
            self._connection = None
            raise LostConnection from error
        future.add_done_callback(_look_at)
        return future

    def send_and_forget(self, request: Any) -> None:
        if self._connection is not None and not self._connection.is_closed:
            self._connection.send_and_forget(request)

    async def answer(
        self, request: Any, future: asyncio.Future[Any], *, within_s: float = ANSWER_S_MAX
    ) -> Any:
        """The answer to what was sent."""
        try:
            # Not `wait_for`, which in Python 3.11 forgets that it was cancelled if the connection ends then.
            async with asyncio.timeout(within_s):
                return await future
        except Disconnected as error:
            self._connection = None
            raise LostConnection from error
        except TimeoutError:
            kind = type(request).__name__
            raise BrokenPromise(f"{self.name} had no answer to {kind} in {within_s} s") from None

    async def ask(self, request: Any, *, version: int | None = None, within_s: float = ANSWER_S_MAX) -> Any:
        await self.connect()
        return await self.answer(request, self.send(request, version=version), within_s=within_s)

    def hang_up(self) -> None:
        """End the connection; what was sent may still arrive, and is not waited for."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    # What several kinds of client ask

    async def metadata(self, *topics: str) -> MetadataResponse:
        """Of these topics, or of all."""
        wanted = [MetadataRequestTopic(name=topic) for topic in topics] if topics else None
        response: MetadataResponse = await self.ask(
            MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        )
        return response

    async def find_topic(self, topic: str) -> tuple[Uuid, int] | None:
        """Its id and number of partitions, or None where it is not there."""
        (found,) = (await self.metadata(topic)).topics
        if found.error_code == ErrorCode.NONE:
            return found.topic_id, len(found.partitions)
        if found.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise BrokenPromise(f"metadata of {topic}: {found.error_code.name}")
        return None

    async def offset(self, topic: str, index: int, timestamp: int) -> int | ErrorCode:
        """One end of a partition, or why it could not be told."""
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


def _look_at(future: asyncio.Future[Any]) -> None:
    """Whoever gives up after the first of several answers does not look at the others."""
    if not future.cancelled():
        future.exception()
