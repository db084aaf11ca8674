"""Idempotent producers: which batches are accepted, duplicates or refused."""

from __future__ import annotations

import pytest

from harness.storage import NOW_MS, Place, append, append_in_transaction, append_marker, make_batch
from penstock.records import kernel
from penstock.records.batch import BatchHeader
from penstock.records.control import EndTransactionMarker, TxnMarkerEntry
from penstock.storage.errors import (
    CoordinatorFenced,
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
)
from penstock.storage.log import Log
from penstock.storage.producer_state import ProducedBatch, ProducerState
from penstock.storage.transactions.aborted import AbortedTxn
from penstock.storage.transactions.guards import VerificationGuard

LAST = 2**31 - 1


def header(
    sequence: int, *, count: int = 1, epoch: int = 0, producer_id: int = 9, **fields: object
) -> BatchHeader:
    batch = make_batch(count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, **fields)
    return kernel.read_header(batch, 0)


def allow(state: ProducerState, one: BatchHeader) -> VerificationGuard | None:
    """The guard that a positive answer of the coordinator would give, if one is needed."""
    if not one.is_transactional:
        return None
    return state.start_verification(
        one.producer_id, one.producer_epoch, one.base_sequence, is_version_2=False, now_ms=NOW_MS
    )


def ended(
    *, epoch: int = 0, coordinator_epoch: int = 1, version: int = 1, is_commit: bool = True
) -> TxnMarkerEntry:
    return TxnMarkerEntry(9, epoch, coordinator_epoch, is_commit, version)


def state_after(*headers: BatchHeader) -> ProducerState:
    state, offset = ProducerState(), 0
    for one in headers:
        assert state.check([one], allow(state, one)) is None
        state.update(one, base_offset=offset)
        offset += one.last_offset_delta + 1
    return state


@pytest.mark.parametrize("sequence", [0, 5, LAST])
def test_an_unknown_producer_may_begin_at_any_sequence(sequence: int) -> None:
    assert ProducerState().check([header(sequence)]) is None


def test_a_batch_must_continue_the_sequence() -> None:
    state = state_after(header(0, count=3))

    assert state.check([header(3)]) is None
    for wrong in (1, 4, 100):
        with pytest.raises(OutOfOrderSequence, match="but 3 was expected"):
            state.check([header(wrong)])


def test_sequences_wrap_to_zero() -> None:
    state = state_after(header(LAST - 1, count=2))

    assert state.check([header(0)]) is None
    across = state_after(header(LAST - 1, count=4))
    assert across.check([header(2)]) is None
    assert across.check([header(LAST - 1, count=4)]) == ProducedBatch(1, 3, 3, NOW_MS + 3)


def test_only_the_last_five_batches_are_recognized_as_duplicates() -> None:
    state = state_after(*[header(2 * step, count=2) for step in range(7)])

    for step in range(2, 7):
        duplicate = state.check([header(2 * step, count=2)])
        assert duplicate is not None
        assert (duplicate.first_offset, duplicate.last_offset) == (2 * step, 2 * step + 1)
    with pytest.raises(OutOfOrderSequence):
        state.check([header(2, count=2)])


def test_a_batch_of_another_size_is_not_a_duplicate() -> None:
    state = state_after(header(0, count=2))

    with pytest.raises(OutOfOrderSequence):
        state.check([header(0, count=3)])


def test_a_new_epoch_begins_at_zero() -> None:
    state = state_after(header(0), header(1))

    assert state.check([header(0, epoch=1)]) is None
    with pytest.raises(OutOfOrderSequence, match="began epoch 1 with sequence 2"):
        state.check([header(2, epoch=1)])


def test_an_old_epoch_is_fenced() -> None:
    state = state_after(header(0, epoch=3))

    with pytest.raises(InvalidProducerEpoch, match="has epoch 2, older than the last seen epoch 3"):
        state.check([header(1, epoch=2)])


def test_batches_of_one_append_continue_the_sequence() -> None:
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

    state.update_marker(header(-1), EndTransactionMarker(is_commit=True, coordinator_epoch=5), base_offset=2)

    assert (producer.transaction_start_offset, producer.coordinator_epoch) == (-1, 5)
    with pytest.raises(CoordinatorFenced):
        state.check_marker(ended(coordinator_epoch=4))


def test_a_batch_begins_a_transaction_only_with_a_valid_guard() -> None:
    state = ProducerState()
    first = header(0, is_transactional=True)
    with pytest.raises(InvalidTransactionState):
        state.check([first])
    stale = allow(state, first)
    state.update_marker(header(-1), EndTransactionMarker(is_commit=False, coordinator_epoch=1), base_offset=0)
    with pytest.raises(InvalidTransactionState):
        state.check([first], stale)

    assert state.check([first], allow(state, first)) is None
    state.update(first, base_offset=1)

    assert state.check([header(1, is_transactional=True)]) is None
    assert state.check([first]) is not None, "a repetition needs no guard"


