"""Writing the marker of a transaction to all its partitions.

A marker is retried until its partition has it or is deleted, because the decision is in the log already. After a change
of coordinator, markers are written to all partitions of the transaction again; a partition ignores the second one
(`storage.producer_state`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from penstock.coordinator.result import DONE, CoordinatorResult
from penstock.coordinator.timers import Timers
from penstock.coordinator.txn.transaction import State, TopicPartition, Transaction
from penstock.protocol.errors import ErrorCode
from penstock.records.control import TxnMarkerEntry

logger = logging.getLogger(__name__)

RETRY_MS = 100
RETRY_MS_MAX = 5_000
LOGGED_RETRY_MS = 8 * RETRY_MS
"""Logged once, when a marker fails for about the time of a leader election: every fail-over would log hundreds."""
PERMANENT_ERRORS = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
"""They do not pass: an operator or another coordinator has written a marker to the partition."""

Done = Callable[[TopicPartition, ErrorCode], None]


class MarkerWriter(Protocol):
    """Writes markers to the leaders of partitions. `node` implements it, and tests have a fake."""

    def write(self, marker: TxnMarkerEntry, partitions: Sequence[TopicPartition], done: Done) -> None:
        """Write `marker` to `partitions`. `done` is called once for each, maybe before this returns: with NONE when it
        is committed there, UNKNOWN_TOPIC_OR_PARTITION if the partition is deleted, another error to be retried."""
        ...


class _Delivery:
    """The markers of one transaction that are being written."""

    __slots__ = ("is_warned", "missing", "refused", "retry_ms", "transaction", "transactional_id")

    def __init__(self, transactional_id: str, transaction: Transaction) -> None:
        self.transactional_id = transactional_id
        self.transaction = transaction
        self.missing = set(transaction.partitions)
        self.refused: dict[TopicPartition, None] = {}
        """Partitions whose write failed, in the order in which it is retried."""
        self.retry_ms = RETRY_MS
        self.is_warned = False


class MarkerSender:
    def __init__(
        self,
        writer: MarkerWriter,
        timers: Timers,
        *,
        coordinator_epoch: Callable[[], int],
        complete: Callable[[str], None],
    ) -> None:
        """`complete` is called with the transactional id when all partitions have their marker."""
        self._writer = writer
        self._timers = timers
        self._coordinator_epoch = coordinator_epoch
        self._complete = complete
        self._in_flight: dict[str, _Delivery] = {}

    def send(self, transactional_id: str, transaction: Transaction) -> None:
        """Its Prepare record is committed."""
        if not transaction.partitions:
            self._complete(transactional_id)
            return
        delivery = self._in_flight[transactional_id] = _Delivery(transactional_id, transaction)
        self._write(delivery, transaction.partitions)

    def leaders_changed(self) -> None:
        """Some partitions may have a new leader: retry now what was refused."""
        for delivery in self._in_flight.values():
            if delivery.refused:
                delivery.retry_ms = RETRY_MS
                self._set_retry(delivery, 0)

    def clear(self) -> None:
        """This node has lost the shard: ignore all results of markers in flight."""
        self._in_flight.clear()

    def _write(self, delivery: _Delivery, partitions: Sequence[TopicPartition]) -> None:
        transaction = delivery.transaction
        marker = TxnMarkerEntry(
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            coordinator_epoch=self._coordinator_epoch(),
            is_commit=transaction.state is State.PREPARE_COMMIT,
            transaction_version=transaction.client_version,
        )
        self._writer.write(marker, partitions, partial(self._done, delivery))

    def _done(self, delivery: _Delivery, partition: TopicPartition, error: ErrorCode) -> None:
        transactional_id = delivery.transactional_id
        if self._in_flight.get(transactional_id) is not delivery:
            return
        if error is ErrorCode.NONE or error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            delivery.missing.discard(partition)
            delivery.refused.pop(partition, None)
            if not delivery.missing:
                del self._in_flight[transactional_id]
                self._timers.cancel(delivery)
                self._complete(transactional_id)
        elif partition in delivery.missing:
            self._retry(delivery, partition, error)

    def _retry(self, delivery: _Delivery, partition: TopicPartition, error: ErrorCode) -> None:
        if error in PERMANENT_ERRORS:
            self._warn_once(delivery, partition, error)
        if not delivery.refused:
            if error not in PERMANENT_ERRORS and delivery.retry_ms == LOGGED_RETRY_MS:
                logger.info(
                    "the marker for the transaction of %s cannot be written to %s-%d yet (%s); retrying",
                    delivery.transactional_id,
                    *partition,
                    error.name,
                )
            self._set_retry(delivery, delivery.retry_ms)
            delivery.retry_ms = min(2 * delivery.retry_ms, RETRY_MS_MAX)
        delivery.refused[partition] = None

    def _set_retry(self, delivery: _Delivery, delay_ms: int) -> None:
        self._timers.set(delivery, delay_ms, lambda: self._write_refused(delivery))

    def _warn_once(self, delivery: _Delivery, partition: TopicPartition, error: ErrorCode) -> None:
        if delivery.is_warned:
            return
        delivery.is_warned = True
        logger.warning(
            "the marker for the transaction of %s cannot be written to %s-%d (%s): the partition already has a marker"
            " with a newer epoch; its producers need another transactional id",
            delivery.transactional_id,
            *partition,
            error.name,
        )

    def _write_refused(self, delivery: _Delivery) -> CoordinatorResult[None]:
        partitions, delivery.refused = tuple(delivery.refused), {}
        self._write(delivery, partitions)
        return DONE
