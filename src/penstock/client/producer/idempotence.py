"""Numbers that let a broker tell a repeated batch from a new one, and a gap from an order. No I/O.

A producer has an id and an epoch; each of its batches to a partition has the number of its first record. A broker takes
a batch only where its number follows the last one, and answers a number that it has seen with what it answered then.
So a batch keeps its number through all retries, and no more than five are sent from the oldest unanswered one on,
because brokers remember five. When a batch is given up though it may have been written, or was refused for good, the
numbers behind it no longer fit: the epoch is raised and the partition counts from zero again.

Invariant: batches of one partition are numbered in the order of `send`, without gaps, within one identity; a partition
changes its identity only while none of its batches is under way.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.protocol.errors import ErrorCode
from penstock.records.producing import ProducerBatch

NO_ID = -1
NO_EPOCH = -1
NO_SEQUENCE = -1
EPOCH_MAX = 2**15 - 1
SEQUENCES = 2**31  # after the last comes 0
REMEMBERED_BATCHES = 5  # by brokers, for each producer and partition


class Identity(NamedTuple):
    producer_id: int = NO_ID
    epoch: int = NO_EPOCH

    @property
    def is_known(self) -> bool:
        return self.producer_id != NO_ID


NOBODY = Identity()


@dataclass(slots=True)
class Numbering:
    """The numbers of one partition."""

    identity: Identity = NOBODY
    next_sequence: int = 0
    last_acked_sequence: int = NO_SEQUENCE
    last_acked_offset: int = -1
    numbered: list[ProducerBatch] = field(default_factory=list)
    """Batches that have a number and no outcome, in order: under way, or waiting to be sent again."""
    window: list[ProducerBatch] = field(default_factory=list)
    """All batches since the oldest of those, answered or not: what a broker must still remember."""
    is_introduced: bool = False
    """The log knows this producer id. To one that does not any number is the first, so that a second batch could be
    taken though the first was lost: one goes alone until it is answered."""
    is_unresolved: bool = False
    """A batch was given up that may have been written: no new one is sent until that is settled."""
    must_restart: bool = False
    """Numbers no longer fit what the broker has; count anew under a new epoch when nothing is under way."""

    @property
    def is_next(self) -> bool:
        """Whether all numbers that were given out were acknowledged."""
        return self.next_sequence == (self.last_acked_sequence + 1) % SEQUENCES


class Idempotence:
    """The identity of a producer and what follows from it. `is_transactional` decides what an error can be cured by."""

    def __init__(self, *, is_transactional: bool = False) -> None:
        self.identity = NOBODY
        self.is_transactional = is_transactional
        self._numberings: dict[tuple[str, int], Numbering] = {}

    def numbering(self, topic: str, partition: int) -> Numbering:
        found = self._numberings.get((topic, partition))
        if found is None:
            found = self._numberings[topic, partition] = Numbering()
        return found

    def take_identity(self, identity: Identity) -> None:
        """What the broker gave. Partitions take it up as they come to rest."""
        self.identity = identity

    def may_send(self, numbering: Numbering, batch: ProducerBatch) -> bool:
        """Whether this batch, the first that waits for its partition, may go now."""
        if not self.identity.is_known or numbering.must_restart:
            return False
        if batch.base_sequence != NO_SEQUENCE:
            # It is a repetition: one at a time, the oldest first, so that order does not depend on luck.
            return numbering.numbered[0] is batch
        if numbering.is_unresolved or len(numbering.window) >= REMEMBERED_BATCHES:
            return False
        if numbering.numbered and not numbering.is_introduced:
            return False
        return numbering.identity == self.identity or not numbering.numbered

    def number(self, numbering: Numbering, batch: ProducerBatch) -> None:
        """Give a batch that goes out for the first time its number."""
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
        """Whether a batch that was refused may be sent again; notes where only a new epoch makes that possible."""
        if code is ErrorCode.UNKNOWN_PRODUCER_ID:
            if log_start_offset < 0:
                return True  # from a broker that was just made leader and does not know better yet
            if not self.is_transactional:
                numbering.must_restart = True
                return True
            if numbering.last_acked_offset < log_start_offset:
                # All that this producer wrote was deleted by retention, and its numbers with it.
                numbering.must_restart = True
                return True
            return False
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            is_first = batch.base_sequence == (numbering.last_acked_sequence + 1) % SEQUENCES
            if not numbering.is_unresolved and not is_first:
                return True  # one before it was refused, and will be sent again before this one
            if self.is_transactional:
                return False
            numbering.must_restart = True
            return True
        return code.is_retriable

    def failed(self, numbering: Numbering, batch: ProducerBatch) -> None:
        """The broker refused the batch for good, so its numbers were never used: what follows does not fit."""
        if batch.base_sequence == NO_SEQUENCE:
            return
        _forget(numbering, batch)
        numbering.must_restart = True

    def given_up(self, numbering: Numbering, batch: ProducerBatch) -> None:
        """Its time is over, and whether it was written is not known."""
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
        """Call when nothing of the partition is under way. True where a new identity has to be asked for.

        For a transactional producer numbers are begun anew by the end of the transaction, which then has to be aborted.
        """
        if numbering.is_unresolved and not numbering.numbered:
            numbering.is_unresolved = False
            numbering.must_restart = numbering.must_restart or not numbering.is_next
        if not numbering.must_restart:
            return False
        if not self.is_transactional:
            if self.identity.epoch >= EPOCH_MAX:
                self.identity = NOBODY
                return True
            if numbering.identity == self.identity:
                self.identity = Identity(self.identity.producer_id, self.identity.epoch + 1)
        _restart(numbering, self.identity)
        return False

    def begin_anew(self, identity: Identity) -> None:
        """A transaction ended under this identity; every partition counts from zero where the epoch is new."""
        self.identity = identity
        for numbering in self._numberings.values():
            if numbering.identity != identity or numbering.must_restart or numbering.is_unresolved:
                assert not numbering.numbered, "a transaction ends when nothing is under way"
                _restart(numbering, identity)


def _restart(numbering: Numbering, identity: Identity) -> None:
    """Count from zero under a new identity; batches that wait to be sent again are numbered anew, in order."""
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
    """Let go of what lies before the oldest batch without an answer."""
    if not numbering.numbered:
        numbering.window.clear()
    while numbering.window and numbering.window[0] is not numbering.numbered[0]:
        del numbering.window[0]


def _is_later(sequence: int, than: int) -> bool:
    """Numbers go round; half of them are ahead."""
    return than == NO_SEQUENCE or 0 < (sequence - than) % SEQUENCES < SEQUENCES // 2
