"""Sequence numbers, by which a broker detects duplicate and missing batches. No I/O.

A producer has an id and an epoch; each batch has the sequence number of its first record in its partition. A broker
accepts a batch only if its number follows the last one, and answers a number that it has seen as it did then. So a
batch keeps its number through all retries, and at most five are sent from the oldest unanswered one on, because brokers
remember five. When a batch expires that may have been written, or is rejected for good, the numbers after it no longer
fit: the epoch is bumped and the partition counts from zero again.

Invariant: the batches of one partition are numbered in the order of `send`, without gaps, within one id and epoch; a
partition changes to a new one only while none of its batches is in flight.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.protocol.errors import ErrorCode
from penstock.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, PRODUCER_EPOCH_MAX
from penstock.records.producing import ProducerBatch

SEQUENCES = 2**31  # then they wrap to 0
REMEMBERED_BATCHES = 5  # by brokers, for each producer and partition


class ProducerIdAndEpoch(NamedTuple):
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH

    @property
    def is_known(self) -> bool:
        return self.producer_id != NO_PRODUCER_ID


NO_PRODUCER_YET = ProducerIdAndEpoch()


@dataclass(slots=True)
class Numbering:
    """The sequence numbers of one partition."""

    identity: ProducerIdAndEpoch = NO_PRODUCER_YET
    next_sequence: int = 0
    last_acked_sequence: int = NO_SEQUENCE
    last_acked_offset: int = -1
    numbered: list[ProducerBatch] = field(default_factory=list)
    """Batches with a number and without an outcome, in order: in flight, or to be retried."""
    window: list[ProducerBatch] = field(default_factory=list)
    """All batches since the oldest of those, answered or not: what a broker must still remember."""
    is_introduced: bool = False
    """Whether the log knows this producer id. If not, it accepts any first number, so a second batch could be written
    though the first was lost: one batch goes alone until it is answered."""
    is_unresolved: bool = False
    """A batch expired that may have been written: no new one is sent until that is resolved."""
    must_restart: bool = False
    """The numbers no longer fit the broker's; restart under a new epoch when no batch is in flight."""

    @property
    def is_next(self) -> bool:
        """Whether all numbers so far were acknowledged."""
        return self.next_sequence == (self.last_acked_sequence + 1) % SEQUENCES


