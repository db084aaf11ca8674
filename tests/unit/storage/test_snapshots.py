"""Producer snapshots: Kafka's format, and damaged files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.storage.errors import CorruptFile
from penstock.storage.producer_state import ProducedBatch, Producer, ProducerState
from penstock.storage.snapshots import SnapshotFiles, decode, encode
from simulator.disk import SimulatedDisk


@st.composite
def producers(draw: st.DrawFn) -> Producer:
    producer = Producer(draw(st.integers(0, 2**62)))
    producer.epoch = draw(st.integers(0, 2**15 - 1))
    producer.last_timestamp_ms = draw(st.integers(-1, 2**50))
    producer.coordinator_epoch = draw(st.integers(-1, 2**31 - 1))
    producer.transaction_start_offset = draw(st.integers(-1, 2**50))
    if draw(st.booleans()):
        last_offset = draw(st.integers(0, 2**50))
        sequence = draw(st.integers(0, 2**31 - 1))
        producer.batches.append(ProducedBatch(sequence, last_offset, 3, producer.last_timestamp_ms))
    return producer


def fields(producer: Producer) -> list[object]:
    return [getattr(producer, name) for name in Producer.__slots__]


@given(st.lists(producers(), max_size=5))
def test_what_is_encoded_is_decoded(some: list[Producer]) -> None:
    assert [fields(p) for p in decode(encode(some))] == [fields(p) for p in some]


def test_the_bytes_are_kafkas() -> None:
    producer = Producer(1)
    producer.epoch = 2
    producer.batches = [ProducedBatch(3, 4, 5, 6)]
    producer.last_timestamp_ms = 6

    data = encode([producer])

    assert data[:2] == b"\x00\x01"
    assert data[6:10] == b"\x00\x00\x00\x01"
    assert data[10:].hex() == (
        "0000000000000001" "0002" "00000003" "0000000000000004" "00000005" "0000000000000006" "ffffffff"
        "ffffffffffffffff"
    )  # fmt: skip


@given(st.binary(max_size=80))
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptFile):
        decode(data)


@given(st.data())
def test_a_torn_or_damaged_snapshot_is_refused(data: st.DataObject) -> None:
    whole = bytearray(encode([Producer(1), Producer(2)]))
    if data.draw(st.booleans()):
        del whole[data.draw(st.integers(0, len(whole) - 1)) :]
    else:
        whole[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))

    with pytest.raises(CorruptFile):
        decode(bytes(whole))


def test_the_newest_readable_one_is_loaded() -> None:
    disk = SimulatedDisk()
    disk.make_directory("/log")
    files = SnapshotFiles(disk, "/log", ())
    for offset in (10, 20, 30):
        assert files.save(offset, ProducerState([Producer(offset)])) is not None
    assert files.save(20, ()) is None
    disk.overwrite("/log/00000000000000000020.snapshot", 0, b"\xff")

    assert [p.producer_id for p in (files.load(end_offset=30) or (0, []))[1]] == [30]
    assert (files.load(end_offset=29) or (0, []))[0] == 10
    assert files.load(end_offset=9) is None
    assert files.offsets() == [10, 30]
    files.remove_above(10)
    assert disk.list("/log") == ["00000000000000000010.snapshot"]
