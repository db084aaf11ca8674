"""Batches that are copied from another log: checked once more, and parted so that each part fits a segment."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.records import kernel
from penstock.records.batch import BatchHeader
from penstock.storage.errors import UnexpectedOffset


def copied_parts(
    batches: memoryview, *, end_offset: int, part_bytes_max: int
) -> Iterator[tuple[memoryview, list[BatchHeader]]]:
    """Whole batches and their headers, in parts of `part_bytes_max` or one batch; half a batch at the end is
    left.

    Offsets may have gaps, as compaction leaves them, but never go back: not before `end_offset`, nor one
    before another.
    """
    headers: list[BatchHeader] = []
    start = position = 0
    for believed in kernel.read_headers(batches):
        if headers and position + believed.size_bytes - start > part_bytes_max:
            yield batches[start:position], headers
            start, headers = position, []
        header = kernel.check_batch(batches, position)
        if header.base_offset < end_offset:
            raise UnexpectedOffset(
                f"the log ends at {end_offset}; a batch with offset {header.base_offset} can not follow"
            )
        headers.append(header)
        position += header.size_bytes
        end_offset = header.next_offset
    if headers:
        yield batches[start:position], headers
