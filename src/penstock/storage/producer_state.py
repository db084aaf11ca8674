"""Producer state of a log: the last batches of each idempotent producer, and its open transaction (KIP-98).

It detects duplicates and sequence gaps, and fences old producer epochs. It keeps the last five batches of a producer,
as many as may be in flight. `check` decides and changes nothing, `update` notes what was written; for markers these
are `check_marker` and `update_marker`. An unknown producer (its records were deleted, or it was idle for
`producer.id.expiration.ms`) may begin at any sequence. Batches without a producer id never come here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from penstock.protocol.constants import UNKNOWN_OFFSET
from penstock.records.batch import (
    CONTROL_MASK,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    PRODUCER_EPOCH_MAX,
    SEQUENCE_MAX,
    TRANSACTIONAL_MASK,
    BatchHeader,
    Buffer,
)
from penstock.records.control import EPOCH_BUMPS, EndTransactionMarker, TxnMarkerEntry, read_marker
from penstock.storage.errors import (
    CoordinatorFenced,
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
)
from penstock.storage.transactions.aborted import AbortedTxn
from penstock.storage.transactions.guards import Guards, VerificationGuard
from penstock.storage.transactions.unstable import UnstableTransactions

SLICE_PRODUCERS = 2000  # per turn of the event loop: about half a millisecond
BATCHES_KEPT = 5  # max.in.flight.requests.per.connection may not be more for an idempotent producer
NO_COORDINATOR_EPOCH = -1


class ProducedBatch(NamedTuple):
    """One written batch. Its first sequence follows from the last one and the number of records."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        if self.last_sequence < 0:
            return NO_SEQUENCE
        return (self.last_sequence - self.offset_delta) & SEQUENCE_MAX


class Producer:
    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp_ms",
        "producer_id",
        "transaction_start_offset",
    )

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.epoch = NO_PRODUCER_EPOCH
        self.batches: list[ProducedBatch] = []
        """Newest last, all of `epoch`."""
        self.last_timestamp_ms = NO_TIMESTAMP
        self.coordinator_epoch = NO_COORDINATOR_EPOCH
        self.transaction_start_offset = UNKNOWN_OFFSET
        """Where its open transaction began, or -1."""

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def find(self, header: BatchHeader) -> ProducedBatch | None:
        """The original, if the batch is a duplicate of one that is still known."""
        if header.producer_epoch == self.epoch:
            first, last = header.base_sequence, header.last_sequence
            for batch in self.batches:
                if batch.last_sequence == last and batch.first_sequence == first:
                    return batch
        return None


