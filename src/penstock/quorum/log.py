"""The interface of the metadata log, and its batches.

`node` implements `QuorumLog` with a log of `storage`, tests with a list.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from penstock.quorum.control import ControlRecord, read_voters
from penstock.quorum.voters import Voters
from penstock.records import kernel
from penstock.records.batch import Buffer, NewRecord
from penstock.records.errors import InvalidBatch

# Kafka's limit of a batch in the metadata log. An atomic change must fit into one.
BATCH_BYTES_MAX = 8 * 1024 * 1024


class QuorumLog(Protocol):
    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def committed_offset(self) -> int:
        """The high watermark of the run before, as far as it is known. The log had these records, synced."""
        ...

    @property
    def last_epoch(self) -> int:
        """The epoch of the last batch, or 0."""
        ...

    @property
    def size_bytes(self) -> int: ...

    def end_of_epoch(self, epoch: int) -> tuple[int, int] | None:
        """The largest epoch in the log that is not above `epoch`, and where it ends. None if there is none."""
        ...

    def append(self, batch: bytearray, *, epoch: int) -> int:
        """As leader: append one batch and return the new end offset. It is not durable until `sync` has returned."""
        ...

    def append_fetched(self, batches: Buffer) -> int:
        """As follower: append checked batches, which have their offsets and epochs, and return the new end offset."""
        ...

    async def prepare(self) -> None:
        """Read what the first append needs."""
        ...

    async def sync(self) -> None:
        """Make all appends before the call durable."""
        ...

    async def truncate(self, end_offset: int) -> None:
        """Returns when the truncation is durable. A batch is removed as a whole."""
        ...

    async def truncate_fully(self, start_offset: int) -> None:
        """Remove everything: the log goes on at `start_offset`, after a snapshot. Returns when that is durable."""
        ...

    def delete_before(self, start_offset: int) -> None:
        """Records below are in a snapshot. Files are deleted later, by segment."""
        ...

    def set_high_watermark(self, high_watermark: int) -> None:
        """Records below are committed."""
        ...

    async def load(self, offset: int, *, max_bytes: int, end_offset: int) -> Buffer:
        """Whole batches below `end_offset`, starting with the one that contains `offset`: at least one, unless that is
        the end. Pages that are not in memory are read in a worker."""
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


def check_fetched(batches: Buffer, *, end_offset: int, last_epoch: int, epoch: int) -> Buffer:
    """The whole batches, which may be appended to a log that ends at `end_offset`. An incomplete batch at the end is
    ignored: Kafka cuts a response where the limit of the fetch is. Raises `RecordsError` for damaged batches, if there
    is no whole batch, and for offsets or epochs that the leader of `epoch` cannot have sent."""
    whole_bytes = sum([header.size_bytes for header in kernel.read_headers(batches)])
    if 0 < whole_bytes < len(batches):
        batches = memoryview(batches)[:whole_bytes]
    for header in kernel.check_batches(batches):
        if header.base_offset != end_offset or not last_epoch <= header.leader_epoch <= epoch:
            raise InvalidBatch(
                f"a batch has offset {header.base_offset} and epoch {header.leader_epoch}, "
                f"but the log ends at {end_offset} with epoch {last_epoch}"
            )
        end_offset, last_epoch = header.next_offset, header.leader_epoch
    return batches


def data_batches(batches: Buffer, *, start_offset: int, end_offset: int) -> list[DataBatch]:
    """The data batches in a buffer that begin at `start_offset` or later and end at `end_offset` or before."""
    found = []
    position = 0
    for header in kernel.read_headers(batches):
        is_wanted = header.base_offset >= start_offset and header.next_offset <= end_offset
        if is_wanted and not header.is_control:
            values = [record.value or b"" for record in kernel.iterate_records(batches, position)]
            found.append(DataBatch(header.last_offset, header.leader_epoch, values))
        position += header.size_bytes
    return found


def voters_in(batches: Buffer, *, start_offset: int = 0) -> list[tuple[int, Voters]]:
    """The VotersRecords in a buffer, with their offsets."""
    found = []
    position = 0
    for header in kernel.read_headers(batches):
        if header.is_control and header.last_offset >= start_offset:
            for record in kernel.iterate_records(batches, position):
                voters = read_voters(record)
                if voters is not None and record.offset >= start_offset:
                    found.append((record.offset, voters))
        position += header.size_bytes
    return found
