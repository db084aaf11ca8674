"""What a batch reads and how it is cut: every offset once, and no more than was allowed."""

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
    Cutting,
    Limits,
    Range,
    ranges_between,
    rows_of_bytes,
    share_out,
    waiting,
)

A0, A1, A2, A3 = (TopicPartition("a", index) for index in range(4))

partitions = st.builds(TopicPartition, st.sampled_from(["a", "b"]), st.integers(0, 5))
spans = st.dictionaries(partitions, st.tuples(st.integers(0, 10**7), st.integers(0, 10**7)), max_size=6)


def between(spans: dict[TopicPartition, tuple[int, int]]) -> tuple[Offsets, Offsets]:
    begin = {partition: start for partition, (start, _) in spans.items()}
    return begin, {partition: start + size for partition, (start, size) in spans.items()}


def loads(pieces: list[Range], *, cores: int) -> list[int]:
    """What each core reads, where each piece goes to the one that has read least."""
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
def test_pieces_are_all_offsets_once_and_in_order(
    spans: dict[TopicPartition, tuple[int, int]], cores: int, ranges_min: int | None, size_max: int | None
) -> None:
    begin, end = between(spans)

    pieces = Cutting(cores, ranges_min, size_max).cut(ranges_between(begin, end))

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
    if ranges_min is not None and waiting(begin, end) >= ranges_min:
        assert len(pieces) >= ranges_min


def test_a_large_partition_is_cut_for_all_cores_into_few_pieces_of_one_size() -> None:
    pieces = Cutting(cores=2).cut([Range(A0, 0, 8_000_000)])

    assert len(pieces) in (4, 6)
    assert max(piece.size for piece in pieces) - min(piece.size for piece in pieces) <= 1


def test_partitions_of_about_one_size_stay_of_about_one_size() -> None:
    sizes = {A0: 998_000, A1: 991_000, A2: 1_012_600, A3: 998_400}

    pieces = Cutting(cores=2).cut(Range(partition, 0, size) for partition, size in sizes.items())

    assert [piece.size for piece in pieces] == list(sizes.values())


def test_more_partitions_than_cores_are_cut_so_that_all_cores_end_together() -> None:
    partitions = [TopicPartition("a", index) for index in range(5)]

    pieces = Cutting(cores=4).cut(Range(partition, 0, 3_000_000) for partition in partitions)

    assert {piece.size for piece in pieces} == {1_000_000}


def test_what_has_to_stay_in_order_is_not_cut_unless_it_is_asked_for() -> None:
    whole = [Range(A0, 0, 8_000_000), Range(A1, 5, 10)]

    assert Cutting(cores=2, is_in_order=True).cut(whole) == whole
    assert len(Cutting(cores=2, size_max=1_000_000, is_in_order=True).cut(whole)) == 9
    assert len(Cutting(cores=2, ranges_min=6, is_in_order=True).cut(whole)) >= 6


def test_options_say_whether_rows_keep_their_order() -> None:
    def is_in_order(*, is_usual: bool, **said: str) -> bool:
        given = {"subscribe": "a", "kafka.bootstrap.servers": "localhost:9092"} | said
        return Cutting.of(Options.read(given, Use.READ), cores=2, is_in_order=is_usual).is_in_order

    assert is_in_order(is_usual=True)
    assert not is_in_order(is_usual=True, inOrder="false")
    assert is_in_order(is_usual=False, inOrder="true")
    with pytest.raises(BadOption, match="inOrder: each partition is read by one task, which minPartitions"):
        is_in_order(is_usual=True, inOrder="true", minPartitions="4")


def test_a_small_one_is_not() -> None:
    assert Cutting(cores=8).cut([Range(A0, 5, 5 + ROWS_PER_TASK_MIN)]) == [
        Range(A0, 5, 5 + ROWS_PER_TASK_MIN)
    ]


def test_a_large_partition_beside_small_ones_does_not_hold_up_the_others() -> None:
    pieces = Cutting(cores=2).cut([Range(A0, 0, 7_000_000), Range(A1, 0, 500_000), Range(A2, 0, 500_000)])

    assert max(loads(pieces, cores=2)) <= 1.1 * 4_000_000


@given(spans, st.integers(1, 10**7))
def test_a_limited_batch_goes_on_and_does_not_pass_its_end(
    spans: dict[TopicPartition, tuple[int, int]], rows_max: int
) -> None:
    begin, end = between(spans)

    ends = share_out(begin, end, rows_max)

    assert ends.keys() == end.keys()
    assert all(begin[each] <= ends[each] <= end[each] for each in end)
    # Every partition goes on, so that the last row of a small one is not waited for for ever.
    assert all(ends[each] > begin[each] for each in end if end[each] > begin[each])
    assert waiting(begin, ends) <= max(rows_max, 0) + len(end)


def test_shares_are_in_proportion() -> None:
    assert share_out({A0: 0, A1: 100}, {A0: 3000, A1: 1100}, 400) == {A0: 300, A1: 200}


def test_a_log_that_was_cut_ends_where_it_ends() -> None:
    assert share_out({A0: 50, A1: 0}, {A0: 20, A1: 100}, 10) == {A0: 20, A1: 10}


def test_bytes_are_reckoned_by_the_mean_of_each_partition() -> None:
    begin, end = {A0: 0, A1: 0}, {A0: 1000, A1: 1000}

    assert rows_of_bytes(begin, end, {A0: 100.0, A1: 300.0}, 40_000) == 200
    assert rows_of_bytes(begin, end, {A0: 100.0, A1: 300.0}, 10**9) == 2000
    assert rows_of_bytes(begin, end, {A0: 1e9, A1: 1e9}, 1) == 1


def test_the_narrower_limit_holds() -> None:
    limits = Limits(rows_max=500, bytes_max=40_000)

    assert limits.end({A0: 0}, {A0: 1000}, {A0: 100.0}) == {A0: 400}
    assert limits.end({A0: 0}, {A0: 1000}, {A0: 1.0}) == {A0: 500}
    assert Limits().end({A0: 0}, {A0: 1000}) == {A0: 1000}


def test_a_batch_is_waited_for_until_it_is_large_enough_or_late() -> None:
    limits = Limits(rows_min=100, delay_max_ms=1000)

    assert limits.is_too_little({A0: 0}, {A0: 99}, waited_ms=999)
    assert not limits.is_too_little({A0: 0}, {A0: 100}, waited_ms=0)
    assert not limits.is_too_little({A0: 0}, {A0: 1}, waited_ms=1000)
    assert not Limits().is_too_little({A0: 0}, {A0: 0}, waited_ms=0)