class Idempotence:
    """The producer id and epoch, and all sequence numbers. `is_transactional` decides how an error can be resolved."""

    def __init__(self, *, is_transactional: bool = False) -> None:
        self.identity = NO_PRODUCER_YET
        self.is_transactional = is_transactional
        self._numberings: dict[tuple[str, int], Numbering] = {}

    def numbering(self, topic: str, partition: int) -> Numbering:
        found = self._numberings.get((topic, partition))
        if found is None:
            found = self._numberings[topic, partition] = Numbering()
        return found

    def take_identity(self, identity: ProducerIdAndEpoch) -> None:
        """The id and epoch from the broker. Partitions take it up when none of their batches is in flight."""
        self.identity = identity

    def may_send(self, numbering: Numbering, batch: ProducerBatch) -> bool:
        """Whether this batch, the first of its partition, may be sent now."""
        if not self.identity.is_known or numbering.must_restart:
            return False
        if batch.base_sequence != NO_SEQUENCE:
            # A retry: one at a time, the oldest first, so that the order is certain.
            return numbering.numbered[0] is batch
        if numbering.is_unresolved or len(numbering.window) >= REMEMBERED_BATCHES:
            return False
        if numbering.numbered and not numbering.is_introduced:
            return False
        return numbering.identity == self.identity or not numbering.numbered

    def number(self, numbering: Numbering, batch: ProducerBatch) -> None:
        """Number a batch that is sent for the first time."""
        if batch.base_sequence != NO_SEQUENCE:
            return
        if numbering.identity != self.identity:
            _restart(numbering, self.identity)
        batch.producer_id, batch.producer_epoch = numbering.identity
        batch.base_sequence = numbering.next_sequence
        numbering.next_sequence = (numbering.next_sequence + batch.record_count) % SEQUENCES
        numbering.numbered.append(batch)
        numbering.window.append(batch)

    def acknowledged(self, numbering: Numbering, batch: ProducerBatch, base_offset: int) -> None:
        numbering.is_introduced = True
        last = (batch.base_sequence + batch.record_count - 1) % SEQUENCES
        if _is_later(last, numbering.last_acked_sequence):
            numbering.last_acked_sequence = last
        if base_offset >= 0:
            last_offset = base_offset + batch.record_count - 1
            numbering.last_acked_offset = max(numbering.last_acked_offset, last_offset)
        _forget(numbering, batch)

    def can_retry(
        self, numbering: Numbering, batch: ProducerBatch, code: ErrorCode, *, log_start_offset: int
    ) -> bool:
        """Whether a rejected batch may be sent again; notes if that needs a new epoch."""
        if code is ErrorCode.UNKNOWN_PRODUCER_ID:
            if log_start_offset < 0:
                return True  # from a new leader that is not up to date yet
            if not self.is_transactional:
                numbering.must_restart = True
                return True
            if numbering.last_acked_offset < log_start_offset:
                # Retention has deleted all records of this producer, and its sequence numbers with them.
                numbering.must_restart = True
                return True
            return False
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            is_first = batch.base_sequence == (numbering.last_acked_sequence + 1) % SEQUENCES
            if not numbering.is_unresolved and not is_first:
                return True  # an earlier one was rejected, and will be retried before this one
            if self.is_transactional:
                return False
            numbering.must_restart = True
            return True
        return code.is_retriable

    def failed(self, numbering: Numbering, batch: ProducerBatch) -> None:
        """The broker rejected the batch for good, so its numbers were never used: later ones do not fit."""
        if batch.base_sequence == NO_SEQUENCE:
            return
        _forget(numbering, batch)
        numbering.must_restart = True

    def given_up(self, numbering: Numbering, batch: ProducerBatch) -> None:
        """It has expired, and may have been written."""
        if batch.base_sequence == NO_SEQUENCE:
            return
        _forget(numbering, batch)
        numbering.is_unresolved = True

    def split(self, numbering: Numbering, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """The parts have the numbers of the whole."""
        if batch.base_sequence == NO_SEQUENCE:
            return
        sequence = batch.base_sequence
        for part in parts:
            part.producer_id, part.producer_epoch = batch.producer_id, batch.producer_epoch
            part.base_sequence = sequence
            sequence = (sequence + part.record_count) % SEQUENCES
        at = numbering.numbered.index(batch)
        numbering.numbered[at : at + 1] = parts
        _trim(numbering)

    def settle(self, numbering: Numbering) -> bool:
        """Call it when no batch of the partition is in flight. True if a new producer id must be requested.

        For a transactional producer the end of the transaction, which must be aborted, restarts the numbers.
        """
        if numbering.is_unresolved and not numbering.numbered:
            numbering.is_unresolved = False
            numbering.must_restart = numbering.must_restart or not numbering.is_next
        if not numbering.must_restart:
            return False
        if not self.is_transactional:
            if self.identity.epoch >= PRODUCER_EPOCH_MAX:
                self.identity = NO_PRODUCER_YET
                return True
            if numbering.identity == self.identity:
                self.identity = ProducerIdAndEpoch(self.identity.producer_id, self.identity.epoch + 1)
        _restart(numbering, self.identity)
        return False

    def restart(self, identity: ProducerIdAndEpoch) -> None:
        """A transaction ended under this id and epoch; if the epoch is new, every partition counts from zero."""
        self.identity = identity
        for numbering in self._numberings.values():
            if numbering.identity != identity or numbering.must_restart or numbering.is_unresolved:
                assert not numbering.numbered, "a transaction ends when no batch is in flight"
                _restart(numbering, identity)


def _restart(numbering: Numbering, identity: ProducerIdAndEpoch) -> None:
    """Count from zero under a new id and epoch; batches to be retried are numbered again, in order."""
    numbering.is_introduced = (
        numbering.is_introduced and numbering.identity.producer_id == identity.producer_id
    )
    numbering.identity = identity
    numbering.last_acked_sequence = NO_SEQUENCE
    numbering.must_restart = numbering.is_unresolved = False
    sequence = 0
    for batch in numbering.numbered:
        batch.producer_id, batch.producer_epoch = identity
        batch.base_sequence = sequence
        sequence = (sequence + batch.record_count) % SEQUENCES
    numbering.next_sequence = sequence
    _trim(numbering)


def _forget(numbering: Numbering, batch: ProducerBatch) -> None:
    if len(numbering.numbered) == 1 and numbering.numbered[0] is batch:
        numbering.numbered.clear()
        numbering.window.clear()
        return
    numbering.numbered = [each for each in numbering.numbered if each is not batch]
    _trim(numbering)


def _trim(numbering: Numbering) -> None:
    """Drop batches before the oldest unanswered one."""
    if not numbering.numbered:
        numbering.window.clear()
    while numbering.window and numbering.window[0] is not numbering.numbered[0]:
        del numbering.window[0]


def _is_later(sequence: int, than: int) -> bool:
    """Sequence numbers wrap; half of them are ahead."""
    return than == NO_SEQUENCE or 0 < (sequence - than) % SEQUENCES < SEQUENCES // 2
