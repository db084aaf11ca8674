"""AddPartitionsToTxn and AddOffsetsToTxn: the partitions of a transaction.

The first partition opens the transaction. Partitions can be added until it ends; adding one again changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.coordinator.txn.transaction import (
    ProducerIdAndEpoch,
    State,
    TopicPartition,
    Transaction,
    unknown_transactional_id,
)
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode


def add(
    transaction: Transaction, partitions: Sequence[TopicPartition], *, client_version: int, now_ms: int
) -> Transaction | None:
    """The transaction with `partitions`; None if it has all of them already."""
    if transaction.state is State.ONGOING:
        held = frozenset(transaction.partitions)
        new = tuple(dict.fromkeys(partition for partition in partitions if partition not in held))
        if not new:
            return None
        return transaction._replace(
            partitions=transaction.partitions + new,
            update_ms=now_ms,
            client_version=client_version,
            previous_producer_id=transaction.producer_id,
        )
    return transaction._replace(
        state=State.ONGOING,
        partitions=tuple(dict.fromkeys(partitions)),
        start_ms=now_ms,
        update_ms=now_ms,
        client_version=client_version,
        previous_producer_id=transaction.producer_id,
    )


def verify(transaction: Transaction, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
    """Whether each partition is in the transaction. If not, the client can recover by aborting (KIP-890)."""
    held = transaction.partitions if len(partitions) == 1 else frozenset(transaction.partitions)
    return {
        partition: ErrorCode.NONE if partition in held else ErrorCode.TRANSACTION_ABORTABLE
        for partition in partitions
    }


def check_producer(transaction: Transaction | None, producer: ProducerIdAndEpoch) -> Transaction:
    """`Refused` if the producer may not add partitions."""
    if transaction is None:
        raise unknown_transactional_id()
    transaction.check_producer(producer)
    transaction.check_not_prepared()
    if transaction.is_kept:
        raise Refused(ErrorCode.INVALID_TXN_STATE, "a prepared transaction can only be committed or aborted")
    return transaction
