"""Asking a transaction's coordinator whether a partition belongs to it, before anything is written there.

Without this a late write of a producer that is gone could begin a transaction in a partition that nobody will ever
end (KIP-890). Producers of transaction version 2 leave it to the broker to add partitions, older ones add them
first, and the broker only makes sure of it. What was added is not asked for again until the transaction ends.

The coordinator is in this node; with several nodes it is asked over the wire.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from penstock.coordinator.txn.transaction import TopicPartition
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.config.broker import BrokerSettings
    from penstock.coordinator.txn.service import TransactionCoordinator
    from penstock.replication.partition import Partition
    from penstock.storage.transactions.guards import VerificationGuard

Errors = dict[TopicPartition, ErrorCode]
"""Of every partition that was asked about."""


class Permit:
    """A guard for one partition: taken before the coordinator is asked, and anew whenever it is asked again, because
    what ended in between is the transaction that had to be waited for, and not the one that is about to begin."""

    __slots__ = ("_partition", "_take", "guard")

    def __init__(self, partition: Partition, take: Callable[[], VerificationGuard]) -> None:
        self._partition = partition
        self._take = take
        self.guard = take()

    def renew(self) -> None:
        former, self.guard = self.guard, self._take()
        self._partition.give_back(former)

    def give_back(self) -> None:
        self._partition.give_back(self.guard)


class TransactionAdds:
    def __init__(self, transactions: TransactionCoordinator, settings: Callable[[], BrokerSettings]) -> None:
        self._transactions = transactions
        self._settings = settings

    def admit(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        permits: Iterable[Permit] = (),
        *,
        adds: bool,
    ) -> Errors | asyncio.Future[Errors]:
        """Whether each partition may be written to in the producer's transaction; `adds` takes it in. `permits` are
        renewed where the question is put again."""
        if not adds and not self._settings().get("transaction.partition.verification.enable"):
            return dict.fromkeys(partitions, ErrorCode.NONE)
        ask = _Ask(self._transactions, transactional_id, producer_id, producer_epoch, partitions, adds)
        answer = ask()
        if isinstance(answer, dict) and not (adds and ask.must_wait(answer)):
            return answer
        return asyncio.ensure_future(self._persist(ask, answer, permits))

    async def _persist(
        self, ask: _Ask, answer: Errors | asyncio.Future[Errors], permits: Iterable[Permit]
    ) -> Errors:
        """A producer begins its next transaction as soon as the last one is decided, perhaps before it is ended
        everywhere. That takes moments, so it is the broker that tries again, for a while (KIP-890)."""
        loop = asyncio.get_running_loop()
        settings = self._settings()
        give_up_at = loop.time() + settings.get("add.partitions.to.txn.retry.backoff.max.ms") / 1000
        while True:
            errors = answer if isinstance(answer, dict) else await ask.settled(answer)
            if not (ask.adds and ask.must_wait(errors)) or loop.time() >= give_up_at:
                return errors
            await asyncio.sleep(settings.get("add.partitions.to.txn.retry.backoff.ms") / 1000)
            answer = ask(permits)


class _Ask:
    """One question, which may be put again."""

    def __init__(
        self,
        transactions: TransactionCoordinator,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        adds: bool,
    ) -> None:
        self._transactions = transactions
        self._transactional_id = transactional_id
        self._producer_id = producer_id
        self._producer_epoch = producer_epoch
        self._partitions = partitions
        self.adds = adds

    def __call__(self, permits: Iterable[Permit] = ()) -> Errors | asyncio.Future[Errors]:
        try:
            for permit in permits:
                permit.renew()
            return self._transactions.add_partitions(
                self._transactional_id,
                self._producer_id,
                self._producer_epoch,
                self._partitions,
                verify_only=not self.adds,
                is_version_2=self.adds,
            )
        except Refused as refusal:
            return self._all(refusal.error)

    async def settled(self, answer: asyncio.Future[Errors]) -> Errors:
        try:
            return await answer
        except Refused as refusal:
            return self._all(refusal.error)

    def must_wait(self, errors: Errors) -> bool:
        return ErrorCode.CONCURRENT_TRANSACTIONS in errors.values()

    def _all(self, error: ErrorCode) -> Errors:
        return dict.fromkeys(self._partitions, error)
