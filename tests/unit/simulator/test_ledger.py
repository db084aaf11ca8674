"""Promises about records: what breaks them, and what does not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from penstock.protocol.types import Uuid
from simulator.checks.ledger import FoundRecord, Ledger, PartitionLedger, make_value
from simulator.simulation import BrokenPromise

TOPIC_ID = Uuid(bytes(range(16)))


def value(number: int, *, producer: str = "p", generation: int = 0) -> bytes:
    return make_value(producer, generation, number, padding=3)


def ledger_with(*values: bytes, is_durable: bool = True) -> PartitionLedger:
    ledger = PartitionLedger("t-0", is_durable=is_durable)
    ledger.sent.update(values)
    ledger.acknowledged(0, values)
    return ledger


def found(values: Sequence[bytes], *, base_offset: int = 0, leader_epoch: int = 0) -> list[FoundRecord]:
    return [FoundRecord(offset, leader_epoch, each) for offset, each in enumerate(values, base_offset)]


def check(ledger: PartitionLedger, records: list[FoundRecord], *, start_offset: int = 0) -> None:
    for record in records:
        ledger.read(record)
    end_offset = start_offset + len(records)
    ledger.check_log(start_offset, records, promised=dict(ledger.promised), end_offset=end_offset)


def test_a_log_with_all_acknowledged_records_passes() -> None:
    values = [value(0), value(1)]

    check(ledger_with(*values), found(values))


def test_a_missing_acknowledged_record_is_noticed() -> None:
    with pytest.raises(BrokenPromise, match="1 promised records from offset 1 on are lost"):
        check(ledger_with(value(0), value(1)), found([value(0)]))


def test_a_different_record_at_an_acknowledged_offset_is_noticed() -> None:
    ledger = ledger_with(value(0))
    ledger.sent.add(value(1))

    with pytest.raises(BrokenPromise, match="was promised there"):
        check(ledger, found([value(1)]))
    with pytest.raises(BrokenPromise, match="was promised there"):
        ledger.acknowledged(0, [value(1)])


def test_a_record_that_no_client_sent_is_noticed() -> None:
    with pytest.raises(BrokenPromise, match="which no client sent here"):
        check(ledger_with(), found([value(0)]))


@pytest.mark.parametrize("values", [[value(0), value(0)], [value(1), value(0)]])
def test_a_duplicate_or_out_of_order_record_is_noticed(values: list[bytes]) -> None:
    with pytest.raises(BrokenPromise, match="duplicate or out of order"):
        check(ledger_with(*values), found(values))


def test_a_later_generation_may_send_the_same_numbers_again() -> None:
    values = [value(0), value(1), value(0, generation=1), value(0, producer="q")]

    check(ledger_with(*values), found(values))


def test_a_power_cut_may_take_only_the_end_of_a_log_that_is_not_durable() -> None:
    values = [value(0), value(1)]
    ledger = ledger_with(*values, is_durable=False)
    check(ledger, found(values))
    ledger.power_lost()
    assert ledger.is_doubtful
    ledger.found_after_power_cut(1)
    ledger.sent.add(value(2))
    ledger.acknowledged(1, [value(2)])

    with pytest.raises(BrokenPromise, match="both in leader epoch 0"):
        check(ledger, found([value(0), value(2)]))
    check(ledger, found([value(0)]) + found([value(2)], base_offset=1, leader_epoch=1))
    with pytest.raises(BrokenPromise):
        check(ledger, found([value(2), value(0)]))


def test_a_power_cut_takes_nothing_from_a_durable_log() -> None:
    ledger = ledger_with(value(0))
    ledger.power_lost()

    assert not ledger.is_doubtful
    assert ledger.end_of_promises() == 1


def test_a_log_starts_where_records_were_deleted() -> None:
    values = [value(number) for number in range(4)]
    ledger = ledger_with(*values)
    ledger.deletion_asked(3)
    ledger.deletion_acknowledged(2, now=10)

    check(ledger, found(values[2:], base_offset=2), start_offset=2)
    check(ledger, found(values), start_offset=0)
    with pytest.raises(BrokenPromise, match="on was deleted"):
        check(ledger, [], start_offset=4)
    ledger.node_ended(persisted_until=9)
    check(ledger, found(values), start_offset=0)
    ledger.deletion_acknowledged(2, now=20)
    ledger.node_ended(persisted_until=21)
    with pytest.raises(BrokenPromise, match="was deleted durably"):
        check(ledger, found(values), start_offset=0)


def test_a_deleted_topic_promises_nothing() -> None:
    ledger = Ledger()
    partition = ledger.get("durable-t", TOPIC_ID, 0)
    partition.sent.add(value(0))
    partition.acknowledged(0, [value(0)])
    ledger.forget(TOPIC_ID)

    partition.read(FoundRecord(0, 0, b"late responses"))
    partition.acknowledged(0, [value(1)])


def test_a_producer_id_assigned_twice_is_noticed() -> None:
    ledger = Ledger()
    ledger.producer_id_given(7)

    with pytest.raises(BrokenPromise, match="producer id 7"):
        ledger.producer_id_given(7)
