"""Sequence numbers: when a batch may be sent, when it is retried, and when numbers restart."""

from __future__ import annotations

import pytest

from penstock.client.producer.idempotence import SEQUENCES, Idempotence, Numbering, ProducerIdAndEpoch
from penstock.protocol.errors import ErrorCode
from penstock.records.batch import PRODUCER_EPOCH_MAX
from penstock.records.producing import ProducerBatch


def batch(count: int = 1) -> ProducerBatch:
    made = ProducerBatch("orders", 0)
    for _ in range(count):
        made.append(0, None, b"v")
    return made


@pytest.fixture
def idempotence() -> Idempotence:
    made = Idempotence()
    made.take_identity(ProducerIdAndEpoch(7, 0))
    return made


@pytest.fixture
def numbering(idempotence: Idempotence) -> Numbering:
    """A partition whose log knows the producer."""
    found = idempotence.numbering("orders", 0)
    first = batch()
    idempotence.number(found, first)
    idempotence.acknowledged(found, first, 0)
    return found


def sent(idempotence: Idempotence, numbering: Numbering, *counts: int) -> list[ProducerBatch]:
    batches = [batch(count) for count in counts]
    for each in batches:
        assert idempotence.may_send(numbering, each)
        idempotence.number(numbering, each)
    return batches


def test_sequence_numbers_follow_each_other(idempotence: Idempotence, numbering: Numbering) -> None:
    batches = sent(idempotence, numbering, 3, 2, 1)
    assert [(each.producer_id, each.producer_epoch, each.base_sequence) for each in batches] == [
        (7, 0, 1),
        (7, 0, 4),
        (7, 0, 6),
    ]


def test_sequence_numbers_wrap(idempotence: Idempotence, numbering: Numbering) -> None:
    numbering.next_sequence, numbering.last_acked_sequence = SEQUENCES - 2, SEQUENCES - 3
    first, second = sent(idempotence, numbering, 5, 1)
    assert (first.base_sequence, second.base_sequence) == (SEQUENCES - 2, 3)
    idempotence.acknowledged(numbering, first, 10)
    assert numbering.last_acked_sequence == 2
    assert not idempotence.can_retry(numbering, second, ErrorCode.INVALID_RECORD, log_start_offset=0)


def test_nothing_is_sent_without_a_producer_id() -> None:
    idempotence = Idempotence()
    assert not idempotence.may_send(idempotence.numbering("orders", 0), batch())


def test_the_first_batch_goes_alone(idempotence: Idempotence) -> None:
    numbering = idempotence.numbering("orders", 0)
    (first,) = sent(idempotence, numbering, 1)
    assert not idempotence.may_send(numbering, batch())
    idempotence.acknowledged(numbering, first, 0)
    assert idempotence.may_send(numbering, batch())


def test_at_most_five_from_the_oldest_unanswered_batch(
    idempotence: Idempotence, numbering: Numbering
) -> None:
    batches = sent(idempotence, numbering, 1, 1, 1, 1, 1)
    assert not idempotence.may_send(numbering, batch())
    for each in batches[1:]:
        idempotence.acknowledged(numbering, each, 5)
    assert not idempotence.may_send(numbering, batch()), "a broker would have forgotten the oldest one"
    idempotence.acknowledged(numbering, batches[0], 1)
    assert idempotence.may_send(numbering, batch())


def test_retries_go_one_at_a_time_oldest_first(idempotence: Idempotence, numbering: Numbering) -> None:
    first, second = sent(idempotence, numbering, 1, 1)
    assert idempotence.may_send(numbering, first)
    assert not idempotence.may_send(numbering, second)
    idempotence.acknowledged(numbering, first, 1)
    assert idempotence.may_send(numbering, second)


def test_a_batch_after_a_rejected_one_waits_for_it(idempotence: Idempotence, numbering: Numbering) -> None:
    _, second = sent(idempotence, numbering, 1, 1)
    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert idempotence.can_retry(numbering, second, code, log_start_offset=0)
    assert not numbering.must_restart


def test_a_gap_restarts_sequence_numbers(idempotence: Idempotence, numbering: Numbering) -> None:
    first, second = sent(idempotence, numbering, 2, 1)
    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert idempotence.can_retry(numbering, first, code, log_start_offset=0)
    assert not idempotence.may_send(numbering, first)
    assert not idempotence.settle(numbering)

    assert idempotence.identity == (7, 1)
    assert [(each.producer_epoch, each.base_sequence) for each in (first, second)] == [(1, 0), (1, 2)]
    assert numbering.next_sequence == 3


