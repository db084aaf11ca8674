"""What idempotent producers wrote last: enough to answer a repeated batch, to refuse a gap, to fence an old
epoch (KIP-98), and to know which transactions are open.

Per producer the last five batches are kept, as many as a producer may have in flight. `check` decides and
changes nothing, `update` notes what was written; for markers these are `check_marker` and `update_marker`. A
producer that is not known (its records are gone, or it was idle for `producer.id.expiration.ms`) may begin at
any sequence: only it knows where it is. Batches without a producer id never come here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from penstock.records.batch import (
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    SEQUENCE_MAX,
    TRANSACTIONAL_MASK,
    BatchHeader,
)
from penstock.records.control import EPOCH_BUMPS, EndedTransaction, EndTransaction
from penstock.storage.errors import (
    CoordinatorFenced,
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
)
from penstock.storage.transactions.aborted import AbortedEntry
from penstock.storage.transactions.guards import Guards, VerificationGuard
from penstock.storage.transactions.unstable import UnstableTransactions

SLICE_PRODUCERS = 2000  # looked at in one turn of the event loop: about half a millisecond
BATCHES_KEPT = 5  # max.in.flight.requests.per.connection may not be more for an idempotent producer
NO_OFFSET = -1
NO_COORDINATOR_EPOCH = -1
PRODUCER_EPOCH_MAX = 2**15 - 1  # it grows no more: the producer's next transaction has another producer id


class ProducedBatch(NamedTuple):
    """One batch that was written. Its first sequence follows from the last one and the number of records."""

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
        self.transaction_start_offset = NO_OFFSET
        """Where its open transaction began, or -1."""

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def find(self, header: BatchHeader) -> ProducedBatch | None:
        """The batch, if it was written before and is not too long ago."""
        if header.producer_epoch == self.epoch:
            first, last = header.base_sequence, header.last_sequence
            for batch in self.batches:
                if batch.last_sequence == last and batch.first_sequence == first:
                    return batch
        return None


class ProducerState:
    __slots__ = ("_producers", "_recallable", "guards", "transactions")

    def __init__(self, producers: Iterable[Producer] = (), *, high_watermark: int = 0) -> None:
        """`producers` come from a snapshot, which knows only the newest batch of each."""
        self._producers = {producer.producer_id: producer for producer in producers}
        self._recallable = {producer.producer_id for producer in self if producer.batches}
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

    def recallable(self, producer_id: int) -> Producer | None:
        """The producer, if the log may hold batches of it that are not known here."""
        return self._producers.get(producer_id) if producer_id in self._recallable else None

    def recalled(self, producer_id: int) -> None:
        """All that the log holds of the producer is known from now on."""
        self._recallable.discard(producer_id)

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether the producer has begun a transaction here that has not ended.

        One of an older epoch does not count: with a newer one its producer was fenced, and it is about to be aborted.
        """
        producer = self._producers.get(producer_id)
        return (
            producer is not None
            and producer.transaction_start_offset >= 0
            and producer.epoch == producer_epoch
        )

    def guard(
        self, producer_id: int, producer_epoch: int, sequence: int, *, is_version_2: bool, now_ms: int
    ) -> VerificationGuard:
        """The permission to begin a transaction with the batch of `sequence`, if its coordinator agrees."""
        producer = self._producers.get(producer_id)
        if producer is not None:
            _check_epoch(producer_id, producer_epoch, epoch=producer.epoch)
        return self.guards.take(
            producer_id, producer_epoch, sequence, is_version_2=is_version_2, now_ms=now_ms
        )

    def check(
        self, headers: Sequence[BatchHeader], guard: VerificationGuard | None = None
    ) -> ProducedBatch | None:
        """None if `headers` may be appended, the first writing of a batch that is repeated; or it raises.

        `guard` is needed for a batch that begins a transaction.
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
        """Raise if a transactional batch belongs to no transaction that is open here or may begin."""
        if self.has_open_transaction(header.producer_id, header.producer_epoch):
            return  # and a guard that somebody asks for by now means nothing
        if producer is not None:
            if header.base_sequence >= 0 and producer.find(header) is not None:
                return  # a repetition, and it does not matter that its transaction has ended since
            _check_epoch(header.producer_id, header.producer_epoch, epoch=producer.epoch)
        verified = self.guards.check(header, guard)
        if header.base_sequence >= 0:
            verified.check_sequence(header, has_written=producer is not None and bool(producer.batches))

    def _check_several(
        self, headers: Sequence[BatchHeader], guard: VerificationGuard | None
    ) -> ProducedBatch | None:
        """As `check`, where a batch may follow on one that stands before it in the same append."""
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
            self.guards.release(header.producer_id)
            if producer.transaction_start_offset < 0:
                producer.transaction_start_offset = base_offset
                self.transactions.begin(base_offset, header.producer_id)

    def check_marker(self, marker: EndedTransaction) -> None:
        """Raise if the marker is of an older epoch of the producer, or of an older coordinator."""
        producer = self._producers.get(marker.producer_id)
        if producer is None:
            return
        epoch = producer.epoch
        if marker.transaction_version >= EPOCH_BUMPS and producer.transaction_start_offset >= 0:
            # A marker with the epoch of an open transaction is late: it ends the one before. Where none is open,
            # it is the one that is known already, written again by a coordinator that did not hear of it (KAFKA-19999).
            epoch = min(epoch + 1, PRODUCER_EPOCH_MAX)
        _check_epoch(marker.producer_id, marker.producer_epoch, epoch=epoch)
        if marker.coordinator_epoch < producer.coordinator_epoch:
            raise CoordinatorFenced(
                f"coordinator epoch {marker.coordinator_epoch} for producer {marker.producer_id} is older"
                f" than {producer.coordinator_epoch}"
            )

    def update_marker(
        self, header: BatchHeader, marker: EndTransaction, *, base_offset: int
    ) -> AbortedEntry | None:
        """Note that the producer's transaction ended with a marker at `base_offset`; returns it if it was aborted."""
        producer_id = header.producer_id
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = Producer(producer_id)
        if producer.epoch != header.producer_epoch:
            producer.epoch = header.producer_epoch
            producer.batches.clear()
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.last_timestamp_ms = header.max_timestamp
        self.guards.release(producer_id)
        first_offset = producer.transaction_start_offset
        if first_offset < 0:
            return None  # nothing of it was written here, or the marker is written again
        producer.transaction_start_offset = NO_OFFSET
        stable_offset = self.transactions.end(first_offset, marker_offset=base_offset)
        if marker.is_commit:
            return None
        return AbortedEntry(producer_id, first_offset, base_offset, stable_offset)

    def expire(self, now_ms: int, *, expiration_ms: int) -> int:
        """Forget producers that were idle too long, save those with an open transaction; returns how many."""
        return sum(self.expire_in_slices(now_ms, expiration_ms=expiration_ms))

    def expire_in_slices(self, now_ms: int, *, expiration_ms: int) -> Iterator[int]:
        """As `expire`, in slices that each take little time; the log may be written to between two of them."""
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
        return None  # it follows the last one, as nearly all do: bench "one-record latency"
    if first < 0:  # a coordinator's own records carry a producer's id and epoch, but no sequence
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
