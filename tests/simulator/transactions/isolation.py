"""What a consumer returns for fetched bytes, with read_committed or without.

The broker lists aborted transactions by producer id and first offset. The consumer drops their records: from that
offset on, the producer's batches up to the marker that ends the transaction. `committed_by_markers` computes the same
result for a whole log from the markers alone, so it finds wrong lists of aborted transactions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.protocol.messages.fetch import PartitionData
from penstock.records import kernel
from penstock.records.batch import BatchHeader
from penstock.records.control import EndTransactionMarker, read_end_transaction
from penstock.records.errors import RecordsError
from simulator.simulation import BrokenPromise
from simulator.transactions.history import Partition, Seen


class Batch(NamedTuple):
    header: BatchHeader
    records: Sequence[Seen]
    marker: EndTransactionMarker | None
    """None for batches of clients."""


def read_batches(data: PartitionData, partition: Partition, offset: int) -> list[Batch]:
    """All batches of a response. Checks that they are complete, contiguous, and below the high watermark."""
    name = f"{partition[0]}-{partition[1]}"
    buffer = data.records
    assert isinstance(buffer, memoryview), "a decoded response has its records in memory"
    try:
        headers = kernel.check_batches(buffer)
    except RecordsError as error:
        raise BrokenPromise(f"{name}: the records at {offset} are corrupt: {error}") from error
    batches: list[Batch] = []
    position, expected_offset = 0, offset
    for header in headers:
        if header.base_offset > expected_offset or (batches and header.base_offset < expected_offset):
            raise BrokenPromise(f"{name}: {expected_offset} is missing, {header.base_offset} comes next")
        if header.last_offset >= data.high_watermark:
            raise BrokenPromise(
                f"{name}: offset {header.last_offset} was returned beyond the high watermark {data.high_watermark}"
            )
        records = list(kernel.iterate_records(buffer, position))
        if header.is_control:
            batches.append(Batch(header, (), read_end_transaction(records[0])))
        else:
            seen = [Seen(partition, each.offset, bytes(each.value or b"")) for each in records]
            batches.append(Batch(header, seen, None))
        position += header.size_bytes
        expected_offset = header.next_offset
    return batches


def keep_all(batches: Iterable[Batch], offset: int) -> list[Seen]:
    """The records that a read_uncommitted consumer gets from `offset` on."""
    return [record for batch in batches for record in batch.records if record.offset >= offset]


def keep_committed(
    data: PartitionData, batches: Sequence[Batch], partition: Partition, offset: int
) -> list[Seen]:
    """The records that a read_committed consumer gets from `offset` on."""
    name = f"{partition[0]}-{partition[1]}"
    if data.last_stable_offset > data.high_watermark:
        raise BrokenPromise(
            f"{name}: last stable offset {data.last_stable_offset}, but high watermark {data.high_watermark}"
        )
    if batches and batches[-1].header.last_offset >= data.last_stable_offset:
        raise BrokenPromise(
            f"{name}: offset {batches[-1].header.last_offset} was returned beyond the last stable offset"
            f" {data.last_stable_offset}"
        )
    if data.aborted_transactions is None:
        raise BrokenPromise(f"{name}: the response does not list aborted transactions")
    waiting = sorted(data.aborted_transactions, key=lambda each: each.first_offset)
    aborted: set[int] = set()
    kept: list[Seen] = []
    for header, records, marker in batches:
        while waiting and waiting[0].first_offset <= header.last_offset:
            aborted.add(waiting.pop(0).producer_id)
        if marker is not None and not marker.is_commit:
            aborted.discard(header.producer_id)
        if not (header.is_transactional and header.producer_id in aborted):
            kept += [record for record in records if record.offset >= offset]
    return kept


def committed_by_markers(batches: Iterable[Batch]) -> tuple[list[Seen], list[Seen]]:
    """The committed and the open records of a whole log."""
    open_records: dict[int, list[Seen]] = {}
    committed: list[Seen] = []
    for header, records, marker in batches:
        if marker is not None:
            ended = open_records.pop(header.producer_id, [])
            if marker.is_commit:
                committed += ended
        elif header.is_transactional:
            open_records.setdefault(header.producer_id, []).extend(records)
        else:
            committed += records
    left = [record for records in open_records.values() for record in records]
    return sorted(committed, key=lambda each: each.offset), sorted(left, key=lambda each: each.offset)
