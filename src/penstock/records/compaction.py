"""What the log cleaner needs of the kernel; `_compaction.pyx` has the documentation."""

from __future__ import annotations

from penstock.records.errors import KernelMissing

try:
    from penstock.records._compaction import (
        SLOT_BYTES,
        BatchFilter,
        Decision,
        OffsetMap,
        Progress,
        add_batches,
    )
except ImportError as error:
    raise KernelMissing(error) from error

__all__ = ["SLOT_BYTES", "BatchFilter", "Decision", "OffsetMap", "Progress", "add_batches"]
