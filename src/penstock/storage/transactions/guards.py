"""The permission to begin a transaction in a partition (KIP-890).

A producer's first batch of a transaction is let in after the coordinator has said that the transaction is open
and holds the partition. While it is asked, the transaction may end and its marker be written here. A batch that
came after it would belong to no transaction that anybody will ever end, and readers of committed data would wait
for good. So a guard is taken before asking. A marker takes it out of force, as the first batch itself does, and a
batch with a guard that is not in force is refused.

A guard also remembers the lowest sequence that it was taken for: were a later batch let in where an earlier one
has to be tried again, that one could never be written. Every epoch of a producer has a guard of its own: anybody can
ask in the name of any epoch, and must not get in the way of the one that the coordinator knows.
"""

from __future__ import annotations

from penstock.records.batch import BatchHeader
from penstock.storage.errors import InvalidTransactionState, OutOfOrderSequence


class VerificationGuard:
    """Compared by identity: of two guards for one epoch of a producer, one at most is in force."""

    __slots__ = (
        "asked_count",
        "created_ms",
        "is_version_2",
        "lowest_sequence",
        "producer_epoch",
        "producer_id",
    )

    def __init__(
        self, producer_id: int, producer_epoch: int, sequence: int, *, is_version_2: bool, created_ms: int
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.lowest_sequence = sequence
        self.is_version_2 = is_version_2
        """Whether the producer's epoch grows with every transaction, so that its sequences begin at 0 in each."""
        self.created_ms = created_ms
        self.asked_count = 1
        """How many asked for it and did not give it back."""

    def ask_for(self, sequence: int) -> None:
        """Another batch waits for the same permission."""
        self.asked_count += 1
        if sequence < self.lowest_sequence:
            self.lowest_sequence = sequence

    def check_sequence(self, header: BatchHeader, *, has_written: bool) -> None:
        """Raise if the batch must not be its producer's first in the transaction.

        `has_written`: batches of the producer's epoch are known, so it is they that tell which sequence is next.
        """
        sequence = header.base_sequence
        if self.is_version_2 and sequence != 0 and not has_written:
            raise OutOfOrderSequence(
                f"producer {header.producer_id} begins a transaction with sequence {sequence} and not 0"
            )
        if sequence > self.lowest_sequence:
            raise OutOfOrderSequence(
                f"producer {header.producer_id} sent sequence {sequence} before {self.lowest_sequence}, which is"
                " being verified"
            )


class Guards:
    """The guards in force in one partition, at most one for each epoch of a producer."""

    __slots__ = ("_guards",)

    def __init__(self) -> None:
        self._guards: dict[int, dict[int, VerificationGuard]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._guards.values()))

    def get(self, producer_id: int, producer_epoch: int) -> VerificationGuard | None:
        epochs = self._guards.get(producer_id)
        return None if epochs is None else epochs.get(producer_epoch)

    def take(
        self, producer_id: int, producer_epoch: int, sequence: int, *, is_version_2: bool, now_ms: int
    ) -> VerificationGuard:
        """The guard in force, or a new one."""
        epochs = self._guards.setdefault(producer_id, {})
        guard = epochs.get(producer_epoch)
        if guard is None:
            guard = epochs[producer_epoch] = VerificationGuard(
                producer_id, producer_epoch, sequence, is_version_2=is_version_2, created_ms=now_ms
            )
        else:
            guard.ask_for(sequence)
        return guard

    def check(self, header: BatchHeader, guard: VerificationGuard | None) -> VerificationGuard:
        """The guard that lets the batch begin a transaction; raises where `guard` does not."""
        if guard is None or self.get(header.producer_id, header.producer_epoch) is not guard:
            raise InvalidTransactionState(
                f"producer {header.producer_id} has no open transaction that holds this partition"
            )
        return guard

    def give_back(self, guard: VerificationGuard) -> None:
        """The coordinator knows no such transaction. Were the guard kept, strangers could fill memory with them."""
        guard.asked_count -= 1
        if not guard.asked_count and self.get(guard.producer_id, guard.producer_epoch) is guard:
            self._forget(guard)

    def release(self, producer_id: int) -> None:
        """Take the producer's guards out of force: its transaction has begun here, or ended."""
        self._guards.pop(producer_id, None)

    def expire(self, now_ms: int, *, expiration_ms: int) -> None:
        """Forget those for which no batch ever came."""
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
