"""What batches mean to the producer state: data, or the marker with which a coordinator ends a transaction."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from penstock.records import kernel
from penstock.records.batch import BatchHeader
from penstock.runtime.disk import Buffer
from penstock.storage.producer_state import ProducedBatch, ProducerState, TransactionMarker

ABORT = 0
COMMIT = 1

_KEY = Struct(">hh")  # version, type
_VALUE = Struct(">hi")  # version, coordinator epoch


def read_marker(view: Buffer, position: int) -> TransactionMarker | None:
    """The marker in the control batch at `position`; None if it holds no end of a transaction."""
    for record in kernel.iterate_records(view, position):
        if record.key is None or record.value is None or len(record.key) < _KEY.size:
            return None
        _, kind = _KEY.unpack_from(record.key)
        if kind not in (ABORT, COMMIT) or len(record.value) < _VALUE.size:
            return None
        _, coordinator_epoch = _VALUE.unpack_from(record.value)
        return TransactionMarker(kind == COMMIT, coordinator_epoch)
    return None


def check_batches(
    producers: ProducerState, headers: Sequence[BatchHeader], view: Buffer
) -> ProducedBatch | None:
    """As `ProducerState.check`, for batches one after the other in `view`, markers included."""
    position = 0
    for header in headers:
        if header.is_control:
            marker = read_marker(view, position)
            if marker is not None:
                producers.check_marker(header, marker)
        position += header.size_bytes
    return producers.check(headers)


def note_batches(
    producers: ProducerState, headers: Sequence[BatchHeader], view: Buffer, *, first_offset: int
) -> None:
    """Show batches of `view`, which stand in the log from `first_offset` on, to the producer state."""
    position, offset = 0, first_offset
    for header in headers:
        if header.producer_id >= 0:
            note_batch(producers, header, view, position, base_offset=offset)
        position += header.size_bytes
        offset += header.last_offset_delta + 1


def note_batch(
    producers: ProducerState, header: BatchHeader, view: Buffer, position: int, *, base_offset: int
) -> None:
    """Show the batch at `position`, which now stands in the log at `base_offset`, to the producer state."""
    if header.is_control:
        marker = read_marker(view, position)
        if marker is not None:
            producers.update_marker(header, marker)
    else:
        producers.update(header, base_offset=base_offset)
