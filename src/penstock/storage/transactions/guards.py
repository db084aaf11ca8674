"""Verification guards: the right to begin a transaction in a partition (KIP-890).

The first batch of a transaction is accepted after the coordinator has confirmed that the transaction is open and
includes the partition. While the coordinator is asked, the transaction may end and its marker be written here. The
batch would then begin a transaction that is never ended, and read_committed consumers would wait forever. So a guard
is taken before asking. A marker invalidates it, as the first batch itself does, and a batch with an invalid guard is
refused.

A guard also keeps the lowest sequence that it was taken for: if a later batch were accepted while an earlier one has
to be retried, that one could never be written. Every producer epoch has its own guard: a client may ask with any
epoch, and must not affect the one that the coordinator knows.
"""

from __future__ import annotations

from penstock.records.batch import BatchHeader
from penstock.storage.errors import InvalidTransactionState, OutOfOrderSequence


class VerificationGuard:
    """Compared by identity: at most one guard of a producer epoch is valid."""

    __slots__ = (
        "created_ms",
        "is_version_2",
        "lowest_sequence",
        "producer_epoch",
        "producer_id",
        "reference_count",
    )

    def __init__(
        self, producer_id: int, producer_epoch: int, sequence: int, *, is_version_2: bool, created_ms: int
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.lowest_sequence = sequence
        self.is_version_2 = is_version_2
        """Whether the producer epoch is bumped with every transaction, so that sequences begin at 0 in each."""
        self.created_ms = created_ms
        self.reference_count = 1
        """How many batches wait with it."""

    def add_reference(self, sequence: int) -> None:
        """Another batch waits with this guard."""
        self.reference_count += 1
        if sequence < self.lowest_sequence:
            self.lowest_sequence = sequence

    def check_sequence(self, header: BatchHeader, *, has_written: bool) -> None:
        """Raise if the batch must not be the first of the transaction.

        `has_written`: batches of the producer epoch are known, so the next sequence is known too.
        """
        sequence = header.base_sequence
        if self.is_version_2 and sequence != 0 and not has_written:
            raise OutOfOrderSequence(
                f"producer {header.producer_id} began a transaction with sequence {sequence}, not 0"
            )
        if sequence > self.lowest_sequence:
            raise OutOfOrderSequence(
                f"producer {header.producer_id} sent sequence {sequence} before {self.lowest_sequence}, which is"
                " being verified"
            )


class Guards:
    """The valid guards of one partition, at most one for each producer epoch."""

    __slots__ = ("_guards",)

    def __init__(self) -> None:
        self._guards: dict[int, dict[int, VerificationGuard]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._guards.values()))

    def get(self, producer_id: int, producer_epoch: int) -> VerificationGuard | None:
        epochs = self._guards.get(producer_id)
        return None if epochs is None else epochs.get(producer_epoch)

    def get_or_create(
        self, producer_id: int, producer_epoch: int, sequence: int, *, is_version_2: bool, now_ms: int
    ) -> VerificationGuard:
        """The valid guard, or a new one."""
        epochs = self._guards.setdefault(producer_id, {})
        guard = epochs.get(producer_epoch)
        if guard is None:
            guard = epochs[producer_epoch] = VerificationGuard(
                producer_id, producer_epoch, sequence, is_version_2=is_version_2, created_ms=now_ms
            )
        else:
            guard.add_reference(sequence)
        return guard

    def check(self, header: BatchHeader, guard: VerificationGuard | None) -> VerificationGuard:
        """The guard that lets the batch begin a transaction; raises if `guard` is not valid."""
        if guard is None or self.get(header.producer_id, header.producer_epoch) is not guard:
            raise InvalidTransactionState(
                f"producer {header.producer_id} has no open transaction that includes this partition"
            )
        return guard

    def release(self, guard: VerificationGuard) -> None:
        """The coordinator does not know the transaction. Keeping the guard would let any client fill memory."""
        guard.reference_count -= 1
        if not guard.reference_count and self.get(guard.producer_id, guard.producer_epoch) is guard:
            self._forget(guard)

    def invalidate(self, producer_id: int) -> None:
        """Invalidate the producer's guards: its transaction has begun here, or ended."""
        self._guards.pop(producer_id, None)

    def expire(self, now_ms: int, *, expiration_ms: int) -> None:
        """Remove those whose batch never came."""
        late = [
            guard
            for epochs in self._guards.values()
            for guard in epochs.values()
            if now_ms - guard.created_ms >= expiration_ms
        ]
        for guard in late:
            self._forget(guard)

    def _forget(self, guard: VerificationGuard) -> None:
        epochs = self._guards[guard.producer_id]
        del epochs[guard.producer_epoch]
        if not epochs:
            del self._guards[guard.producer_id]