def test_a_new_epoch_does_not_save_a_transaction(numbering: Numbering) -> None:
    transactional = Idempotence(is_transactional=True)
    transactional.take_identity(ProducerIdAndEpoch(7, 0))
    numbering = transactional.numbering("orders", 0)
    (first,) = sent(transactional, numbering, 1)
    for code in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID):
        numbering.last_acked_offset = 10
        assert not transactional.can_retry(numbering, first, code, log_start_offset=5)


@pytest.mark.parametrize("is_transactional", [True, False])
def test_a_producer_that_retention_forgot_restarts_its_numbers(is_transactional: bool) -> None:
    idempotence = Idempotence(is_transactional=is_transactional)
    idempotence.take_identity(ProducerIdAndEpoch(7, 0))
    numbering = idempotence.numbering("orders", 0)
    (first,) = sent(idempotence, numbering, 1)
    code = ErrorCode.UNKNOWN_PRODUCER_ID
    assert idempotence.can_retry(numbering, first, code, log_start_offset=-1)
    assert not numbering.must_restart
    assert idempotence.can_retry(numbering, first, code, log_start_offset=5)
    assert numbering.must_restart
    idempotence.settle(numbering)
    assert first.base_sequence == 0


def test_a_rejected_batch_leaves_no_gap(idempotence: Idempotence, numbering: Numbering) -> None:
    first, second = sent(idempotence, numbering, 2, 2)
    idempotence.failed(numbering, first)
    idempotence.settle(numbering)
    assert (second.producer_epoch, second.base_sequence) == (1, 0)


def test_an_expired_batch_is_resolved_when_nothing_is_in_flight(
    idempotence: Idempotence, numbering: Numbering
) -> None:
    first, second = sent(idempotence, numbering, 1, 1)
    idempotence.given_up(numbering, first)
    assert not idempotence.may_send(numbering, batch())
    idempotence.acknowledged(numbering, second, 3)
    idempotence.settle(numbering)
    assert idempotence.identity == (7, 0), "the one behind it was taken, so it was too"
    (third,) = sent(idempotence, numbering, 1)
    idempotence.given_up(numbering, third)
    idempotence.settle(numbering)
    assert idempotence.identity == (7, 1)
    assert idempotence.may_send(numbering, batch())


def test_other_partitions_take_the_new_epoch_when_idle(idempotence: Idempotence) -> None:
    busy = idempotence.numbering("orders", 1)
    (first,) = sent(idempotence, busy, 1)
    idempotence.acknowledged(busy, first, 0)
    (second,) = sent(idempotence, busy, 1)
    idempotence.take_identity(ProducerIdAndEpoch(7, 1))
    assert not idempotence.may_send(busy, batch())
    assert (second.producer_epoch, second.base_sequence) == (0, 1)
    idempotence.acknowledged(busy, second, 1)
    (third,) = sent(idempotence, busy, 1)
    assert (third.producer_epoch, third.base_sequence) == (1, 0)


def test_after_the_last_epoch_a_new_id_is_needed(idempotence: Idempotence, numbering: Numbering) -> None:
    idempotence.take_identity(ProducerIdAndEpoch(7, PRODUCER_EPOCH_MAX))
    numbering.must_restart = True
    assert idempotence.settle(numbering)
    assert not idempotence.identity.is_known


def test_parts_of_a_split_batch_have_its_numbers(idempotence: Idempotence, numbering: Numbering) -> None:
    whole, following = sent(idempotence, numbering, 5, 1)
    parts = [batch(2), batch(3)]
    idempotence.split(numbering, whole, parts)
    assert [part.base_sequence for part in parts] == [1, 3]
    assert numbering.numbered == [*parts, following]


def test_the_end_of_a_transaction_restarts_numbers_if_the_epoch_is_new(idempotence: Idempotence) -> None:
    numbering = idempotence.numbering("orders", 0)
    (first,) = sent(idempotence, numbering, 3)
    idempotence.acknowledged(numbering, first, 0)
    idempotence.restart(ProducerIdAndEpoch(7, 0))
    assert numbering.next_sequence == 3
    idempotence.restart(ProducerIdAndEpoch(7, 1))
    assert numbering.next_sequence == 0
