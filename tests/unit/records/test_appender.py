"""The batches of producers, and the receipts of their records."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.records import batches as reference
from penstock.records.batch import Compression
from penstock.records.delivery import Delivery
from penstock.records.producing import ProducerBatch, Receipt, murmur2
from strategies.records import CODECS, NEW_RECORDS

NUMBERS = st.tuples(st.integers(-1, 2**63 - 1), st.integers(-1, 2**15 - 1), st.integers(-1, 2**31 - 1))

# Results of Kafka's Utils.murmur2.
KAFKA_HASHES = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def filled(records: list[Any], numbers: tuple[int, int, int] = (-1, -1, -1)) -> ProducerBatch:
    batch = ProducerBatch("orders", 3)
    batch.producer_id, batch.producer_epoch, batch.base_sequence = numbers
    for record in records:
        batch.append(*record)
    return batch


@settings(max_examples=200, deadline=None)
@given(st.lists(NEW_RECORDS, min_size=1, max_size=8), CODECS, NUMBERS, st.booleans())
def test_a_sealed_batch_equals_that_of_the_builder(
    records: list[Any], codec: Compression, numbers: tuple[int, int, int], is_transactional: bool
) -> None:
    expected = reference.build_batch(
        records,
        compression=codec,
        producer_id=numbers[0],
        producer_epoch=numbers[1],
        base_sequence=numbers[2],
        is_transactional=is_transactional,
    )

    batch = filled(records, numbers)

    assert bytes(batch.seal(codec, None, is_transactional)) == bytes(expected)


@settings(max_examples=100, deadline=None)
@given(st.lists(NEW_RECORDS, min_size=1, max_size=8), CODECS, st.integers(1, 8), st.sampled_from([-1, 0, 50]))
def test_a_split_fills_each_part(
    records: list[Any], codec: Compression, fitting: int, spare_bytes: int
) -> None:
    batch = filled(records)
    batch.seal(codec)
    *before, last = records[:fitting]
    limit = len(reference.build_batch(before)) if before else 0
    limit += len(last.key or b"") + len(last.value or b"") + spare_bytes
    groups: list[list[Any]] = []
    for record in records:
        size = len(record.key or b"") + len(record.value or b"")
        if groups and len(reference.build_batch(groups[-1])) + size <= limit:
            groups[-1].append(record)
        else:
            groups.append([record])

    parts = batch.split(limit)

    assert [bytes(part.seal()) for part in parts] == [bytes(reference.build_batch(group)) for group in groups]


def test_keys_are_hashed_as_by_kafka() -> None:
    assert {key: murmur2(key) for key in KAFKA_HASHES} == KAFKA_HASHES


def test_a_batch_can_be_sealed_again_with_another_epoch() -> None:
    batch = filled([(5, b"k", b"v")] * 3)
    first = bytes(batch.seal(Compression.LZ4))
    batch.producer_id, batch.producer_epoch, batch.base_sequence = 7, 1, 30
    header = reference.check_batch(batch.seal(Compression.LZ4))

    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 30)
    assert reference.read_payload(first) == reference.read_payload(batch.seal())


def test_a_sealed_batch_accepts_no_more_records() -> None:
    batch = filled([(5, b"k", b"v")])
    batch.seal()

    with pytest.raises(ValueError, match="sealed"):
        batch.append(5, b"k", b"v")


@pytest.mark.parametrize("bad", [1, {"a": 1}, [("a",)], [(1, b"x")], [("a", 1.5)]])
def test_headers_of_a_wrong_type_are_rejected(bad: Any) -> None:
    batch = ProducerBatch("orders", 0)

    with pytest.raises(TypeError):
        batch.append(1, None, b"v", bad)

    assert batch.record_count == 0


def test_receipts_return_the_offset_of_each_record() -> None:
    batch = ProducerBatch("orders", 3)
    receipts = [batch.append(100 + number, None, b"v") for number in range(3)]
    assert not receipts[0].done()
    assert "pending" in repr(receipts[0])

    batch.complete(40)

    assert [receipt.result() for receipt in receipts] == [
        Delivery("orders", 3, 40 + number, 100 + number) for number in range(3)
    ]
    assert receipts[0].exception() is None
    assert (receipts[0].topic, receipts[0].partition) == ("orders", 3)


def test_with_log_append_time_receipts_return_the_brokers_timestamp() -> None:
    batch = ProducerBatch("orders", 3)
    receipt = batch.append(100, None, b"v")
    batch.complete(40, 999)

    assert receipt.result().timestamp_ms == 999


def test_without_a_base_offset_receipts_have_no_offset() -> None:
    batch = ProducerBatch("orders", 3)
    receipts = [batch.append(100, None, b"v") for _ in range(2)]
    batch.complete(-1)

    assert [receipt.result().offset for receipt in receipts] == [-1, -1]


def test_a_failure_is_raised_for_every_record_with_its_own_message() -> None:
    batch = ProducerBatch("orders", 3)
    receipts = [batch.append(100, None, b"v") for _ in range(2)]
    batch.fail(ValueError("the batch"), {1: ValueError("this one")})

    with pytest.raises(ValueError, match="the batch"):
        receipts[0].result()
    assert str(receipts[1].exception()) == "this one"
    assert "failed" in repr(receipts[1])


def test_a_failure_that_the_application_has_not_seen_is_known() -> None:
    batch = ProducerBatch("orders", 3)
    receipts = [batch.append(100, None, b"v") for _ in range(2)]
    batch.fail(ValueError("no"))

    asked = []
    for receipt in receipts:
        asked.append(batch.has_unasked_failure)
        receipt.exception()
        receipt.exception()

    assert [*asked, batch.has_unasked_failure] == [True, True, False]


def test_callbacks_may_be_added_before_or_after_completion(caplog: pytest.LogCaptureFixture) -> None:
    reported: list[Any] = []
    batch = ProducerBatch("orders", 3)
    receipt = batch.append(100, None, b"v")
    receipt.add_done_callback(lambda each: 1 / 0)
    receipt.add_done_callback(reported.append)
    batch.complete(40)
    receipt.add_done_callback(reported.append)

    assert reported == [receipt, receipt]
    assert "a callback of a receipt raised" in caplog.text


def test_after_a_split_a_wait_continues_in_the_part_that_has_the_record() -> None:
    waited: list[Any] = []

    class Waiting:
        def wait_for(self, batch: Any, timeout: float | None) -> None:
            assert not batch.wait_for_change(0)
            waited.append(batch)
            if len(waited) == 1:
                parts.extend(batch.split(0))
                assert batch.wait_for_change(0)
            else:
                batch.complete(50 + parts.index(batch))

    parts: list[Any] = []
    reported: list[Any] = []
    batch = ProducerBatch("orders", 3, Waiting())
    receipts = [batch.append(100 + number, None, b"v") for number in range(3)]
    receipts[1].add_done_callback(reported.append)
    batch.seal()

    assert receipts[2].result(5).offset == 52
    assert waited == [batch, parts[2]]
    assert not receipts[1].done()
    parts[1].fail(ValueError("no"))
    assert reported == [receipts[1]]
    assert not parts[1].has_unasked_failure


def test_all_threads_that_wait_for_a_batch_are_woken() -> None:
    """Two threads that began to wait at the same moment each had an event, and one of them was never set."""

    class Waiting:
        def wait_for(self, batch: Any, timeout: float | None) -> None:
            assert batch.wait_for_change(timeout)

    for _ in range(50):
        batch = ProducerBatch("orders", 3, Waiting())
        receipts = [batch.append(100, None, b"v") for _ in range(8)]
        reported: list[Any] = []
        begin = threading.Barrier(len(receipts) + 1)

        def ask(receipt: Any, begin: threading.Barrier = begin, reported: list[Any] = reported) -> None:
            begin.wait()
            receipt.add_done_callback(lambda each: reported.append("callback"))
            reported.append(receipt.result(30).offset)

        threads = [threading.Thread(target=ask, args=(receipt,)) for receipt in receipts]
        for thread in threads:
            thread.start()
        begin.wait()
        batch.complete(0)
        for thread in threads:
            thread.join(30)

        assert sorted(map(str, reported)) == sorted([str(number) for number in range(8)] + ["callback"] * 8)


async def test_a_receipt_can_be_awaited() -> None:
    async def deliver(receipt: Any) -> Delivery:
        delivered: Delivery = await receipt
        return delivered

    batch = ProducerBatch("orders", 3)
    receipts = [batch.append(100, None, b"v") for _ in range(3)]
    waiting = [asyncio.create_task(deliver(receipt)) for receipt in receipts[:2]]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    batch.complete(40)

    assert (await waiting[1]).offset == 41
    assert (await receipts[2]).offset == 42
    assert waiting[0].cancelled()


async def test_a_receipt_that_is_awaited_can_be_completed_by_another_thread() -> None:
    batch = ProducerBatch("orders", 3)
    receipt = batch.append(100, None, b"v")

    async def deliver() -> Delivery:
        delivered: Delivery = await receipt
        return delivered

    waiting = asyncio.create_task(deliver())
    await asyncio.sleep(0)
    thread = threading.Thread(target=batch.complete, args=(40,))
    thread.start()

    assert (await waiting).offset == 40
    thread.join()


async def test_awaiting_a_receipt_on_the_same_loop_needs_no_system_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batch = ProducerBatch("orders", 3)
    receipt = batch.append(100, None, b"v")
    loop = asyncio.get_running_loop()

    async def deliver() -> Delivery:
        delivered: Delivery = await receipt
        return delivered

    waiting = asyncio.create_task(deliver())
    await asyncio.sleep(0)
    monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *_: pytest.fail("woken as by another thread"))
    batch.complete(40)

    assert (await waiting).offset == 40


def test_a_receipt_cannot_be_constructed() -> None:
    with pytest.raises(TypeError):
        Receipt()
