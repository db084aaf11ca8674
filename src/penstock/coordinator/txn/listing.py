"""DescribeTransactions and ListTransactions (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from penstock.coordinator.regex import Matches, compile_regex
from penstock.coordinator.txn.transaction import STATES_BY_TITLE, Transaction
from penstock.protocol.messages.describe_transactions import TopicData
from penstock.protocol.messages.describe_transactions import TransactionState as DescribedTransaction
from penstock.protocol.messages.list_transactions import ListTransactionsRequest
from penstock.protocol.messages.list_transactions import TransactionState as ListedTransaction


def describe(transactional_id: str, transaction: Transaction) -> DescribedTransaction:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in transaction.partitions:
        by_topic.setdefault(topic, []).append(partition)
    return DescribedTransaction(
        transactional_id=transactional_id,
        transaction_state=transaction.state.title,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[TopicData(topic=topic, partitions=partitions) for topic, partitions in by_topic.items()],
    )


class TransactionFilter:
    """The filters of a ListTransactions request. `Refused` if its pattern is invalid."""

    def __init__(self, request: ListTransactionsRequest) -> None:
        self.unknown_states = [title for title in request.state_filters if title not in STATES_BY_TITLE]
        self._states = {STATES_BY_TITLE[title] for title in request.state_filters if title in STATES_BY_TITLE}
        self._has_states = bool(request.state_filters)
        self._producer_ids = frozenset(request.producer_id_filters)
        self._duration_ms = request.duration_filter
        self._matches: Matches | None = None
        if request.transactional_id_pattern:
            self._matches = compile_regex(request.transactional_id_pattern)

    def of(self, transactions: Mapping[str, Transaction], *, now_ms: int) -> Iterator[ListedTransaction]:
        for transactional_id, transaction in transactions.items():
            if self._includes(transactional_id, transaction, now_ms):
                yield ListedTransaction(
                    transactional_id=transactional_id,
                    producer_id=transaction.producer_id,
                    transaction_state=transaction.state.title,
                )

    def _includes(self, transactional_id: str, transaction: Transaction, now_ms: int) -> bool:
        if self._has_states and transaction.state not in self._states:
            return False
        if self._producer_ids and transaction.producer_id not in self._producer_ids:
            return False
        # Transactions that never started count as very old, as in Kafka.
        if self._duration_ms >= 0 and now_ms - transaction.start_ms <= self._duration_ms:
            return False
        return self._matches is None or bool(self._matches(transactional_id))