def test_a_duplicate_is_recognized_after_its_transaction_has_ended() -> None:
    state = state_after(header(0, is_transactional=True))
    state.update_marker(header(-1), EndTransactionMarker(is_commit=True, coordinator_epoch=1), base_offset=1)

    assert state.check([header(0, is_transactional=True)]) == ProducedBatch(0, 0, 0, NOW_MS)
    with pytest.raises(InvalidTransactionState):
        state.check([header(1, is_transactional=True)])


def test_a_guard_for_an_unknown_epoch_does_not_block_the_producer() -> None:
    state = state_after(header(0, epoch=3, is_transactional=True))
    state.start_verification(9, 4, 0, is_version_2=True, now_ms=NOW_MS)  # its coordinator will refuse

    assert state.check([header(1, epoch=3, is_transactional=True)]) is None


def test_a_guard_for_an_unknown_epoch_does_not_admit_other_epochs() -> None:
    state = ProducerState()
    state.start_verification(9, 4, 0, is_version_2=True, now_ms=NOW_MS)
    guard = state.start_verification(9, 3, 1, is_version_2=True, now_ms=NOW_MS)

    with pytest.raises(OutOfOrderSequence):
        state.check([header(1, epoch=3, is_transactional=True)], guard)
    state.start_verification(9, 4, 0, is_version_2=True, now_ms=NOW_MS)
    first = header(0, epoch=3, is_transactional=True)
    assert state.check([first], state.start_verification(9, 3, 0, is_version_2=True, now_ms=NOW_MS)) is None
    with pytest.raises(InvalidTransactionState):
        state.check([header(0, epoch=4, is_transactional=True)], guard)


def test_a_newer_epoch_does_not_continue_the_transaction_of_an_older_one_without_a_guard() -> None:
    state = state_after(header(0, is_transactional=True))

    with pytest.raises(InvalidTransactionState):
        state.check([header(0, epoch=1, is_transactional=True)])


def test_an_old_epoch_gets_no_guard() -> None:
    state = state_after(header(0, epoch=3, is_transactional=True))

    with pytest.raises(InvalidProducerEpoch):
        state.check([header(1, epoch=2, is_transactional=True)])
    with pytest.raises(InvalidProducerEpoch):
        state.start_verification(9, 2, 0, is_version_2=True, now_ms=NOW_MS)


@pytest.mark.parametrize("version", [0, 1])
def test_a_marker_of_the_first_version_has_the_epoch_of_its_transaction_or_a_newer_one(version: int) -> None:
    state = state_after(header(0, epoch=3, is_transactional=True))

    state.check_marker(ended(epoch=3, version=version))
    state.check_marker(ended(epoch=4, version=version))
    with pytest.raises(InvalidProducerEpoch):
        state.check_marker(ended(epoch=2, version=version))


def test_a_marker_of_the_second_version_has_a_newer_epoch_than_its_transaction() -> None:
    state = state_after(header(0, epoch=3, is_transactional=True))

    with pytest.raises(InvalidProducerEpoch):
        state.check_marker(ended(epoch=3, version=2))
    state.check_marker(ended(epoch=4, version=2))


def test_a_marker_of_the_second_version_may_be_written_again_when_nothing_is_open() -> None:
    state = state_after(header(0, epoch=3, is_transactional=True))
    state.update_marker(
        header(-1, epoch=4), EndTransactionMarker(is_commit=True, coordinator_epoch=1), base_offset=1
    )

    state.check_marker(ended(epoch=4, version=2))
    with pytest.raises(InvalidProducerEpoch):
        state.check_marker(ended(epoch=3, version=2))


def test_a_marker_with_the_largest_epoch_ends_a_transaction_of_that_epoch() -> None:
    state = state_after(header(0, epoch=2**15 - 1, is_transactional=True))

    state.check_marker(ended(epoch=2**15 - 1, version=2))


def test_after_a_marker_with_a_newer_epoch_sequences_begin_at_zero() -> None:
    state = state_after(header(0, is_transactional=True), header(1, is_transactional=True))
    state.update_marker(
        header(-1, epoch=1), EndTransactionMarker(is_commit=True, coordinator_epoch=1), base_offset=2
    )
    guard = state.start_verification(9, 1, 0, is_version_2=True, now_ms=NOW_MS)

    assert state.check([header(0, epoch=1, is_transactional=True)], guard) is None
    with pytest.raises(OutOfOrderSequence):
        state.check([header(2, epoch=1, is_transactional=True)], guard)


