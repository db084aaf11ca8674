"""Finds batches of a producer in the log that its snapshot does not have.

A producer may have five batches in flight and sends all of them again if the node fails before it answers. A snapshot,
in Kafka's format, has only the newest of them. The others would be refused as out of order, and the producer would
have to start again and write some records twice. They are near the end of the log, so they are searched for when a
producer from a snapshot first seems to be out of order. A start reads nothing for this.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.records.batch import SEQUENCE_MAX, BatchHeader
from penstock.storage import scan
from penstock.storage.producer_state import BATCHES_KEPT, ProducedBatch, Producer, ProducerState
from penstock.storage.segments import Segments

# May include batches of other producers. Their headers are read on the event loop, once they are in memory.
SEARCH_BYTES_MAX = 4 << 20


def restore_batches(producers: ProducerState, headers: Sequence[BatchHeader], segments: Segments) -> bool:
    """Restore older batches of the producers of `headers`; whether that may help."""
    is_helpful = False
    for header in headers:
        producer = producers.restorable(header.producer_id)
        if producer is not None and producer.batches:
            _restore(producer, segments)  # may raise ColdPages, and is repeated then
            is_helpful = True
        producers.restored(header.producer_id)
    return is_helpful


def _restore(producer: Producer, segments: Segments) -> None:
    missing = BATCHES_KEPT - len(producer.batches)
    if missing <= 0:
        return
    found: list[ProducedBatch] = []
    end_offset = producer.batches[0].first_offset
    budget = SEARCH_BYTES_MAX
    while len(found) < missing and budget > 0 and end_offset > segments[0].base_offset:
        segment = segments[segments.slot_of(end_offset - 1)]
        end = segment.position_of(end_offset)
        start = segment.lookup().position_before(max(0, end - budget))
        batches = scan.headers(
            segment.reader(), position=start, end=end, chunk_bytes=min(end - start, scan.REPLAY_CHUNK_BYTES)
        )
        found[:0] = [
            ProducedBatch(
                header.last_sequence, header.last_offset, header.last_offset_delta, header.max_timestamp
            )
            for _, header in batches
            if header.producer_id == producer.producer_id
            and header.producer_epoch == producer.epoch
            and not header.is_control
        ]
        budget -= end - start
        end_offset = segment.base_offset if start == 0 else segments[0].base_offset
    for batch in reversed(found[-missing:]):
        if (batch.last_sequence + 1) & SEQUENCE_MAX != producer.batches[0].first_sequence:
            break  # of the time before the producer expired and started again
        producer.batches.insert(0, batch)
