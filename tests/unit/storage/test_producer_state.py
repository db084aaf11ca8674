"""Idempotent producers: what is taken, what is answered as a repetition, what is refused."""

from __future__ import annotations

import pytest

from harness.storage import NOW_MS, Place, append, make_batch
from penstock.records import kernel
from penstock.records.batch import BatchHeader
from penstock.storage.errors import (
    CoordinatorFenced,
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
)
from penstock.storage.log import Log
from penstock.storage.producer_state import ProducedBatch, ProducerState, TransactionMarker

LAST = 2**31 - 1


def header(
    sequence: int, *, count: int = 1, epoch: int = 0, producer_id: int = 9, **fields: object
) -> BatchHeader:
    batch = make_batch(count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, **fields)
    return kernel.read_header(batch, 0)


def state_after(*headers: BatchHeader) -> ProducerState:
    state, offset = ProducerState(), 0
    for one in headers:
        assert state.check([one]) is None
        state.update(one, base_offset=offset)
        offset += one.last_offset_delta + 1
    return state


@pytest.mark.parametrize("sequence", [0, 5, LAST])
def test_an_unknown_producer_may_begin_anywhere(sequence: int) -> None:
    assert ProducerState().check([header(sequence)]) is None


def test_a_batch_follows_on_the_last_one() -> None:
    state = state_after(header(0, count=3))

    assert state.check([header(3)]) is None
    for wrong in (1, 4, 100):
        with pytest.raises(OutOfOrderSequence, match="where 3 was expected"):
            state.check([header(wrong)])


def test_sequences_wrap_to_zero() -> None:
    state = state_after(header(LAST - 1, count=2))

    assert state.check([header(0)]) is None
    across = state_after(header(LAST - 1, count=4))
    assert across.check([header(2)]) is None
    assert across.check([header(LAST - 1, count=4)]) == ProducedBatch(1, 3, 3, NOW_MS + 3)


def test_each_of_the_last_five_batches_is_recognised_and_no_older_one() -> None:
    state = state_after(*[header(2 * step, count=2) for step in range(7)])

    for step in range(2, 7):
        duplicate = state.check([header(2 * step, count=2)])
        assert duplicate is not None
        assert (duplicate.first_offset, duplicate.last_offset) == (2 * step, 2 * step + 1)
    with pytest.raises(OutOfOrderSequence):
        state.check([header(2, count=2)])


def test_a_batch_of_another_size_is_no_repetition() -> None:
    state = state_after(header(0, count=2))

    with pytest.raises(OutOfOrderSequence):
        state.check([header(0, count=3)])


def test_a_new_epoch_begins_at_zero() -> None:
    state = state_after(header(0), header(1))

    assert state.check([header(0, epoch=1)]) is None
    with pytest.raises(OutOfOrderSequence, match="begins epoch 1 with sequence 2"):
        state.check([header(2, epoch=1)])


def test_an_old_epoch_is_fenced() -> None:
    state = state_after(header(0, epoch=3))

    with pytest.raises(InvalidProducerEpoch, match="has epoch 2, but 3 was seen"):
        state.check([header(1, epoch=2)])


def test_batches_of_one_append_follow_on_one_another() -> None:
    state = state_after(header(0))

    assert state.check([header(1, count=2), header(3)]) is None
    assert state.check([header(0, producer_id=4), header(1, producer_id=4)]) is None
    with pytest.raises(OutOfOrderSequence):
        state.check([header(1), header(3)])


def test_records_of_a_coordinator_have_no_sequence_but_an_epoch() -> None:
    state = state_after(header(0, epoch=2))

    assert state.check([header(-1, epoch=2)]) is None
    with pytest.raises(InvalidProducerEpoch):
        state.check([header(-1, epoch=1)])


def test_a_transaction_begins_with_its_first_batch_and_ends_with_its_marker() -> None:
    state = state_after(header(0, is_transactional=True), header(1, is_transactional=True))
    producer = state.get(9)
    assert producer is not None
    assert producer.transaction_start_offset == 0
    with pytest.raises(InvalidTransactionState):
        state.check([header(2)])

    marker = TransactionMarker(is_commit=True, coordinator_epoch=5)
    state.update_marker(header(-1), marker)

    assert (producer.transaction_start_offset, producer.coordinator_epoch) == (-1, 5)
    with pytest.raises(CoordinatorFenced):
        state.check_marker(header(-1), TransactionMarker(is_commit=False, coordinator_epoch=4))


def test_idle_producers_are_forgotten_unless_a_transaction_is_open() -> None:
    state = state_after(header(0, producer_id=1), header(0, producer_id=2, is_transactional=True))

    assert state.expire(NOW_MS + 999, expiration_ms=1000) == 0
    assert state.expire(NOW_MS + 1000, expiration_ms=1000) == 1
    assert [producer.producer_id for producer in state] == [2]


def produce(log: Log, sequence: int, *, epoch: int = 0) -> object:
    return append(log, make_batch(2, producer_id=9, producer_epoch=epoch, base_sequence=sequence))


async def test_a_repeated_batch_is_answered_and_not_written() -> None:
    log = Place().create()
    produce(log, 0)
    append(log, make_batch(1))

    info = append(log, make_batch(2, producer_id=9, producer_epoch=0, base_sequence=0))

    assert (info.first_offset, info.last_offset, info.is_duplicate) == (0, 1, True)
    assert log.end_offset == 3


async def test_a_refused_batch_changes_nothing() -> None:
    log = Place().create()
    produce(log, 0, epoch=1)

    for sequence, epoch, error in ((4, 1, OutOfOrderSequence), (2, 0, InvalidProducerEpoch)):
        with pytest.raises(error):
            produce(log, sequence, epoch=epoch)

    assert log.end_offset == 2
    produce(log, 2, epoch=1)


async def test_a_marker_in_the_log_ends_a_transaction_also_after_a_kill() -> None:
    place = Place()
    log = place.create()
    append(log, make_batch(2, producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True))
    commit = kernel.build_batch(
        [(NOW_MS, b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x07", ())],
        producer_id=9,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
    )
    append(log, commit)

    for known in (log.producers.get(9), (await place.kill()).producers.get(9)):
        assert known is not None
        assert (known.transaction_start_offset, known.coordinator_epoch) == (-1, 7)
        assert known.last_sequence == 1


async def test_a_marker_of_a_replaced_coordinator_is_refused() -> None:
    log = Place().create()

    def marker(coordinator_epoch: int) -> bytearray:
        value = b"\x00\x00" + coordinator_epoch.to_bytes(4, "big")
        return kernel.build_batch(
            [(NOW_MS, b"\x00\x00\x00\x00", value, ())],
            producer_id=9,
            producer_epoch=0,
            is_transactional=True,
            is_control=True,
        )

    append(log, marker(7))
    with pytest.raises(CoordinatorFenced):
        append(log, marker(6))
