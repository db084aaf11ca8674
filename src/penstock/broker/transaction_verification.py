"""Verifies with the transaction coordinator that a partition belongs to a transaction, before the first write to it.

Without this, a late write of a dead producer could start a transaction in a partition that is never ended (KIP-890).
With transaction version 2, the broker adds the partition to the transaction; older producers add it themselves, and the
broker only verifies it. A partition is verified once per transaction.

The coordinator is the leader of the transactional id's partition of `__transaction_state`. If that is another broker,
it is asked with AddPartitionsToTxn (`remote_verification`); here it is a call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from penstock.coordinator.txn.transaction import TopicPartition
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.replication.transactions import release_guard

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.broker.remote_verification import RemoteCoordinators
    from penstock.config.broker import BrokerSettings
    from penstock.coordinator.txn.service import TransactionCoordinator
    from penstock.replication.partition import Partition
    from penstock.storage.transactions.guards import VerificationGuard

Errors = dict[TopicPartition, ErrorCode]
"""The error of each partition."""


class PartitionGuard:
    """The verification guard of one partition. It is created before the coordinator is asked, and renewed before each
    retry: a transaction that ends in between is the previous one, which had to be waited for, not the new one."""

    __slots__ = ("_partition", "_take", "guard")

    def __init__(self, partition: Partition, take: Callable[[], VerificationGuard]) -> None:
        self._partition = partition
        self._take = take
        self.guard = take()

    def renew(self) -> None:
        previous, self.guard = self.guard, self._take()
        release_guard(self._partition, previous)

    def release(self) -> None:
        release_guard(self._partition, self.guard)


class TransactionVerifier:
    def __init__(
        self,
        transactions: TransactionCoordinator,
        settings: Callable[[], BrokerSettings],
        remote: RemoteCoordinators | None = None,
    ) -> None:
        """Without `remote`, this node is the coordinator of every transaction."""
        self._transactions = transactions
        self._settings = settings
        self._remote = remote

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        guards: Iterable[PartitionGuard] = (),
        *,
        adds: bool,
    ) -> Errors | asyncio.Future[Errors]:
        """Verify that each partition belongs to the producer's transaction; with `adds`, add it. `guards` are renewed
        before each retry."""
        if not adds and not self._settings().get("transaction.partition.verification.enable"):
            return dict.fromkeys(partitions, ErrorCode.NONE)
        call = _Call(
            self._transactions, self._remote, transactional_id, producer_id, producer_epoch, partitions, adds
        )
        errors = call()
        if isinstance(errors, dict) and not (adds and call.must_retry(errors)):
            return errors
        return asyncio.ensure_future(self._retry(call, errors, guards))

    async def _retry(
        self, call: _Call, errors: Errors | asyncio.Future[Errors], guards: Iterable[PartitionGuard]
    ) -> Errors:
        """A producer can start its next transaction before the markers of the previous one are written. That takes only
        moments, so the broker retries for a while (KIP-890)."""
        loop = asyncio.get_running_loop()
        settings = self._settings()
        deadline = loop.time() + settings.get("add.partitions.to.txn.retry.backoff.max.ms") / 1000
        while True:
            known = errors if isinstance(errors, dict) else await call.wait(errors)
            if not (call.adds and call.must_retry(known)) or loop.time() >= deadline:
                return known
            await asyncio.sleep(settings.get("add.partitions.to.txn.retry.backoff.ms") / 1000)
            errors = call(guards)


class _Call:
    """A call of the coordinator, which can be repeated."""

    def __init__(
        self,
        transactions: TransactionCoordinator,
        remote: RemoteCoordinators | None,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        adds: bool,
    ) -> None:
        self._transactions = transactions
        self._remote = remote
        self._transactional_id = transactional_id
        self._producer_id = producer_id
        self._producer_epoch = producer_epoch
        self._partitions = partitions
        self.adds = adds

    def __call__(self, guards: Iterable[PartitionGuard] = ()) -> Errors | asyncio.Future[Errors]:
        try:
            for guard in guards:
                guard.renew()
            if self._remote is not None:
                # Looked up for every attempt, because the coordinator may have moved.
                coordinator = self._remote.find(self._transactions.partition_of(self._transactional_id))
                if coordinator is not None:
                    return self._remote.add_partitions(
                        coordinator,
                        self._transactional_id,
                        self._producer_id,
                        self._producer_epoch,
                        self._partitions,
                        verify_only=not self.adds,
                    )
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

    async def wait(self, errors: asyncio.Future[Errors]) -> Errors:
        try:
            return await errors
        except Refused as refusal:
            return self._all(refusal.error)

    def must_retry(self, errors: Errors) -> bool:
        return ErrorCode.CONCURRENT_TRANSACTIONS in errors.values()

    def _all(self, error: ErrorCode) -> Errors:
        return dict.fromkeys(self._partitions, error)
