"""What a batch reads and how it is split: every offset once, and within the limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.cluster import TopicPartition
from penstock.spark.errors import BadOption
from penstock.spark.offsets import Offsets
from penstock.spark.options import Options, Use
from penstock.spark.plan import (
    ROWS_PER_TASK_MIN,
    Limits,
    Range,
    TaskSplit,
    available,
    ranges_between,
    rows_of_bytes,
    share_out,
)

A0, A1, A2, A3 = (TopicPartition("a", index) for index in range(4))

partitions = st.builds(TopicPartition, st.sampled_from(["a", "b"]), st.integers(0, 5))
spans = st.dictionaries(partitions, st.tuples(st.integers(0, 10**7), st.integers(0, 10**7)), max_size=6)


def between(spans: dict[TopicPartition, tuple[int, int]]) -> tuple[Offsets, Offsets]:
    begin = {partition: start for partition, (start, _) in spans.items()}
    return begin, {partition: start + size for partition, (start, size) in spans.items()}


def loads(pieces: list[Range], *, cores: int) -> list[int]:
    """What each core reads if each part goes to the core that has read least."""
    busy = [0] * cores
    for piece in pieces:
        busy[busy.index(min(busy))] += piece.size
    return busy


@given(
    spans,
    st.integers(1, 64),
    st.none() | st.integers(1, 200),
    st.none() | st.integers(10_000, 10**7),
)
def test_parts_cover_all_offsets_once_and_in_order(
    spans: dict[TopicPartition, tuple[int, int]], cores: int, ranges_min: int | None, size_max: int | None
) -> None:
    begin, end = between(spans)

    pieces = TaskSplit(cores, ranges_min, size_max).split(ranges_between(begin, end))

    assert all(piece.size > 0 for piece in pieces)
    for partition in end:
        own = [piece for piece in pieces if piece.partition == partition]
        place = begin[partition]
        for piece in own:
            assert piece.start == place
            place = piece.end
        assert place == end[partition]
    if size_max is not None:
        assert all(piece.size <= size_max for piece in pieces)
    if ranges_min is not None and available(begin, end) >= ranges_min:
        assert len(pieces) >= ranges_min


def test_a_large_partition_is_split_for_all_cores_into_few_equal_parts() -> None:
    pieces = TaskSplit(cores=2).split([Range(A0, 0, 8_000_000)])

    assert len(pieces) in (4, 6)
    assert max(piece.size for piece in pieces) - min(piece.size for piece in pieces) <= 1


def test_partitions_of_similar_size_get_parts_of_similar_size() -> None:
    sizes = {A0: 998_000, A1: 991_000, A2: 1_012_600, A3: 998_400}

    pieces = TaskSplit(cores=2).split(Range(partition, 0, size) for partition, size in sizes.items())

    assert [piece.size for piece in pieces] == list(sizes.values())


def test_more_partitions_than_cores_are_split_so_that_all_cores_finish_together() -> None:
    partitions = [TopicPartition("a", index) for index in range(5)]

    pieces = TaskSplit(cores=4).split(Range(partition, 0, 3_000_000) for partition in partitions)

    assert {piece.size for piece in pieces} == {1_000_000}


def test_in_order_partitions_are_not_split_unless_requested() -> None:
    whole = [Range(A0, 0, 8_000_000), Range(A1, 5, 10)]

    assert TaskSplit(cores=2, is_in_order=True).split(whole) == whole
    assert len(TaskSplit(cores=2, size_max=1_000_000, is_in_order=True).split(whole)) == 9
    assert len(TaskSplit(cores=2, ranges_min=6, is_in_order=True).split(whole)) >= 6


def test_options_decide_whether_rows_keep_their_order() -> None:
    def is_in_order(*, is_usual: bool, **chosen: str) -> bool:
        given = {"subscribe": "a", "kafka.bootstrap.servers": "localhost:9092"} | chosen
        return TaskSplit.of(Options.read(given, Use.READ), cores=2, is_in_order=is_usual).is_in_order

    assert is_in_order(is_usual=True)
    assert not is_in_order(is_usual=True, inOrder="false")
    assert is_in_order(is_usual=False, inOrder="true")
    with pytest.raises(BadOption, match="inOrder reads each partition in one task: remove minPartitions"):
        is_in_order(is_usual=True, inOrder="true", minPartitions="4")


def test_a_small_partition_is_not_split() -> None:
    assert TaskSplit(cores=8).split([Range(A0, 5, 5 + ROWS_PER_TASK_MIN)]) == [
        Range(A0, 5, 5 + ROWS_PER_TASK_MIN)
    ]


def test_a_large_partition_next_to_small_ones_does_not_delay_them() -> None:
    pieces = TaskSplit(cores=2).split([Range(A0, 0, 7_000_000), Range(A1, 0, 500_000), Range(A2, 0, 500_000)])

    assert max(loads(pieces, cores=2)) <= 1.1 * 4_000_000


@given(spans, st.integers(1, 10**7))
def test_a_limited_batch_advances_and_does_not_pass_its_end(
    spans: dict[TopicPartition, tuple[int, int]], rows_max: int
) -> None:
    begin, end = between(spans)

    ends = share_out(begin, end, rows_max)

    assert ends.keys() == end.keys()
    assert all(begin[each] <= ends[each] <= end[each] for each in end)
    # Every partition advances, so that the last row of a small one is not delayed forever.
    assert all(ends[each] > begin[each] for each in end if end[each] > begin[each])
    assert available(begin, ends) <= max(rows_max, 0) + len(end)


def test_partitions_get_proportional_shares() -> None:
    assert share_out({A0: 0, A1: 100}, {A0: 3000, A1: 1100}, 400) == {A0: 300, A1: 200}


def test_a_truncated_log_ends_at_its_end() -> None:
    assert share_out({A0: 50, A1: 0}, {A0: 20, A1: 100}, 10) == {A0: 20, A1: 10}


def test_bytes_are_estimated_by_the_average_of_each_partition() -> None:
    begin, end = {A0: 0, A1: 0}, {A0: 1000, A1: 1000}

    assert rows_of_bytes(begin, end, {A0: 100.0, A1: 300.0}, 40_000) == 200
    assert rows_of_bytes(begin, end, {A0: 100.0, A1: 300.0}, 10**9) == 2000
    assert rows_of_bytes(begin, end, {A0: 1e9, A1: 1e9}, 1) == 1


def test_the_stricter_limit_applies() -> None:
    limits = Limits(rows_max=500, bytes_max=40_000)

    assert limits.end({A0: 0}, {A0: 1000}, {A0: 100.0}) == {A0: 400}
    assert limits.end({A0: 0}, {A0: 1000}, {A0: 1.0}) == {A0: 500}
    assert Limits().end({A0: 0}, {A0: 1000}) == {A0: 1000}


def test_a_batch_waits_until_it_is_large_enough_or_late() -> None:
    limits = Limits(rows_min=100, delay_max_ms=1000)

    assert limits.is_too_little({A0: 0}, {A0: 99}, waited_ms=999)
    assert not limits.is_too_little({A0: 0}, {A0: 100}, waited_ms=0)
    assert not limits.is_too_little({A0: 0}, {A0: 1}, waited_ms=1000)
    assert not Limits().is_too_little({A0: 0}, {A0: 0}, waited_ms=0)
