"""Encoding and decoding the records of transactions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.coordinator.result import CoordinatorRecord
from penstock.coordinator.serde import CorruptRecord, RecordSerde
from penstock.coordinator.txn.records import (
    TYPES,
    TransactionLogKey,
    TransactionLogValue,
    TransactionSerde,
    log_value,
)
from penstock.coordinator.txn.transaction import State, TopicPartition, Transaction

FRAMING = TransactionSerde()
PLAIN = RecordSerde(TYPES)
"""Without the hand-written encoders."""

KEY = TransactionLogKey(transactional_id="payments-1")

ids = st.integers(-1, 2**63 - 1)
epochs = st.integers(-1, 2**15 - 1)
times = st.integers(-1, 2**63 - 1)
partitions = st.lists(
    st.builds(
        TopicPartition, st.sampled_from(["a", "b", "t" * 126, "t" * 127, "ö"]), st.integers(0, 2**31 - 1)
    ),
    max_size=200,
    unique=True,
).map(tuple)


@st.composite
def transactions(draw: st.DrawFn) -> Transaction:
    state = draw(st.sampled_from(State))
    next_producer_id = draw(ids)
    return Transaction(
        producer_id=draw(ids),
        producer_epoch=draw(epochs),
        timeout_ms=draw(st.integers(0, 2**31 - 1)),
        state=state,
        partitions=() if state is State.EMPTY else draw(partitions),
        start_ms=draw(times),
        update_ms=draw(times),
        client_version=draw(st.integers(0, 2)),
        previous_producer_id=draw(ids),
        next_producer_id=next_producer_id,
        next_producer_epoch=-1 if next_producer_id == -1 else draw(st.integers(0, 2**15 - 1)),
    )


@given(transactions())
def test_hand_written_records_equal_those_of_the_codec(transaction: Transaction) -> None:
    written = FRAMING.encode(CoordinatorRecord(KEY, transaction))

    assert written == PLAIN.encode(CoordinatorRecord(KEY, log_value(transaction, 1)))
    assert FRAMING.encode(CoordinatorRecord(KEY, transaction, 0)) == PLAIN.encode(
        CoordinatorRecord(KEY, log_value(transaction, 0), 0)
    )


@given(transactions())
def test_records_are_decoded_as_they_were_encoded(transaction: Transaction) -> None:
    key, read = FRAMING.decode(*FRAMING.encode(CoordinatorRecord(KEY, transaction)))

    assert key == KEY
    assert read is not None
    assert set(read.partitions) == set(transaction.partitions)
    assert read._replace(partitions=()) == transaction._replace(partitions=())


def test_version_0_has_no_tagged_fields() -> None:
    transaction = Transaction(7, 3, 60_000, State.ONGOING, (TopicPartition("a", 0),), 1, 2, 2, 6, 8, 4)

    _, value = FRAMING.encode(CoordinatorRecord(KEY, transaction, 0))

    assert value is not None
    assert value[:2] == b"\0\0"
    assert FRAMING.decode(b"\0\0\0\1t", value)[1] == transaction._replace(
        client_version=0, previous_producer_id=-1, next_producer_id=-1, next_producer_epoch=-1
    )


def test_a_tombstone_has_no_value() -> None:
    assert FRAMING.decode(*FRAMING.encode(CoordinatorRecord(KEY, None))) == (KEY, None)


def test_a_long_id_is_encoded_like_a_short_one() -> None:
    key = TransactionLogKey(transactional_id="x" * 30_000)

    assert FRAMING.encode(CoordinatorRecord(key, None)) == PLAIN.encode(CoordinatorRecord(key, None))


def test_a_next_producer_id_without_an_epoch_starts_at_epoch_0() -> None:
    value = TransactionLogValue(
        producer_id=7,
        next_producer_id=8,
        producer_epoch=32_767,
        transaction_timeout_ms=1,
        transaction_status=State.PREPARE_COMMIT,
        transaction_partitions=[],
        transaction_last_update_timestamp_ms=1,
        transaction_start_timestamp_ms=1,
        client_transaction_version=2,
    )

    _, read = FRAMING.decode(*PLAIN.encode(CoordinatorRecord(KEY, value)))

    assert read is not None
    assert read.client == (8, 0)


def test_an_unknown_state_filter_matches_nothing() -> None:
    transaction = Transaction(7, 3, 60_000, State.ONGOING, (), 1, 2)
    value = log_value(transaction, 1)
    value.transaction_status = 9

    with pytest.raises(CorruptRecord):
        FRAMING.decode(*PLAIN.encode(CoordinatorRecord(KEY, value)))
