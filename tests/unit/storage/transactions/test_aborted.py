"""The transaction index of a segment, in memory and in Kafka's file."""

from __future__ import annotations

import random

import pytest

from penstock.storage.errors import CorruptFile
from penstock.storage.transactions.aborted import (
    BLOCK_ENTRIES,
    AbortedTransaction,
    AbortedTxn,
    FileTransactionIndex,
    MemoryTransactionIndex,
)
from simulator.disk import SimulatedDisk

KAFKAS_ENTRY = bytes.fromhex("00000000000000000009000000000000010200000000000003040000000000000203")
"""Version 0, producer 9, from 258 to 772, when the last stable offset was 515."""


def live(*entries: tuple[int, int, int, int]) -> MemoryTransactionIndex:
    index = MemoryTransactionIndex()
    for fields in entries:
        index.add(AbortedTxn(*fields))
    return index


def stored(data: bytes) -> FileTransactionIndex:
    disk = SimulatedDisk()
    disk.write_file("/0.txnindex", data)
    return FileTransactionIndex(lambda: disk.open("/0.txnindex"))


def collect(
    index: MemoryTransactionIndex | FileTransactionIndex, start: int, end: int
) -> tuple[list[int], bool]:
    found: list[AbortedTransaction] = []
    is_complete = index.collect(start, end, found)
    return [transaction.first_offset for transaction in found], is_complete


def test_an_entry_is_written_as_kafka_writes_it() -> None:
    assert live((9, 258, 772, 515)).encode() == KAFKAS_ENTRY
    assert MemoryTransactionIndex.decode(KAFKAS_ENTRY).entries() == [AbortedTxn(9, 258, 772, 515)]


OVERLAPPING = ((1, 10, 20, 5), (2, 12, 30, 5), (3, 5, 40, 41), (1, 50, 60, 61))
"""Markers at 20, 30, 40 and 60; the third was open while the first two ended."""


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 5, ([], True)),  # everything below 5 was decided when the first ended
        (0, 6, ([5], True)),
        (0, 11, ([10, 5], True)),
        (20, 100, ([10, 12, 5, 50], False)),  # the marker itself is in the range
        (21, 100, ([12, 5, 50], False)),
        (41, 50, ([], True)),
        (61, 100, ([], False)),
    ],
)
def test_transactions_that_reach_into_the_range_are_found(
    start: int, end: int, expected: tuple[list[int], bool]
) -> None:
    index = live(*OVERLAPPING)

    assert collect(index, start, end) == expected
    assert collect(stored(index.encode()), start, end) == expected


def test_searches_in_a_file_and_in_memory_agree() -> None:
    rng = random.Random(5)
    index, offset = MemoryTransactionIndex(), 0
    for _ in range(3 * BLOCK_ENTRIES):
        first_offset = offset + rng.randint(0, 3)
        offset = first_offset + rng.randint(1, 5)
        index.add(AbortedTxn(rng.randint(0, 9), first_offset, offset, rng.choice([first_offset, offset + 1])))
        offset += 1
    file = stored(index.encode())

    for _ in range(300):
        start = rng.randint(0, offset)
        end = rng.choice([start + rng.randint(0, 40), offset])
        assert collect(file, start, end) == collect(index, start, end)


def test_it_agrees_with_a_full_scan_while_one_transaction_stays_open() -> None:
    rng = random.Random(6)
    entries: list[AbortedTxn] = []
    for slot in range(4 * BLOCK_ENTRIES):
        marker_offset = 10 * slot + 10
        first_offset = marker_offset - rng.choice([1, 2, 3, rng.randint(1, marker_offset)])
        entries.append(AbortedTxn(slot % 7, first_offset, marker_offset, 5))
    entries.append(AbortedTxn(8, 5, 10_600, 10_601))
    entries.append(AbortedTxn(9, 10_601, 10_602, 10_603))
    index = live(*entries)
    index.add(AbortedTxn(1, 3, 20_000, 20_001))
    index.truncate(20_000)
    file = stored(index.encode())

    for _ in range(300):
        start = rng.randint(0, 10_700)
        end = start + rng.choice([0, 1, 10, 300, 5000])
        expected = [e.first_offset for e in entries if e.last_offset >= start and e.first_offset < end]
        is_complete = any(e.last_stable_offset >= end for e in entries)
        assert collect(index, start, end) == (expected, is_complete)
        assert collect(file, start, end) == (expected, is_complete)


def test_truncation_removes_transactions_by_their_marker() -> None:
    index = live(*OVERLAPPING)

    index.truncate(40)

    assert [entry.last_offset for entry in index.entries()] == [20, 30]


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_good_file_passes(is_whole: bool) -> None:
    many = [(1, offset, offset + 1, offset + 2) for offset in range(10, 10 + 4 * BLOCK_ENTRIES, 2)]
    for entries in ([], many[:1], many[:2], many):
        stored(live(*entries).encode()).check(base_offset=10, is_whole=is_whole)


@pytest.mark.parametrize(
    "data",
    [
        KAFKAS_ENTRY[:-1],  # torn
        bytes(68),  # zeroes, as a power cut leaves them
        b"\x00\x01" + KAFKAS_ENTRY[2:],  # of a newer version
        live((9, 3, 5, 6)).encode(),  # of another segment
        live((9, 15, 20, 21)).encode() * 2,
    ],
)
def test_an_implausible_transaction_index_is_detected(data: bytes) -> None:
    with pytest.raises(CorruptFile):
        stored(data).check(base_offset=10, is_whole=False)


def test_damage_in_the_middle_is_detected_by_a_full_check() -> None:
    entries = live(*[(1, offset, offset + 1, offset + 2) for offset in range(10, 2000, 2)]).encode()
    damaged = entries[:3400] + bytes(340) + entries[3740:]

    stored(damaged).check(base_offset=10, is_whole=False)
    with pytest.raises(CorruptFile):
        stored(damaged).check(base_offset=10, is_whole=True)
    with pytest.raises(CorruptFile):
        MemoryTransactionIndex.decode(damaged)
