"""One shard of transactions: requests in, `Outcome` out, and what happens by itself.

An end that is decided is told to the partitions when it is committed, never before (`markers`), and the transaction is
complete when all of them have heard. Whatever may be lost when this node dies, can be made anew from the log:
`loaded` goes on with the markers of all that was decided, and with the deadlines of all that is open.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from penstock.coordinator.outcome import DONE, NEWEST, CoordinatorRecord, Outcome
from penstock.coordinator.shard import ShardContext
from penstock.coordinator.timeline import TimelineMap
from penstock.coordinator.txn import adding, ending, initiating
from penstock.coordinator.txn.context import Surroundings
from penstock.coordinator.txn.expiry import Expiry
from penstock.coordinator.txn.listing import describe
from penstock.coordinator.txn.markers import Markers
from penstock.coordinator.txn.records import TransactionLogKey
from penstock.coordinator.txn.transaction import (
    NEVER_MS,
    NO_EPOCH,
    NO_PRODUCER_ID,
    PREPARED,
    Identity,
    State,
    TopicPartition,
    Transaction,
)
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_transactions import TransactionState as DescribedTransaction
from penstock.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

logger = logging.getLogger(__name__)

RETRY_MS = 500  # after the log refused to hear that a transaction is complete


class TransactionShard:
    def __init__(self, context: ShardContext, around: Surroundings) -> None:
        self._context = context
        self._around = around
        self.transactions: TimelineMap[str, Transaction] = TimelineMap(context.timeline)
        self._markers = Markers(
            around.markers,
            context.timers,
            coordinator_epoch=lambda: around.coordinator_epoch(context.partition),
            complete=self._all_have_heard,
        )
        self._expiry = Expiry(
            self.transactions, context.timers, settings=around.settings, wall_ms=context.wall_ms
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
                self._context.timers.set(transactional_id, 0, partial(self._go_on, transactional_id))
            elif transaction.state is State.ONGOING and transaction.has_deadline:
                # More than all of it is left where another coordinator's clock was ahead.
                left_ms = min(max(0, transaction.deadline_ms - now_ms), transaction.timeout_ms)
                self._set_deadline(transactional_id, left_ms)
        self._expiry.start()

    def unloaded(self) -> None:
        self._markers.clear()

    # -- requests

    def init_producer_id(
        self, transactional_id: str, request: InitProducerIdRequest
    ) -> Outcome[InitProducerIdResponse]:
        timeout_ms = NEVER_MS if request.enable_2pc else request.transaction_timeout_ms
        transaction = self.transactions.get(transactional_id)
        now_ms = self._context.wall_ms()
        new_producer_id = self._around.new_producer_id
        if transaction is None:
            decided = initiating.first(timeout_ms=timeout_ms, now_ms=now_ms, new_producer_id=new_producer_id)
            return self._begun(transactional_id, decided)
        if transaction.state in PREPARED:
            raise Refused(
                ErrorCode.CONCURRENT_TRANSACTIONS,
                "the previous transaction of this transactional id is still being completed; try again",
            )
        expected = None
        if request.producer_id != NO_PRODUCER_ID:
            expected = Identity(request.producer_id, request.producer_epoch)
        if transaction.state is State.ONGOING:
            if not request.keep_prepared_txn:
                return self._fence_before_init(transactional_id, transaction, expected)
            decide = initiating.keep_open
        else:
            decide = initiating.next_producer
        decided = decide(
            transaction,
            expected=expected,
            timeout_ms=timeout_ms,
            now_ms=now_ms,
            new_producer_id=new_producer_id,
        )
        return self._begun(transactional_id, decided)

    def add_partitions(
        self,
        transactional_id: str,
        producer: Identity,
        partitions: Sequence[TopicPartition],
        *,
        client_version: int,
    ) -> Outcome[dict[TopicPartition, ErrorCode]]:
        transaction = adding.check_producer(self.transactions.get(transactional_id), producer)
        added = adding.add(
            transaction, partitions, client_version=client_version, now_ms=self._context.wall_ms()
        )
        answer = dict.fromkeys(partitions, ErrorCode.NONE)
        if added is None:
            return Outcome(answer)
        if transaction.state is not State.ONGOING and added.has_deadline:
            self._set_deadline(transactional_id, added.timeout_ms)
        return Outcome(answer, [self._record(transactional_id, added)])

    def verify_partitions(
        self, transactional_id: str, producer: Identity, partitions: Sequence[TopicPartition]
    ) -> Outcome[dict[TopicPartition, ErrorCode]]:
        transaction = adding.check_producer(self.transactions.get(transactional_id), producer)
        return Outcome(adding.verify(transaction, partitions))

    def end(self, request: EndTxnRequest, *, client_version: int) -> Outcome[EndTxnResponse]:
        transactional_id = request.transactional_id
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            raise Refused(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING,
                "the transactional id is unknown; call InitProducerId first",
            )
        decided = ending.end(
            transaction,
            Identity(request.producer_id, request.producer_epoch),
            is_commit=request.committed,
            client_version=client_version,
            now_ms=self._context.wall_ms(),
            new_producer_id=self._around.new_producer_id,
        )
        producer_id, epoch = (decided or transaction).client
        response = EndTxnResponse(producer_id=producer_id, producer_epoch=epoch)
        if decided is None:
            return Outcome(response)
        return Outcome(
            response,
            [self._record(transactional_id, decided)],
            partial(self._decision_committed, transactional_id, decided),
        )

    def describe(self, transactional_id: str) -> DescribedTransaction:
        transaction = self.transactions.committed(transactional_id)
        if transaction is None:
            raise Refused(
                ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"the transactional id {transactional_id} is unknown"
            )
        return describe(transactional_id, transaction)

    # -- what happens by itself

    def _begun(self, transactional_id: str, decided: Transaction) -> Outcome[InitProducerIdResponse]:
        client = decided.client
        response = InitProducerIdResponse(producer_id=client.producer_id, producer_epoch=client.epoch)
        if decided.state is State.ONGOING:
            response.ongoing_txn_producer_id = decided.producer_id
            response.ongoing_txn_producer_epoch = decided.producer_epoch
            if decided.has_deadline:
                self._set_deadline(transactional_id, decided.timeout_ms)
        return Outcome(response, [self._record(transactional_id, decided)])

    def _fence_before_init(
        self, transactional_id: str, transaction: Transaction, expected: Identity | None
    ) -> Outcome[InitProducerIdResponse]:
        """Nobody begins before what is open has been rolled back; the client asks again."""
        if expected is not None:
            initiating.check_current(transaction, expected)
        fencing = self._fence(transactional_id, transaction)
        response = InitProducerIdResponse(
            error_code=ErrorCode.CONCURRENT_TRANSACTIONS,
            producer_id=NO_PRODUCER_ID,
            producer_epoch=NO_EPOCH,
        )
        return Outcome(response, fencing.records, fencing.when_committed)

    def _set_deadline(self, transactional_id: str, delay_ms: int) -> None:
        # Moved with every transaction and never taken back, because moving costs less: bench `transactions`.
        self._context.timers.set(transactional_id, delay_ms, partial(self._time_out, transactional_id))

    def _time_out(self, transactional_id: str) -> Outcome[None]:
        transaction = self.transactions.get(transactional_id)
        if transaction is None or transaction.state is not State.ONGOING or not transaction.has_deadline:
            return DONE
        logger.info(
            "the transaction of %s has been open for %d ms and is rolled back",
            transactional_id,
            transaction.timeout_ms,
        )
        return self._fence(transactional_id, transaction)

    def _fence(self, transactional_id: str, transaction: Transaction) -> Outcome[None]:
        decided = ending.fence(
            transaction,
            transaction_version=self._around.transaction_version(),
            now_ms=self._context.wall_ms(),
        )
        return Outcome(
            None,
            [self._record(transactional_id, decided)],
            partial(self._decision_committed, transactional_id, decided),
        )

    def _go_on(self, transactional_id: str) -> Outcome[None]:
        """What another coordinator has decided, perhaps long ago."""
        transaction = self.transactions.get(transactional_id)
        if transaction is not None and transaction.state in PREPARED:
            self._markers.send(transactional_id, transaction)
        return DONE

    def _decision_committed(self, transactional_id: str, decided: Transaction, error: ErrorCode) -> None:
        if error is ErrorCode.NONE:
            self._markers.send(transactional_id, decided)

    def _all_have_heard(self, transactional_id: str) -> None:
        if not self._around.write(self._context.partition, lambda shard: shard._complete(transactional_id)):
            self._context.timers.set(transactional_id, RETRY_MS, partial(self._complete, transactional_id))

    def _complete(self, transactional_id: str) -> Outcome[None]:
        transaction = self.transactions.get(transactional_id)
        assert transaction is not None, "what is being ended does not expire"
        decided = ending.complete(transaction, now_ms=self._context.wall_ms())
        return Outcome(None, [self._record(transactional_id, decided)])

    def _record(self, transactional_id: str, transaction: Transaction) -> CoordinatorRecord:
        # Version 0 cannot tell who is to come next.
        is_old = not self._around.transaction_version() and transaction.next_producer_id == NO_PRODUCER_ID
        version = 0 if is_old else NEWEST
        return CoordinatorRecord(TransactionLogKey(transactional_id=transactional_id), transaction, version)
