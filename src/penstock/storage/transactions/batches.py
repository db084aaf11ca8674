"""What batches mean to the producer state: data, or the marker with which a coordinator ends a transaction."""

from __future__ import annotations

from penstock.records import kernel
from penstock.records.batch import CONTROL_MASK, BatchHeader
from penstock.records.control import EndTransaction, read_end_transaction
from penstock.records.errors import InvalidBatch
from penstock.runtime.disk import Buffer
from penstock.storage.producer_state import ProducerState
from penstock.storage.transactions.aborted import AbortedEntry


def read_marker(view: Buffer, position: int) -> EndTransaction | None:
    """The marker in the control batch at `position`; None if it holds no end of a transaction.

    Compaction may leave a control batch without its record.
    """
    for record in kernel.iterate_records(view, position):
        try:
            return read_end_transaction(record)
        except InvalidBatch:
            return None  # whatever it is, it ends nothing
    return None


def note_batch(
    producers: ProducerState, header: BatchHeader, view: Buffer, position: int, *, base_offset: int
) -> AbortedEntry | None:
    """Show the batch at `position`, which now stands in the log at `base_offset`, to the producer state.

    Returns the transaction that it aborts, if it does.
    """
    if header.attributes & CONTROL_MASK:
        marker = read_marker(view, position)
        if marker is not None:
            return producers.update_marker(header, marker, base_offset=base_offset)
    else:
        producers.update(header, base_offset=base_offset)
    return None
