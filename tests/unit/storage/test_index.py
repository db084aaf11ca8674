"""The sparse indexes: memory and file agree, and the files have Kafka's format."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.storage.errors import CorruptFile
from penstock.storage.index import BLOCK_ENTRIES, FileIndex, MemoryIndex
from simulator.disk import SimulatedDisk


def build(offset_entries: list[tuple[int, int]], time_entries: list[tuple[int, int]]) -> MemoryIndex:
    index = MemoryIndex()
    for offset, position in offset_entries:
        index.add(offset, position)
    for timestamp, offset in time_entries:
        index.add_time(timestamp, offset)
    return index


def store(index: MemoryIndex) -> FileIndex:
    disk = SimulatedDisk()
    files = []
    for path, data in (("/offsets", index.encode_offsets()), ("/times", index.encode_times())):
        file = disk.open(path, create=True)
        file.append((data,))
        files.append(file)
    return FileIndex(files[0], files[1])


@st.composite
def indexes(draw: st.DrawFn) -> MemoryIndex:
    """Both columns grow; sometimes there are more entries than one read of a search takes."""
    count = draw(st.sampled_from([0, 1, 2, 7, BLOCK_ENTRIES, 3 * BLOCK_ENTRIES + 5]))
    step, stride = draw(st.integers(1, 50)), draw(st.integers(61, 5000))
    times = draw(st.integers(1, 1000))
    return build(
        [(step * (slot + 1), stride * (slot + 1)) for slot in range(count)],
        [(times * (slot + 1), step * (slot + 1)) for slot in range(count)],
    )


def test_the_bytes_are_kafkas() -> None:
    index = build([(5, 4100), (9, 70_000)], [(1_700_000_000_000, 5)])

    assert index.encode_offsets().hex() == "00000005000010040000000900011170"
    assert index.encode_times().hex() == "0000018bcfe5680000000005"


@given(indexes())
def test_what_is_encoded_is_decoded(index: MemoryIndex) -> None:
    again = MemoryIndex.decode(index.encode_offsets(), index.encode_times())

    for column in MemoryIndex.__slots__:
        assert getattr(again, column) == getattr(index, column)


@given(indexes(), st.integers(-1, 100_000), st.integers(0, 10_000_000), st.integers(-1, 2_000_000))
def test_memory_and_file_indexes_agree(
    index: MemoryIndex, offset: int, position: int, timestamp: int
) -> None:
    stored = store(index)

    assert stored.position_at_offset(offset) == index.position_at_offset(offset)
    assert stored.position_before(position) == index.position_before(position)
    assert stored.offset_at_time(timestamp) == index.offset_at_time(timestamp)
    assert stored.last_time() == index.last_time()


def test_a_lookup_finds_the_last_entry_that_is_not_above() -> None:
    index = build([(5, 100), (9, 200)], [(1000, 5), (2000, 9)])

    assert [index.position_at_offset(offset) for offset in (4, 5, 8, 9, 10)] == [0, 100, 100, 200, 200]
    assert [index.position_before(position) for position in (99, 100, 199, 200)] == [0, 100, 100, 200]
    assert [index.offset_at_time(time) for time in (999, 1000, 1999, 2000)] == [0, 5, 5, 9]


def test_a_timestamp_that_is_not_later_is_not_indexed() -> None:
    assert len(build([], [(10, 1), (10, 2), (9, 3), (11, 4)]).times) == 2


def test_truncation_removes_entries_of_batches_that_reach_the_offset() -> None:
    index = build([(5, 100), (9, 200)], [(1000, 5), (2000, 9)])

    index.truncate(9)

    assert list(index.offsets) == [5]
    assert list(index.times) == [1000]


def test_an_incomplete_entry_is_refused() -> None:
    with pytest.raises(CorruptFile):
        MemoryIndex.decode(bytes(9), b"")
    disk = SimulatedDisk()
    torn = disk.open("/torn", create=True)
    torn.append((bytes(13),))
    with pytest.raises(CorruptFile, match="/torn ends in the middle"):
        FileIndex(disk.open("/empty", create=True), torn)


@pytest.mark.parametrize(
    ("offset_entries", "time_entries"),
    [([(5, 1000)], []), ([(0, 0)], []), ([(5, 100)], [(5, 1), (0, 0)])],
)
def test_implausible_last_entries_are_refused(
    offset_entries: list[tuple[int, int]], time_entries: list[tuple[int, int]]
) -> None:
    index = build(offset_entries, [])
    for timestamp, offset in time_entries:
        index.times.append(timestamp)
        index.time_offsets.append(offset)

    with pytest.raises(CorruptFile):
        store(index).check(log_bytes=1000)
