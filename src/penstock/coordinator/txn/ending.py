"""How a transaction ends: what EndTxn decides, what a timeout and a new producer decide, and what comes after.

There are two dialects. Before transaction version 2 an end leaves the producer's epoch as it is, so that a late marker
or a late batch cannot be told from one of the next transaction. From 2 on (KIP-890) every end raises the epoch:
markers carry the raised one, and an end that comes with the epoch before it is the last one, repeated.
"""

from __future__ import annotations

from penstock.coordinator.txn.initiating import NewProducerId, raised
from penstock.coordinator.txn.transaction import (
    AT_REST,
    EPOCH_MAX,
    LAST_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    PREPARED,
    Identity,
    State,
    Transaction,
)
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.records.control import EPOCH_BUMPS


def end(
    transaction: Transaction,
    producer: Identity,
    *,
    is_commit: bool,
    client_version: int,
    now_ms: int,
    new_producer_id: NewProducerId,
) -> Transaction | None:
    """The transaction with its end decided; None where that has been decided and done, and the request is repeated."""
    if client_version >= EPOCH_BUMPS:
        is_decided = _check_repeatable(transaction, producer, is_commit=is_commit)
    else:
        is_decided = _check(transaction, producer, is_commit=is_commit)
    if is_decided:
        return None
    client = transaction.client
    next_client, last_epoch = client, transaction.last_epoch
    if client_version >= EPOCH_BUMPS:
        next_client, last_epoch = raised(client, new_producer_id), client.epoch
    return _prepare(
        transaction,
        next_client,
        last_epoch=last_epoch,
        is_commit=is_commit,
        client_version=client_version,
        now_ms=now_ms,
    )


def fence(transaction: Transaction, *, transaction_version: int, now_ms: int) -> Transaction:
    """Roll an open transaction back because its time is over or another producer has come, and lock its producer out.

    From version 2 on that is what the producer's own abort would have done, as far as anybody can see: a producer whose
    time was over may abort, or ask for an epoch, and go on; it cannot commit. Where another one has come, that one
    raises the epoch again. Before version 2 the producer is locked out for good.
    """
    client = transaction.client
    locked_out = Identity(client.producer_id, min(client.epoch + 1, EPOCH_MAX))
    may_go_on = transaction_version >= EPOCH_BUMPS and not client.is_exhausted
    return _prepare(
        transaction,
        locked_out,
        last_epoch=client.epoch if may_go_on else NO_EPOCH,
        is_commit=False,
        client_version=transaction_version,
        now_ms=now_ms,
    )


def complete(transaction: Transaction, *, now_ms: int) -> Transaction:
    """Every partition has its marker."""
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
        next_producer_epoch=NO_EPOCH,
    )


def _prepare(
    transaction: Transaction,
    client: Identity,
    *,
    last_epoch: int,
    is_commit: bool,
    client_version: int,
    now_ms: int,
) -> Transaction:
    """`client` is who may write when this is over."""
    is_same = client.producer_id == transaction.producer_id
    # Of the markers: that of the client, or, where it goes on under another id, one above what the partitions have.
    marker_epoch = client.epoch if is_same else min(transaction.producer_epoch + 1, EPOCH_MAX)
    return transaction._replace(
        producer_epoch=marker_epoch,
        state=State.PREPARE_COMMIT if is_commit else State.PREPARE_ABORT,
        # A transaction without partitions, which version 2 may roll back, begins and ends now.
        start_ms=now_ms if transaction.state in AT_REST else transaction.start_ms,
        update_ms=now_ms,
        client_version=client_version,
        previous_producer_id=transaction.client.producer_id,
        next_producer_id=NO_PRODUCER_ID if is_same else client.producer_id,
        next_producer_epoch=NO_EPOCH if is_same else client.epoch,
        last_epoch=last_epoch,
    )


def _check(transaction: Transaction, producer: Identity, *, is_commit: bool) -> bool:
    """Before version 2: whether this end has been reached already. `Refused` where it cannot be."""
    client = transaction.client
    if producer.producer_id != client.producer_id:
        raise _belongs_to_another(client)
    if producer.epoch != client.epoch:
        raise _fenced(client)
    if transaction.state is State.ONGOING:
        return False
    if transaction.state is State.EMPTY:
        raise _invalid(transaction, is_commit=is_commit)
    return _is_the_same_end(transaction, is_commit=is_commit)


def _check_repeatable(transaction: Transaction, producer: Identity, *, is_commit: bool) -> bool:
    """From version 2 on: whether this end has been reached already. `Refused` where it cannot be."""
    client = transaction.client
    is_repeated = transaction.state not in (State.ONGOING, State.EMPTY) and _is_repeated(
        transaction, producer
    )
    if not is_repeated:
        if producer.producer_id != client.producer_id:
            raise _belongs_to_another(client)
        if producer.epoch != client.epoch:
            raise _fenced(client)
        if transaction.state in PREPARED:
            raise Refused(
                ErrorCode.CONCURRENT_TRANSACTIONS,
                "the previous transaction of this transactional id is still being completed; try again",
            )
        if transaction.state is State.ONGOING:
            return False
        # Nothing was written since the last end. Rolling that back is what a producer does that does not know
        # whether a partition was added (KIP-890); there is nothing to commit.
        if is_commit:
            raise _invalid(transaction, is_commit=True)
        return False
    return _is_the_same_end(transaction, is_commit=is_commit)


def _is_repeated(transaction: Transaction, producer: Identity) -> bool:
    """Whether `producer` is who the client was before the last end."""
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


def _is_the_same_end(transaction: Transaction, *, is_commit: bool) -> bool:
    """True: it is over. `Refused` while it goes on, or where it was decided otherwise."""
    if transaction.state is (State.COMPLETE_COMMIT if is_commit else State.COMPLETE_ABORT):
        return True
    if transaction.state is (State.PREPARE_COMMIT if is_commit else State.PREPARE_ABORT):
        raise Refused(
            ErrorCode.CONCURRENT_TRANSACTIONS, "the transaction is already being completed; try again"
        )
    raise _invalid(transaction, is_commit=is_commit)


def _belongs_to_another(client: Identity) -> Refused:
    return Refused(
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        f"the transactional id is mapped to producer id {client.producer_id}",
    )


def _fenced(client: Identity) -> Refused:
    return Refused(
        ErrorCode.PRODUCER_FENCED, f"the producer was fenced: the current producer epoch is {client.epoch}"
    )


def _invalid(transaction: Transaction, *, is_commit: bool) -> Refused:
    wanted = "commit" if is_commit else "roll back"
    return Refused(
        ErrorCode.INVALID_TXN_STATE, f"a transaction in state {transaction.state.title} cannot {wanted}"
    )
