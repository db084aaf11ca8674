"""Checks batches that were copied from another log, and splits them into parts that each fit a segment."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.records import kernel
from penstock.records.batch import BatchHeader
from penstock.records.errors import CorruptBatch
from penstock.storage.epochs import LeaderEpochs
from penstock.storage.errors import StartsInsideBatch, UnexpectedOffset
from penstock.storage.producer_state import ProducerState
from penstock.storage.segment import Segment

LEADER_EPOCH_MAX = 2**31 - 1


def check_copied(
    batches: memoryview, *, end_offset: int, leader_epoch_max: int, base_offset_min: int
) -> tuple[memoryview, list[BatchHeader]]:
    """The whole batches and their headers. An incomplete batch at the end is ignored, and so is a batch of an epoch
    above `leader_epoch_max` with all after it: the present leader of the follower did not write it.

    Offsets may have gaps after compaction, but never go back, neither below `end_offset` nor from batch to batch. Only
    a first batch that holds `end_offset` may begin before it, but not before `base_offset_min`.
    """
    try:
        headers = kernel.check_batches(batches)
    except CorruptBatch:
        # Damaged, or cut at the end, which a leader may do when it fills a response.
        whole_bytes = sum([header.size_bytes for header in kernel.read_headers(batches)])
        if whole_bytes == len(batches):
            raise
        batches = batches[:whole_bytes]
        headers = kernel.check_batches(batches)
    for count, header in enumerate(headers):
        base_offset, next_offset = header.base_offset, header.base_offset + header.last_offset_delta + 1
        if base_offset < end_offset:
            message = f"the log ends at {end_offset}; a batch with offset {base_offset} cannot follow"
            if count > 0 or next_offset <= end_offset:
                raise UnexpectedOffset(message)
            if base_offset < base_offset_min:
                raise StartsInsideBatch(message, base_offset)
        end_offset = next_offset
        if header.leader_epoch > leader_epoch_max:
            headers = headers[:count]
            return batches[: sum([kept.size_bytes for kept in headers])], headers
    return batches, headers


def split_batches(
    batches: memoryview, headers: list[BatchHeader], *, part_bytes_max: int
) -> Iterator[tuple[memoryview, list[BatchHeader]]]:
    """Parts of `part_bytes_max` or of one batch."""
    if len(batches) <= part_bytes_max:
        if headers:
            yield batches, headers
        return
    part: list[BatchHeader] = []
    start = position = 0
    for header in headers:
        if part and position + header.size_bytes - start > part_bytes_max:
            yield batches[start:position], part
            start, part = position, []
        part.append(header)
        position += header.size_bytes
    yield batches[start:position], part


def note_copied(
    batches: memoryview,
    headers: list[BatchHeader],
    epochs: LeaderEpochs,
    producers: ProducerState,
    segment: Segment,
) -> None:
    """Note the epochs, producers and aborted transactions of batches that were just written to `segment`."""
    position = 0
    for header in headers:
        if header.leader_epoch > epochs.latest:
            epochs.assign(header.leader_epoch, header.base_offset)
        if header.producer_id >= 0:
            aborted = producers.replay(header, batches, position)
            if aborted is not None:
                segment.add_aborted(aborted)
        position += header.size_bytes
