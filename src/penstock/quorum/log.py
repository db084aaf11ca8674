"""The metadata log as the quorum needs it, and its batches.

`node` fills `QuorumLog` with a partition log of `storage`; a test fills it with a list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from penstock.quorum.control import ControlRecord, read_voters
from penstock.quorum.voters import Voters
from penstock.records import kernel
from penstock.records.batch import BatchHeader, Buffer, NewRecord

# Kafka's limit for one batch of the metadata log; an atomic change has to fit.
BATCH_BYTES_MAX = 8 * 1024 * 1024


class QuorumLog(Protocol):
    @property
    def end_offset(self) -> int: ...

    @property
    def last_epoch(self) -> int:
        """Epoch of the last batch; 0 where there is none."""
        ...

    def append(self, batch: bytearray, *, epoch: int) -> int:
        """Place one batch at the end and return the new end offset. It may be lost until `sync` has
        returned."""
        ...

    async def sync(self) -> None:
        """Returns when everything that was appended before the call survives a power cut."""
        ...

    def read(self, offset: int) -> Buffer:
        """Some whole batches, of which the first holds `offset`; empty at the end of the log."""
        ...


class DataBatch(NamedTuple):
    """Records that were appended together."""

    last_offset: int
    epoch: int
    values: list[bytes]


def build_data_batch(values: Sequence[bytes], *, timestamp_ms: int) -> bytearray:
    return kernel.build_batch([NewRecord(timestamp_ms, None, value) for value in values])


def build_control_batch(records: Iterable[ControlRecord], *, timestamp_ms: int) -> bytearray:
    return kernel.build_batch(
        [NewRecord(timestamp_ms, key, value) for key, value in records], is_control=True
    )


def read_data(log: QuorumLog, *, start_offset: int, end_offset: int) -> Iterator[DataBatch]:
    """The batches of records between two offsets; control batches are left out."""
    for chunk, position, header in _batches(log, start_offset, end_offset):
        if not header.is_control:
            values = [record.value or b"" for record in kernel.iterate_records(chunk, position)]
            yield DataBatch(header.last_offset, header.leader_epoch, values)


def find_voters(log: QuorumLog) -> Voters | None:
    """The newest set of voters in the log, committed or not: a set holds as soon as it is appended
    (KIP-853)."""
    voters = None
    for chunk, position, header in _batches(log, 0, log.end_offset):
        if header.is_control:
            for record in kernel.iterate_records(chunk, position):
                voters = read_voters(record.key or b"", record.value or b"") or voters
    return voters


def _batches(log: QuorumLog, start_offset: int, end_offset: int) -> Iterator[tuple[Buffer, int, BatchHeader]]:
    offset = start_offset
    while offset < end_offset:
        chunk = log.read(offset)
        position = 0
        for header in kernel.read_headers(chunk):
            if header.last_offset >= offset and header.base_offset < end_offset:
                yield chunk, position, header
            position += header.size_bytes
            offset = max(offset, header.next_offset)
        assert position > 0, f"the metadata log ends at {offset}, before {end_offset}"
