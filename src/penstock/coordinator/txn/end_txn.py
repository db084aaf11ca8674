"""The end of a transaction: EndTxn, a timeout, a new producer, and the completion.

Before transaction version 2, the end of a transaction keeps the producer epoch, so a late marker or batch looks like
one of the next transaction. From version 2 on (KIP-890), every end bumps the epoch: markers have the bumped epoch, and
an EndTxn with the epoch before it is a retry.
"""

from __future__ import annotations

from penstock.coordinator.txn.init_producer_id import NewProducerId, bumped
from penstock.coordinator.txn.transaction import (
    LAST_EPOCH,
    NOT_OPEN,
    PREPARED,
    ProducerIdAndEpoch,
    State,
    Transaction,
)
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, PRODUCER_EPOCH_MAX
from penstock.records.control import EPOCH_BUMPS


def end(
    transaction: Transaction,
    producer: ProducerIdAndEpoch,
    *,
    is_commit: bool,
    client_version: int,
    now_ms: int,
    new_producer_id: NewProducerId,
) -> Transaction | None:
    """The transaction in a Prepare state; None if it is complete already and the request is a retry."""
    if client_version >= EPOCH_BUMPS:
        is_decided = _check_repeatable(transaction, producer, is_commit=is_commit)
    else:
        is_decided = _check(transaction, producer, is_commit=is_commit)
    if is_decided:
        return None
    client = transaction.client
    next_client, last_epoch = client, transaction.last_epoch
    if client_version >= EPOCH_BUMPS:
        next_client, last_epoch = bumped(client, new_producer_id), client.epoch
    return _prepare(
        transaction,
        next_client,
        last_epoch=last_epoch,
        is_commit=is_commit,
        client_version=client_version,
        now_ms=now_ms,
    )


def fence(transaction: Transaction, *, transaction_version: int, now_ms: int) -> Transaction:
    """Abort an open transaction after a timeout or for a new producer, and fence its producer.

    From version 2 on, this has the effect of an abort by the producer: after a timeout the producer can abort or ask
    for a new epoch, and go on; it cannot commit. A new producer bumps the epoch again. Before version 2 the producer is
    fenced for good.
    """
    client = transaction.client
    fenced = ProducerIdAndEpoch(client.producer_id, min(client.epoch + 1, PRODUCER_EPOCH_MAX))
    can_go_on = transaction_version >= EPOCH_BUMPS and not client.is_exhausted
    return _prepare(
        transaction,
        fenced,
        last_epoch=client.epoch if can_go_on else NO_PRODUCER_EPOCH,
        is_commit=False,
        client_version=transaction_version,
        now_ms=now_ms,
    )


def complete(transaction: Transaction, *, now_ms: int) -> Transaction:
    """All partitions have their markers."""
    assert transaction.state in PREPARED
    client = transaction.client
    is_commit = transaction.state is State.PREPARE_COMMIT
    return transaction._replace(
        producer_id=client.producer_id,
        producer_epoch=client.epoch,
        state=State.COMPLETE_COMMIT if is_commit else State.COMPLETE_ABORT,
        partitions=(),
        update_ms=now_ms,
        next_producer_id=NO_PRODUCER_ID,
        next_producer_epoch=NO_PRODUCER_EPOCH,
    )


def _prepare(
    transaction: Transaction,
    client: ProducerIdAndEpoch,
    *,
    last_epoch: int,
    is_commit: bool,
    client_version: int,
    now_ms: int,
) -> Transaction:
    """`client` is the producer after this transaction."""
    is_same = client.producer_id == transaction.producer_id
    # Markers have the epoch of the client, or, if its producer id changes, one more than the partitions know.
    marker_epoch = client.epoch if is_same else min(transaction.producer_epoch + 1, PRODUCER_EPOCH_MAX)
    return transaction._replace(
        producer_epoch=marker_epoch,
        state=State.PREPARE_COMMIT if is_commit else State.PREPARE_ABORT,
        # A transaction without partitions, which version 2 can abort, starts and ends now.
        start_ms=now_ms if transaction.state in NOT_OPEN else transaction.start_ms,
        update_ms=now_ms,
        client_version=client_version,
        previous_producer_id=transaction.client.producer_id,
        next_producer_id=NO_PRODUCER_ID if is_same else client.producer_id,
        next_producer_epoch=NO_PRODUCER_EPOCH if is_same else client.epoch,
        last_epoch=last_epoch,
    )


def _check(transaction: Transaction, producer: ProducerIdAndEpoch, *, is_commit: bool) -> bool:
    """Before version 2: whether the transaction has ended so already. `Refused` if it cannot end so."""
    transaction.check_producer(producer)
    if transaction.state is State.ONGOING:
        return False
    if transaction.state is State.EMPTY:
        raise _invalid(transaction, is_commit=is_commit)
    return _has_ended(transaction, is_commit=is_commit)


def _check_repeatable(transaction: Transaction, producer: ProducerIdAndEpoch, *, is_commit: bool) -> bool:
    """From version 2 on: whether the transaction has ended so already. `Refused` if it cannot end so."""
    is_retry = transaction.state not in (State.ONGOING, State.EMPTY) and _is_retry(transaction, producer)
    if not is_retry:
        transaction.check_producer(producer)
        transaction.check_not_prepared()
        if transaction.state is State.ONGOING:
            return False
        # No transaction is open. A producer that does not know whether a partition was added aborts (KIP-890); there
        # is nothing to commit.
        if is_commit:
            raise _invalid(transaction, is_commit=True)
        return False
    return _has_ended(transaction, is_commit=is_commit)


def _is_retry(transaction: Transaction, producer: ProducerIdAndEpoch) -> bool:
    """Whether `producer` is the client before the last end, so that its request is a retry."""
    if transaction.client_version < EPOCH_BUMPS:
        return False
    client = transaction.client
    if producer.producer_id == client.producer_id:
        return producer.epoch == client.epoch - 1 and client.epoch <= LAST_EPOCH
    return (
        producer.producer_id == transaction.previous_producer_id
        and producer.epoch == LAST_EPOCH
        and client.epoch == 0
    )


def _has_ended(transaction: Transaction, *, is_commit: bool) -> bool:
    """True if it is complete. `Refused` while it is completing, or if it ended the other way."""
    if transaction.state is (State.COMPLETE_COMMIT if is_commit else State.COMPLETE_ABORT):
        return True
    if transaction.state is (State.PREPARE_COMMIT if is_commit else State.PREPARE_ABORT):
        raise Refused(
            ErrorCode.CONCURRENT_TRANSACTIONS, "the transaction is already being completed; try again"
        )
    raise _invalid(transaction, is_commit=is_commit)


def _invalid(transaction: Transaction, *, is_commit: bool) -> Refused:
    wanted = "committed" if is_commit else "aborted"
    return Refused(
        ErrorCode.INVALID_TXN_STATE, f"a transaction in state {transaction.state.title} cannot be {wanted}"
    )
