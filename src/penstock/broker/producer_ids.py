"""Producer ids, which are unique in a cluster.

A broker allocates blocks of ids from the controller, so that a new producer does not need its own metadata record. The
unused ids of a block are lost when the broker stops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest

if TYPE_CHECKING:
    from penstock.broker.controller_channel import ControllerChannel

ALLOCATE_TIMEOUT_MS = 30_000  # a client has given up by then


class ProducerIdSource(Protocol):
    async def allocate_producer_ids(self, broker_id: int) -> tuple[int, int]:
        """The first id and the size of a new block. Returns when the allocation is committed."""
        ...


class AllocatedProducerIds:
    """Blocks from the active controller."""

    def __init__(self, channel: ControllerChannel, broker_epoch: Callable[[], int]) -> None:
        self._channel = channel
        self._broker_epoch = broker_epoch

    async def allocate_producer_ids(self, broker_id: int) -> tuple[int, int]:
        request = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=self._broker_epoch())
        response = await self._channel.ask(request, timeout_ms=ALLOCATE_TIMEOUT_MS)
        if response.error_code is not ErrorCode.NONE:
            raise Refused(response.error_code)
        return response.producer_id_start, response.producer_id_len


class ProducerIds:
    def __init__(self, source: ProducerIdSource, node_id: int) -> None:
        self._source = source
        self._node_id = node_id
        self._next = 0
        self._end = 0
        self._allocating = asyncio.Lock()

    def take_now(self) -> int | None:
        """A new id, or None if a new block is needed first."""
        if self._next == self._end:
            return None
        producer_id = self._next
        self._next += 1
        return producer_id

    async def take(self) -> int:
        """A new id, from a new block if needed."""
        while (producer_id := self.take_now()) is None:
            async with self._allocating:
                if self._next == self._end:  # another caller may have allocated a block meanwhile
                    first, count = await self._source.allocate_producer_ids(self._node_id)
                    self._next, self._end = first, first + count
        return producer_id