def test_after_a_marker_of_the_same_epoch_sequences_continue() -> None:
    state = state_after(header(0, is_transactional=True), header(1, is_transactional=True))
    state.update_marker(header(-1), EndTransactionMarker(is_commit=True, coordinator_epoch=1), base_offset=2)
    guard = state.start_verification(9, 0, 2, is_version_2=False, now_ms=NOW_MS)

    assert state.check([header(2, is_transactional=True)], guard) is None


def test_a_later_batch_does_not_overtake_one_that_is_being_verified() -> None:
    state = ProducerState()
    guard = state.start_verification(9, 0, 4, is_version_2=False, now_ms=NOW_MS)
    assert state.start_verification(9, 0, 6, is_version_2=False, now_ms=NOW_MS) is guard

    with pytest.raises(OutOfOrderSequence, match="sequence 6 before 4"):
        state.check([header(6, is_transactional=True)], guard)
    assert state.check([header(4, is_transactional=True)], guard) is None

    newer = state.start_verification(9, 1, 7, is_version_2=False, now_ms=NOW_MS)
    assert state.check([header(7, epoch=1, is_transactional=True)], newer) is None, "a new epoch counts anew"


@pytest.mark.parametrize("is_version_2", [True, False])
def test_a_guard_taken_after_the_transaction_has_begun_blocks_no_batch(is_version_2: bool) -> None:
    """As a batch of a broken connection that arrives again on the next one, and there first."""
    state = state_after(header(0, is_transactional=True))
    late = state.start_verification(9, 0, 0, is_version_2=is_version_2, now_ms=NOW_MS)

    assert state.check([header(1, is_transactional=True)]) is None
    repeated = state.check([header(0, is_transactional=True)], late)
    assert repeated is not None
    assert repeated.last_offset == 0


def test_with_version_2_an_unknown_producer_begins_at_zero() -> None:
    state = ProducerState()
    guard = state.start_verification(9, 0, 3, is_version_2=True, now_ms=NOW_MS)

    with pytest.raises(OutOfOrderSequence, match="sequence 3, not 0"):
        state.check([header(3, is_transactional=True)], guard)


def test_records_of_a_coordinator_need_a_guard_too_but_no_sequence() -> None:
    state = ProducerState()
    offsets = header(-1, is_transactional=True)
    with pytest.raises(InvalidTransactionState):
        state.check([offsets])

    assert state.check([offsets], allow(state, offsets)) is None
    state.update(offsets, base_offset=0)
    state.update_marker(header(-1), EndTransactionMarker(is_commit=True, coordinator_epoch=1), base_offset=1)

    with pytest.raises(InvalidTransactionState):
        state.check([offsets])


def test_an_aborted_transaction_has_the_last_stable_offset_after_its_marker() -> None:
    state = state_after(
        header(0, producer_id=1, is_transactional=True), header(0, producer_id=2, is_transactional=True)
    )
    abort, commit = EndTransactionMarker(False, 0), EndTransactionMarker(True, 0)

    assert state.update_marker(header(-1, producer_id=2), abort, base_offset=2) == AbortedTxn(2, 1, 2, 0)
    assert state.update_marker(header(-1, producer_id=1), commit, base_offset=3) is None
    assert state.update_marker(header(-1, producer_id=1), abort, base_offset=4) is None, "nothing was open"


def test_idle_producers_expire_unless_a_transaction_is_open() -> None:
    state = state_after(header(0, producer_id=1), header(0, producer_id=2, is_transactional=True))

    assert state.expire(NOW_MS + 999, expiration_ms=1000) == 0
    assert state.expire(NOW_MS + 1000, expiration_ms=1000) == 1
    assert [producer.producer_id for producer in state] == [2]


def test_a_guard_without_a_batch_expires_with_idle_producers() -> None:
    state = ProducerState()
    state.start_verification(9, 0, 0, is_version_2=False, now_ms=NOW_MS)

    state.expire(NOW_MS + 999, expiration_ms=1000)
    assert len(state.guards) == 1
    state.expire(NOW_MS + 1000, expiration_ms=1000)
    assert len(state.guards) == 0


def produce(log: Log, sequence: int, *, epoch: int = 0) -> object:
    return append(log, make_batch(2, producer_id=9, producer_epoch=epoch, base_sequence=sequence))


async def test_a_duplicate_is_not_written_again() -> None:
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
    append_in_transaction(log, 9, 0, count=2)
    append_marker(log, 9, coordinator_epoch=7)

    for known in (log.producers.get(9), (await place.kill()).producers.get(9)):
        assert known is not None
        assert (known.transaction_start_offset, known.coordinator_epoch) == (-1, 7)
        assert known.last_sequence == 1


async def test_a_marker_of_a_replaced_coordinator_is_refused() -> None:
    log = Place().create()

    append_marker(log, 9, coordinator_epoch=7)
    with pytest.raises(CoordinatorFenced):
        append_marker(log, 9, coordinator_epoch=6)

    assert log.end_offset == 1