class ProducerState:
    __slots__ = ("_producers", "_restorable", "guards", "transactions")

    def __init__(self, producers: Iterable[Producer] = (), *, high_watermark: int = 0) -> None:
        """`producers` come from a snapshot, which has only the newest batch of each."""
        self._producers = {producer.producer_id: producer for producer in producers}
        self._restorable = {producer.producer_id for producer in self if producer.batches}
        self.guards = Guards()
        self.transactions = UnstableTransactions(
            [(p.transaction_start_offset, p.producer_id) for p in self if p.transaction_start_offset >= 0],
            high_watermark=high_watermark,
        )

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[Producer]:
        return iter(self._producers.values())

    def get(self, producer_id: int) -> Producer | None:
        return self._producers.get(producer_id)

    def restorable(self, producer_id: int) -> Producer | None:
        """The producer, if the log may hold batches of it that the snapshot did not have."""
        return self._producers.get(producer_id) if producer_id in self._restorable else None

    def restored(self, producer_id: int) -> None:
        """The producer's batches in the log are all known now."""
        self._restorable.discard(producer_id)

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether the producer has an open transaction here.

        One of an older epoch does not count: the newer epoch fenced its producer, and it is about to be aborted.
        """
        producer = self._producers.get(producer_id)
        return (
            producer is not None
            and producer.transaction_start_offset >= 0
            and producer.epoch == producer_epoch
        )

    def start_verification(
        self, producer_id: int, producer_epoch: int, sequence: int, *, is_version_2: bool, now_ms: int
    ) -> VerificationGuard:
        """The guard for the batch of `sequence` to begin a transaction, if its coordinator agrees."""
        producer = self._producers.get(producer_id)
        if producer is not None:
            _check_epoch(producer_id, producer_epoch, epoch=producer.epoch)
        return self.guards.get_or_create(
            producer_id, producer_epoch, sequence, is_version_2=is_version_2, now_ms=now_ms
        )

    def check(
        self, headers: Sequence[BatchHeader], guard: VerificationGuard | None = None
    ) -> ProducedBatch | None:
        """None if `headers` may be appended; the original, if they are duplicates; or raises.

        A batch that begins a transaction needs `guard`.
        """
        if len(headers) > 1:
            return self._check_several(headers, guard)
        header = headers[0]
        producer = self._producers.get(header.producer_id)
        if header.attributes & TRANSACTIONAL_MASK:
            self._check_transaction(header, producer, guard)
        if producer is None:
            return None
        return _check(header, producer, epoch=producer.epoch, last_sequence=producer.last_sequence)

    def _check_transaction(
        self, header: BatchHeader, producer: Producer | None, guard: VerificationGuard | None
    ) -> None:
        """Raise unless the batch belongs to an open transaction, or may begin one."""
        if self.has_open_transaction(header.producer_id, header.producer_epoch):
            return  # it needs no guard
        if producer is not None:
            if header.base_sequence >= 0 and producer.find(header) is not None:
                return  # a duplicate, whether or not its transaction has ended since
            _check_epoch(header.producer_id, header.producer_epoch, epoch=producer.epoch)
        verified = self.guards.check(header, guard)
        if header.base_sequence >= 0:
            verified.check_sequence(header, has_written=producer is not None and bool(producer.batches))

    def _check_several(
        self, headers: Sequence[BatchHeader], guard: VerificationGuard | None
    ) -> ProducedBatch | None:
        """As `check`, where a batch may follow another of the same append."""
        passed: dict[int, tuple[int, int]] = {}
        for header in headers:
            producer = self._producers.get(header.producer_id)
            if header.producer_id < 0:
                continue
            if header.attributes & TRANSACTIONAL_MASK and header.producer_id not in passed:
                self._check_transaction(header, producer, guard)
            if header.producer_id in passed or producer is not None:
                known = producer or Producer(header.producer_id)
                epoch, last_sequence = passed.get(header.producer_id, (known.epoch, known.last_sequence))
                duplicate = _check(header, known, epoch=epoch, last_sequence=last_sequence)
                if duplicate is not None:
                    return duplicate
            passed[header.producer_id] = (header.producer_epoch, header.last_sequence)
        return None

    def update(self, header: BatchHeader, *, base_offset: int) -> None:
        """Note a data batch that was written at `base_offset`."""
        producer = self._producers.get(header.producer_id)
        if producer is None:
            producer = self._producers[header.producer_id] = Producer(header.producer_id)
        if producer.epoch != header.producer_epoch:
            producer.epoch = header.producer_epoch
            producer.batches.clear()
        delta = header.last_offset_delta
        batches = producer.batches
        if len(batches) == BATCHES_KEPT:
            del batches[0]
        batches.append(ProducedBatch(header.last_sequence, base_offset + delta, delta, header.max_timestamp))
        producer.last_timestamp_ms = header.max_timestamp
        if header.attributes & TRANSACTIONAL_MASK:
            self.guards.invalidate(header.producer_id)
            if producer.transaction_start_offset < 0:
                producer.transaction_start_offset = base_offset
                self.transactions.begin(base_offset, header.producer_id)

    def check_marker(self, marker: TxnMarkerEntry) -> None:
        """Raise if the marker is of an older epoch of the producer, or of an older coordinator."""
        producer = self._producers.get(marker.producer_id)
        if producer is None:
            return
        epoch = producer.epoch
        if marker.transaction_version >= EPOCH_BUMPS and producer.transaction_start_offset >= 0:
            # A marker with the epoch of the open transaction is late: it ends the one before. If no transaction is
            # open, it is a marker written again by a coordinator that did not get the response (KAFKA-19999).
            epoch = min(epoch + 1, PRODUCER_EPOCH_MAX)
        _check_epoch(marker.producer_id, marker.producer_epoch, epoch=epoch)
        if marker.coordinator_epoch < producer.coordinator_epoch:
            raise CoordinatorFenced(
                f"coordinator epoch {marker.coordinator_epoch} for producer {marker.producer_id} is older"
                f" than {producer.coordinator_epoch}"
            )

    def update_marker(
        self, header: BatchHeader, marker: EndTransactionMarker, *, base_offset: int
    ) -> AbortedTxn | None:
        """Note a marker that was written at `base_offset`; returns the transaction if it was aborted."""
        producer_id = header.producer_id
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = Producer(producer_id)
        if producer.epoch != header.producer_epoch:
            producer.epoch = header.producer_epoch
            producer.batches.clear()
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.last_timestamp_ms = header.max_timestamp
        self.guards.invalidate(producer_id)
        first_offset = producer.transaction_start_offset
        if first_offset < 0:
            return None  # the transaction has no records here, or the marker is written again
        producer.transaction_start_offset = UNKNOWN_OFFSET
        stable_offset = self.transactions.end(first_offset, marker_offset=base_offset)
        if marker.is_commit:
            return None
        return AbortedTxn(producer_id, first_offset, base_offset, stable_offset)

    def replay(self, header: BatchHeader, view: Buffer, position: int) -> AbortedTxn | None:
        """Note a batch of the log, which is at `position` of `view`; returns the transaction that it aborts, if any."""
        if header.attributes & CONTROL_MASK:
            marker = read_marker(view, position)
            if marker is not None:
                return self.update_marker(header, marker, base_offset=header.base_offset)
        else:
            self.update(header, base_offset=header.base_offset)
        return None

    def expire(self, now_ms: int, *, expiration_ms: int) -> int:
        """Remove producers that were idle too long and have no open transaction; returns how many."""
        return sum(self.expire_in_slices(now_ms, expiration_ms=expiration_ms))

    def expire_in_slices(self, now_ms: int, *, expiration_ms: int) -> Iterator[int]:
        """As `expire`, in short slices; the log may be written to between two of them."""
        self.guards.expire(now_ms, expiration_ms=expiration_ms)
        producer_ids = list(self._producers)
        for start in range(0, len(producer_ids), SLICE_PRODUCERS):
            expired_count = 0
            for producer_id in producer_ids[start : start + SLICE_PRODUCERS]:
                producer = self._producers.get(producer_id)
                if (
                    producer is not None
                    and producer.transaction_start_offset < 0
                    and now_ms - producer.last_timestamp_ms >= expiration_ms
                ):
                    del self._producers[producer_id]
                    expired_count += 1
            yield expired_count


def _check(
    header: BatchHeader, producer: Producer, *, epoch: int, last_sequence: int
) -> ProducedBatch | None:
    """`epoch` and `last_sequence`: the producer's, or those of a batch before it in the same append."""
    first = header.base_sequence
    if (
        header.producer_epoch == epoch
        and first == (last_sequence + 1) & SEQUENCE_MAX
        and last_sequence >= 0
        and producer.transaction_start_offset < 0
    ):
        return None  # the common case first: bench "one-record latency"
    if (
        first < 0
    ):  # the coordinator writes transactional offsets with a producer id and epoch, but no sequence
        _check_epoch(header.producer_id, header.producer_epoch, epoch=epoch)
        return None
    repeated = producer.find(header)
    if repeated is not None:
        return repeated
    _check_epoch(header.producer_id, header.producer_epoch, epoch=epoch)
    if header.producer_epoch != epoch:
        if first != 0 and epoch != NO_PRODUCER_EPOCH:
            raise OutOfOrderSequence(
                f"producer id {header.producer_id} began epoch {header.producer_epoch} with sequence {first}, not 0"
            )
    elif first != (last_sequence + 1) & SEQUENCE_MAX:
        raise OutOfOrderSequence(
            f"producer id {header.producer_id} sent sequence {first}, but"
            f" {(last_sequence + 1) & SEQUENCE_MAX} was expected"
        )
    if producer.transaction_start_offset >= 0 and not header.is_transactional:
        raise InvalidTransactionState(
            f"producer id {header.producer_id} wrote outside its transaction, which is open since offset"
            f" {producer.transaction_start_offset}"
        )
    return None


def _check_epoch(producer_id: int, producer_epoch: int, *, epoch: int) -> None:
    if producer_epoch < epoch:
        raise InvalidProducerEpoch(
            f"producer id {producer_id} has epoch {producer_epoch}, older than the last seen epoch {epoch}"
        )
