"""Producer ids: numbers that no two producers of a cluster ever share.

The controller gives each node a block at a time, so that starting a producer costs no metadata record of its
own. Ids of a block that were not used when the node stopped are never used at all.
"""

from __future__ import annotations

import asyncio
from typing import Protocol


class ProducerIdSource(Protocol):
    async def allocate_producer_ids(self, broker_id: int) -> tuple[int, int]:
        """The first id of a new block and the number of ids in it; returns when that is committed."""
        ...


class ProducerIds:
    def __init__(self, source: ProducerIdSource, node_id: int) -> None:
        self._source = source
        self._node_id = node_id
        self._next = 0
        self._end = 0
        self._allocating = asyncio.Lock()

    def take_now(self) -> int | None:
        """A new id, or None where a new block is needed first."""
        if self._next == self._end:
            return None
        producer_id = self._next
        self._next += 1
        return producer_id

    async def take(self) -> int:
        """A new id, after getting a block where that is needed."""
        while (producer_id := self.take_now()) is None:
            async with self._allocating:
                if self._next == self._end:  # nobody else got a block while this one waited for the lock
                    first, count = await self._source.allocate_producer_ids(self._node_id)
                    self._next, self._end = first, first + count
        return producer_id
