"""Producer ids come from blocks, and a block is allocated once for all producers that wait for it."""

from __future__ import annotations

import asyncio

from penstock.broker.producer_ids import ProducerIds


class BlocksOfThree:
    """A controller that allocates blocks after a turn of the loop, as a real one does after a commit."""

    def __init__(self) -> None:
        self.blocks = 0

    async def allocate_producer_ids(self, broker_id: int) -> tuple[int, int]:
        first = self.blocks * 3
        self.blocks += 1
        await asyncio.sleep(0)
        return first, 3


async def test_ids_never_repeat_and_blocks_are_not_wasted() -> None:
    source = BlocksOfThree()
    ids = ProducerIds(source, node_id=1)

    taken = await asyncio.gather(*(ids.take() for _ in range(7)))

    assert sorted(taken) == list(range(7))
    assert source.blocks == 3


async def test_an_id_of_the_current_block_needs_no_wait() -> None:
    ids = ProducerIds(BlocksOfThree(), node_id=1)

    assert ids.take_now() is None
    assert await ids.take() == 0
    assert ids.take_now() == 1
    assert ids.take_now() == 2
    assert ids.take_now() is None
