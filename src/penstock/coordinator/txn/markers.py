"""Telling every partition of a transaction how it ended, until all have heard it.

A marker is written again and again until its partition has it or is no more: the decision is in the log, so there
is nothing else to do with it. Whoever takes the shard over begins anew with all partitions of the transaction, and a
partition that is told twice knows that (`storage.producer_state`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from penstock.coordinator.outcome import DONE, Outcome
from penstock.coordinator.timers import Timers
from penstock.coordinator.txn.transaction import State, TopicPartition, Transaction
from penstock.protocol.errors import ErrorCode
from penstock.records.control import EndedTransaction

logger = logging.getLogger(__name__)

RETRY_MS = 100
RETRY_MS_MAX = 5_000
FOR_GOOD = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
"""Refusals that do not pass by themselves: an operator, or another coordinator, has been at the partition."""

Done = Callable[[TopicPartition, ErrorCode], None]


class MarkerWriter(Protocol):
    """The way to the leaders of partitions. `node` fills this, a test with its own."""

    def write(self, marker: EndedTransaction, partitions: Sequence[TopicPartition], done: Done) -> None:
        """Have `marker` written into `partitions`. `done` is called once for each, perhaps before this returns: NONE
        when it is committed there, UNKNOWN_TOPIC_OR_PARTITION when the partition is no more, another error when it is
        to be tried again."""
        ...


class _Delivery:
    """The markers of one transaction that are under way."""

    __slots__ = ("is_warned", "missing", "refused", "retry_ms", "transaction", "transactional_id")

    def __init__(self, transactional_id: str, transaction: Transaction) -> None:
        self.transactional_id = transactional_id
        self.transaction = transaction
        self.missing = set(transaction.partitions)
        self.refused: dict[TopicPartition, None] = {}
        """Those that are missing because writing them failed; tried again in the order in which they did."""
        self.retry_ms = RETRY_MS
        self.is_warned = False


class Markers:
    def __init__(
        self,
        writer: MarkerWriter,
        timers: Timers,
        *,
        coordinator_epoch: Callable[[], int],
        complete: Callable[[str], None],
    ) -> None:
        """`complete` is told the transactional id when all partitions of its transaction have heard."""
        self._writer = writer
        self._timers = timers
        self._coordinator_epoch = coordinator_epoch
        self._complete = complete
        self._under_way: dict[str, _Delivery] = {}

    def send(self, transactional_id: str, transaction: Transaction) -> None:
        """Its end has been decided, and that is committed."""
        if not transaction.partitions:
            self._complete(transactional_id)
            return
        delivery = self._under_way[transactional_id] = _Delivery(transactional_id, transaction)
        self._write(delivery, transaction.partitions)

    def clear(self) -> None:
        """Another node takes over; whatever comes back is not for this one."""
        self._under_way.clear()

    def _write(self, delivery: _Delivery, partitions: Sequence[TopicPartition]) -> None:
        transaction = delivery.transaction
        marker = EndedTransaction(
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            coordinator_epoch=self._coordinator_epoch(),
            is_commit=transaction.state is State.PREPARE_COMMIT,
            transaction_version=transaction.client_version,
        )
        self._writer.write(marker, partitions, partial(self._done, delivery))

    def _done(self, delivery: _Delivery, partition: TopicPartition, error: ErrorCode) -> None:
        transactional_id = delivery.transactional_id
        if self._under_way.get(transactional_id) is not delivery:
            return
        if error is ErrorCode.NONE or error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            delivery.missing.discard(partition)
            delivery.refused.pop(partition, None)
            if not delivery.missing:
                del self._under_way[transactional_id]
                self._timers.cancel(delivery)
                self._complete(transactional_id)
        elif partition in delivery.missing:
            self._try_again(delivery, partition, error)

    def _try_again(self, delivery: _Delivery, partition: TopicPartition, error: ErrorCode) -> None:
        if error in FOR_GOOD:
            self._warn_once(delivery, partition, error)
        if not delivery.refused:
            if error not in FOR_GOOD:
                logger.info(
                    "the transaction of %s cannot be ended in %s-%d yet (%s); trying again in %d ms",
                    delivery.transactional_id,
                    *partition,
                    error.name,
                    delivery.retry_ms,
                )
            self._timers.set(delivery, delivery.retry_ms, lambda: self._write_refused(delivery))
            delivery.retry_ms = min(2 * delivery.retry_ms, RETRY_MS_MAX)
        delivery.refused[partition] = None

    def _warn_once(self, delivery: _Delivery, partition: TopicPartition, error: ErrorCode) -> None:
        if delivery.is_warned:
            return
        delivery.is_warned = True
        logger.warning(
            "the transaction of %s cannot be ended in %s-%d (%s): somebody else ended one there with a newer epoch;"
            " its producers cannot go on and need another transactional id",
            delivery.transactional_id,
            *partition,
            error.name,
        )

    def _write_refused(self, delivery: _Delivery) -> Outcome[None]:
        partitions, delivery.refused = tuple(delivery.refused), {}
        self._write(delivery, partitions)
        return DONE
