"""One shard of transactions: requests, timeouts, and the completion of transactions.

Markers are written only after the Prepare record is committed (`markers`), and the transaction is complete when all
partitions have their marker. All state can be rebuilt from the log: `loaded` continues with the markers of prepared
transactions, and sets the timeouts of open ones.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from penstock.coordinator.result import DONE, NEWEST, CoordinatorRecord, CoordinatorResult
from penstock.coordinator.shard import ShardContext
from penstock.coordinator.timeline import TimelineMap
from penstock.coordinator.txn import add_partitions, end_txn, init_producer_id
from penstock.coordinator.txn.context import TransactionDependencies
from penstock.coordinator.txn.expiry import Expiry
from penstock.coordinator.txn.listing import describe
from penstock.coordinator.txn.markers import MarkerSender
from penstock.coordinator.txn.records import TransactionLogKey
from penstock.coordinator.txn.transaction import (
    NEVER_MS,
    PREPARED,
    ProducerIdAndEpoch,
    State,
    TopicPartition,
    Transaction,
    unknown_transactional_id,
)
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_transactions import TransactionState as DescribedTransaction
from penstock.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

logger = logging.getLogger(__name__)

RETRY_MS = 500  # after the log refused the record of a complete transaction


class TransactionShard:
    def __init__(self, context: ShardContext, dependencies: TransactionDependencies) -> None:
        self._context = context
        self._dependencies = dependencies
        self.transactions: TimelineMap[str, Transaction] = TimelineMap(context.timeline)
        self._markers = MarkerSender(
            dependencies.markers,
            context.timers,
            coordinator_epoch=lambda: dependencies.coordinator_epoch(context.partition),
            complete=self._all_markers_written,
        )
        self._expiry = Expiry(
            self.transactions, context.timers, settings=dependencies.settings, wall_ms=context.wall_ms
        )

    # -- for the runtime

    def replay(self, key: TransactionLogKey, value: Transaction | None) -> None:
        if value is None:
            self.transactions.pop(key.transactional_id, None)
        else:
            self.transactions[key.transactional_id] = value

    def loaded(self) -> None:
        now_ms = self._context.wall_ms()
        for transactional_id, transaction in self.transactions.items():
            if transaction.state in PREPARED:
                self._context.timers.set(transactional_id, 0, partial(self._resume_markers, transactional_id))
            elif transaction.state is State.ONGOING and transaction.has_deadline:
                # The clock of the last coordinator may have been ahead: then more than the timeout would be left.
                left_ms = min(max(0, transaction.deadline_ms - now_ms), transaction.timeout_ms)
                self._set_deadline(transactional_id, left_ms)
        self._expiry.start()

    def unloaded(self) -> None:
        self._markers.clear()

    def leaders_changed(self) -> None:
        self._markers.leaders_changed()

    # -- requests

    def init_producer_id(
        self, transactional_id: str, request: InitProducerIdRequest
    ) -> CoordinatorResult[InitProducerIdResponse]:
        timeout_ms = NEVER_MS if request.enable_2pc else request.transaction_timeout_ms
        transaction = self.transactions.get(transactional_id)
        now_ms = self._context.wall_ms()
        new_producer_id = self._dependencies.new_producer_id
        if transaction is None:
            decided = init_producer_id.first(
                timeout_ms=timeout_ms, now_ms=now_ms, new_producer_id=new_producer_id
            )
            return self._initialized(transactional_id, decided)
        transaction.check_not_prepared()
        expected = None
        if request.producer_id != NO_PRODUCER_ID:
            expected = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
        if transaction.state is State.ONGOING:
            if not request.keep_prepared_txn:
                return self._fence_before_init(transactional_id, transaction, expected)
            decide = init_producer_id.keep_prepared
        else:
            decide = init_producer_id.next_producer
        decided = decide(
            transaction,
            expected=expected,
            timeout_ms=timeout_ms,
            now_ms=now_ms,
            new_producer_id=new_producer_id,
        )
        return self._initialized(transactional_id, decided)

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Sequence[TopicPartition],
        *,
        client_version: int,
    ) -> CoordinatorResult[dict[TopicPartition, ErrorCode]]:
        transaction = add_partitions.check_producer(self.transactions.get(transactional_id), producer)
        added = add_partitions.add(
            transaction, partitions, client_version=client_version, now_ms=self._context.wall_ms()
        )
        response = dict.fromkeys(partitions, ErrorCode.NONE)
        if added is None:
            return CoordinatorResult(response)
        if transaction.state is not State.ONGOING and added.has_deadline:
            self._set_deadline(transactional_id, added.timeout_ms)
        return CoordinatorResult(response, [self._record(transactional_id, added)])

    def verify_partitions(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Sequence[TopicPartition]
    ) -> CoordinatorResult[dict[TopicPartition, ErrorCode]]:
        transaction = add_partitions.check_producer(self.transactions.get(transactional_id), producer)
        return CoordinatorResult(add_partitions.verify(transaction, partitions))

    def end(self, request: EndTxnRequest, *, client_version: int) -> CoordinatorResult[EndTxnResponse]:
        transactional_id = request.transactional_id
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            raise unknown_transactional_id()
        decided = end_txn.end(
            transaction,
            ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
            is_commit=request.committed,
            client_version=client_version,
            now_ms=self._context.wall_ms(),
            new_producer_id=self._dependencies.new_producer_id,
        )
        producer_id, epoch = (decided or transaction).client
        response = EndTxnResponse(producer_id=producer_id, producer_epoch=epoch)
        if decided is None:
            return CoordinatorResult(response)
        return CoordinatorResult(
            response,
            [self._record(transactional_id, decided)],
            partial(self._prepared, transactional_id, decided),
        )

    def describe(self, transactional_id: str) -> DescribedTransaction:
        transaction = self.transactions.committed(transactional_id)
        if transaction is None:
            raise Refused(
                ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"the transactional id {transactional_id} is unknown"
            )
        return describe(transactional_id, transaction)

    # -- timeouts, markers, completion

    def _initialized(
        self, transactional_id: str, decided: Transaction
    ) -> CoordinatorResult[InitProducerIdResponse]:
        client = decided.client
        response = InitProducerIdResponse(producer_id=client.producer_id, producer_epoch=client.epoch)
        if decided.state is State.ONGOING:
            response.ongoing_txn_producer_id = decided.producer_id
            response.ongoing_txn_producer_epoch = decided.producer_epoch
            if decided.has_deadline:
                self._set_deadline(transactional_id, decided.timeout_ms)
        return CoordinatorResult(response, [self._record(transactional_id, decided)])

    def _fence_before_init(
        self, transactional_id: str, transaction: Transaction, expected: ProducerIdAndEpoch | None
    ) -> CoordinatorResult[InitProducerIdResponse]:
        """The open transaction must be aborted first; the client retries."""
        if expected is not None:
            init_producer_id.check_current(transaction, expected)
        fencing = self._fence(transactional_id, transaction)
        response = InitProducerIdResponse(
            error_code=ErrorCode.CONCURRENT_TRANSACTIONS,
            producer_id=NO_PRODUCER_ID,
            producer_epoch=NO_PRODUCER_EPOCH,
        )
        return fencing.with_response(response)

    def _set_deadline(self, transactional_id: str, delay_ms: int) -> None:
        # Moved with every transaction and never cancelled, because moving costs less: bench `transactions`.
        self._context.timers.set(transactional_id, delay_ms, partial(self._time_out, transactional_id))

    def _time_out(self, transactional_id: str) -> CoordinatorResult[None]:
        transaction = self.transactions.get(transactional_id)
        if transaction is None or transaction.state is not State.ONGOING or not transaction.has_deadline:
            return DONE
        logger.info(
            "aborting the transaction of %s: it has been open for %d ms, its timeout",
            transactional_id,
            transaction.timeout_ms,
        )
        return self._fence(transactional_id, transaction)

    def _fence(self, transactional_id: str, transaction: Transaction) -> CoordinatorResult[None]:
        decided = end_txn.fence(
            transaction,
            transaction_version=self._dependencies.transaction_version(),
            now_ms=self._context.wall_ms(),
        )
        return CoordinatorResult(
            None,
            [self._record(transactional_id, decided)],
            partial(self._prepared, transactional_id, decided),
        )

    def _resume_markers(self, transactional_id: str) -> CoordinatorResult[None]:
        """Write the markers of a transaction that an earlier coordinator has prepared."""
        transaction = self.transactions.get(transactional_id)
        if transaction is not None and transaction.state in PREPARED:
            self._markers.send(transactional_id, transaction)
        return DONE

    def _prepared(self, transactional_id: str, decided: Transaction, error: ErrorCode) -> None:
        if error is ErrorCode.NONE:
            self._markers.send(transactional_id, decided)

    def _all_markers_written(self, transactional_id: str) -> None:
        if not self._dependencies.write(
            self._context.partition, lambda shard: shard._complete(transactional_id)
        ):
            self._context.timers.set(transactional_id, RETRY_MS, partial(self._complete, transactional_id))

    def _complete(self, transactional_id: str) -> CoordinatorResult[None]:
        transaction = self.transactions.get(transactional_id)
        assert transaction is not None, "a prepared transaction does not expire"
        decided = end_txn.complete(transaction, now_ms=self._context.wall_ms())
        return CoordinatorResult(None, [self._record(transactional_id, decided)])

    def _record(self, transactional_id: str, transaction: Transaction) -> CoordinatorRecord:
        # Version 0 does not have the next producer id.
        is_old = (
            not self._dependencies.transaction_version() and transaction.next_producer_id == NO_PRODUCER_ID
        )
        version = 0 if is_old else NEWEST
        return CoordinatorRecord(TransactionLogKey(transactional_id=transactional_id), transaction, version)
