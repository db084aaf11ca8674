"""Rebuilds the producer state at an offset from a snapshot and the log.

Blocking: run it in a worker. After a truncation it reads what was written since the last snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from penstock.records.batch import BatchHeader
from penstock.storage import scan
from penstock.storage.producer_state import ProducerState
from penstock.storage.segment import Segment
from penstock.storage.snapshots import SnapshotFiles


def rebuild_producers(
    snapshots: SnapshotFiles,
    segments: Iterable[Segment],
    *,
    end_offset: int,
    high_watermark: int,
    is_trusted: bool = False,
) -> ProducerState:
    """The producer state at `end_offset`: the newest snapshot below it, and every batch since. Without a snapshot it
    is every batch on disk, also before the log start offset.

    With `is_trusted`, a log that was closed cleanly and has no snapshot is taken to have no producers, and is not
    read.

    A snapshot does not contain transactions whose markers are before it but not committed yet. If there are such
    markers, the newest snapshot below `high_watermark` is used, so that they are seen.
    """
    held = [segment for segment in segments if segment.size > 0]
    found = snapshots.load(end_offset=end_offset)
    if found is not None and found[0] > high_watermark:
        undecided = _batches(held, start_offset=high_watermark, end_offset=found[0])
        if any(header.is_control for _, _, header in undecided):
            found, is_trusted = snapshots.load(end_offset=high_watermark), False
    if found is None and is_trusted:
        return ProducerState()
    offset, producers = found if found is not None else (0, [])
    state = ProducerState(producers, high_watermark=high_watermark)
    for segment, position, header in _batches(held, start_offset=offset, end_offset=end_offset):
        if header.producer_id >= 0:
            batch = b""
            if header.is_control:
                batch = segment.file().read(position=position, size=header.size_bytes)
            state.replay(header, batch, 0)
    return state


def _batches(
    segments: Sequence[Segment], *, start_offset: int, end_offset: int
) -> Iterator[tuple[Segment, int, BatchHeader]]:
    """Every batch from the one that holds `start_offset` to the one before `end_offset`, with its segment and
    position."""
    for slot, segment in enumerate(segments):
        segment_end_offset = segments[slot + 1].base_offset if slot + 1 < len(segments) else end_offset
        if segment_end_offset <= start_offset:
            continue
        for position, header in scan.headers(
            segment.file(),
            position=segment.position_of(start_offset),
            end=segment.size,
            chunk_bytes=scan.REPLAY_CHUNK_BYTES,
        ):
            if header.base_offset >= end_offset:
                return
            yield segment, position, header
