"""A look at one partition by somebody who wants committed records; it goes into the history."""

from __future__ import annotations

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from penstock.protocol.types import Uuid
from penstock.testing.client import LostConnection, SimulatedClient
from penstock.testing.producers import STOPPING
from penstock.testing.simulation import BrokenPromise
from penstock.testing.transactions.history import Partition, Poll, Seen
from penstock.testing.transactions.isolation import keep_committed, read_batches
from penstock.testing.transactions.stage import Stage

PARTITION_BYTES = 1_500  # a few records at a time
READ_COMMITTED = 1


async def poll_committed(
    client: SimulatedClient, stage: Stage, reader: str, partition: Partition, offset: int, *, topic_id: Uuid
) -> tuple[list[Seen], int] | None:
    """Committed records from `offset` on, and where to go on; None where there is nothing to be had for now."""
    wanted = FetchPartition(partition=partition[1], fetch_offset=offset, partition_max_bytes=PARTITION_BYTES)
    request = FetchRequest(
        max_wait_ms=client.random.choice((0, 50)),
        min_bytes=1,
        isolation_level=READ_COMMITTED,
        topics=[FetchTopic(topic_id=topic_id, partitions=[wanted])],
    )
    try:
        response = await client.ask(request)
    except LostConnection:
        return None
    data: PartitionData = response.responses[0].partitions[0]
    error = data.error_code
    if error in STOPPING or error == ErrorCode.KAFKA_STORAGE_ERROR:
        return None  # whoever was frozen since does not know what was wrong with the disk then
    if error != ErrorCode.NONE:
        raise BrokenPromise(f"{client.name} can not read {partition}: {error.name}")
    batches = read_batches(data, partition, offset)
    records = keep_committed(data, batches, partition, offset)
    next_offset = batches[-1].header.next_offset if batches else offset
    now = client.simulation.loop.time()
    stage.history.polls.append(Poll(reader, True, partition, offset, next_offset, records, now))
    return records, next_offset
