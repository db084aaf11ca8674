"""One read_committed fetch of a partition, recorded in the history."""

from __future__ import annotations

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from penstock.protocol.types import Uuid
from simulator.clients.client import LostConnection, SimulatedClient
from simulator.clients.producers import STOPPING
from simulator.simulation import BrokenPromise
from simulator.transactions.history import Partition, Poll, Seen
from simulator.transactions.isolation import keep_committed, read_batches
from simulator.transactions.shared import SharedState

PARTITION_BYTES = 1_500  # a few records per fetch
READ_COMMITTED = 1


async def poll_committed(
    client: SimulatedClient,
    shared: SharedState,
    reader: str,
    partition: Partition,
    offset: int,
    *,
    topic_id: Uuid,
) -> tuple[list[Seen], int] | None:
    """Committed records from `offset` on, and the next offset; None if none are available."""
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
        return None  # a client that was frozen since does not know of the disk fault
    if error != ErrorCode.NONE:
        raise BrokenPromise(f"{client.name} cannot read {partition}: {error.name}")
    batches = read_batches(data, partition, offset)
    records = keep_committed(data, batches, partition, offset)
    next_offset = batches[-1].header.next_offset if batches else offset
    now = client.simulation.loop.time()
    shared.history.polls.append(Poll(reader, True, partition, offset, next_offset, records, now))
    return records, next_offset
