"""Reading a coordinator's log back into a shard.

A record matters only until the next one of its key, so records are gathered by key first, undecoded, and
the last of each is replayed, in the order in which the last ones stand: what compaction would have left. A
group that committed a million times costs a million dict entries overwritten, not a million decoded.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Protocol

from penstock.coordinator.framing import RecordFraming, UnknownRecord
from penstock.coordinator.log import CoordinatorLog
from penstock.records import kernel

logger = logging.getLogger(__name__)

AT_ONCE = 500
"""Records replayed before others get their turn on the event loop; a few milliseconds."""

DECOMPRESSED_BYTES_MAX = 256 << 20  # of one batch; these logs are written by coordinators alone


class Replaying(Protocol):
    def replay(self, key: Any, value: Any | None) -> None: ...


async def load(
    log: CoordinatorLog, partition: int, *, end_offset: int, framing: RecordFraming, shard: Replaying
) -> int:
    """Replay a partition up to `end_offset`; the number of records that it held. Nothing is awaited if it is empty."""
    offset, _ = log.bounds(partition)
    latest: dict[bytes, bytes | None] = {}
    count = 0
    while offset < end_offset:
        data = await log.read(partition, offset)
        if data is None:
            break
        view, position = memoryview(data), 0
        for header in kernel.read_headers(view):
            if header.next_offset > offset:
                if not header.is_control:
                    for record in kernel.iterate_records(view, position, limit_bytes=DECOMPRESSED_BYTES_MAX):
                        if record.key is not None:
                            latest.pop(record.key, None)  # so that it moves to the end
                            latest[record.key] = record.value
                            count += 1
                offset = header.next_offset
            position += header.size_bytes
        await asyncio.sleep(0)
    for number, (key, value) in enumerate(latest.items(), start=1):
        try:
            decoded_key, decoded = framing.decode(key, value)
        except UnknownRecord as error:
            logger.warning("partition %d holds %s, from newer software; passing over it", partition, error)
            continue
        shard.replay(decoded_key, decoded)
        if number % AT_ONCE == 0:
            await asyncio.sleep(0)
    return count
