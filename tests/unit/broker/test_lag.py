"""How far groups are behind, in records and in seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.datapath import Cluster, DataNode, make_batch
from harness.offsets import GROUP, OffsetStage, commit
from penstock.broker import lag
from penstock.broker.lag import Lags, PartitionLag

START_MS = 1_600_000_000_000


class OneShard:
    """Groups that all live on one stage."""

    def __init__(self) -> None:
        self.stage = OffsetStage()

    def read(self, group_id: str, question: Callable[[Any], Any]) -> Any:
        return question(self.stage)

    def shards(self) -> Iterator[OffsetStage]:
        yield self.stage


class StandingClock:
    def __init__(self) -> None:
        self.now_ms = START_MS

    def wall_ms(self) -> int:
        return self.now_ms


@pytest.fixture
def groups() -> OneShard:
    return OneShard()


@pytest.fixture
def clock() -> StandingClock:
    return StandingClock()


@pytest.fixture
def lags(node: DataNode, groups: OneShard, clock: StandingClock) -> Lags:
    coordinator: Any = groups
    return Lags(coordinator, node.partitions, clock)


def produce(node: DataNode, *values: bytes, at_ms: int) -> None:
    node.partition().append_as_leader(make_batch(*values, timestamp=at_ms), acks=1, now_ms=at_ms)


async def test_lag_is_told_in_records_and_in_the_age_of_the_first_one_not_read(
    node: DataNode, groups: OneShard, clock: StandingClock, lags: Lags
) -> None:
    produce(node, b"1", b"2", at_ms=START_MS)
    produce(node, b"3", b"4", b"5", at_ms=START_MS + 10_000)
    clock.now_ms = START_MS + 15_500

    commit(groups.stage, {"orders": {0: 2}})

    assert lags.of_group(GROUP) == [PartitionLag(GROUP, "orders", 0, 2, 5, 3, 5.5)]


async def test_who_has_read_all_is_not_behind(
    node: DataNode, groups: OneShard, clock: StandingClock, lags: Lags
) -> None:
    produce(node, b"1", at_ms=START_MS)
    clock.now_ms = START_MS + 60_000

    commit(groups.stage, {"orders": {0: 1}})

    assert lags.of_group(GROUP) == [PartitionLag(GROUP, "orders", 0, 1, 1, 0, 0.0)]


async def test_an_offset_beyond_the_end_is_not_behind_either(
    node: DataNode, groups: OneShard, lags: Lags
) -> None:
    commit(groups.stage, {"orders": {0: 9}})

    assert lags.of_group(GROUP) == [PartitionLag(GROUP, "orders", 0, 9, 0, 0, 0.0)]


async def test_records_that_are_gone_count_but_have_no_age(
    node: DataNode, groups: OneShard, clock: StandingClock, lags: Lags
) -> None:
    produce(node, b"1", at_ms=START_MS)
    produce(node, b"2", at_ms=START_MS + 10_000)
    node.partition().delete_records(1)
    clock.now_ms = START_MS + 11_000

    commit(groups.stage, {"orders": {0: 0}})

    (told,) = lags.of_group(GROUP)
    assert (told.records, told.seconds) == (2, 1.0)


async def test_a_record_from_the_future_has_no_age(node: DataNode, groups: OneShard, lags: Lags) -> None:
    produce(node, b"1", at_ms=START_MS + 5_000)

    commit(groups.stage, {"orders": {0: 0}})

    assert lags.of_group(GROUP)[0].seconds == 0.0


async def test_the_time_of_appending_is_what_counts_where_the_topic_says_so(
    cluster: Cluster, node: DataNode, groups: OneShard, clock: StandingClock, lags: Lags
) -> None:
    cluster.set("orders", "message.timestamp.type", "LogAppendTime")
    produce(node, b"1", at_ms=START_MS)
    clock.now_ms = START_MS + 3_000

    commit(groups.stage, {"orders": {0: 0}})

    assert lags.of_group(GROUP)[0].seconds == 3.0


async def test_partitions_that_others_lead_are_left_to_them(
    node: DataNode, groups: OneShard, lags: Lags
) -> None:
    commit(groups.stage, {"orders": {0: 0, 1: 0}, "payments": {0: 0}})

    assert [(told.topic, told.partition) for told in lags.of_group(GROUP)] == [("orders", 0)]


async def test_the_log_is_read_once_for_each_offset(
    node: DataNode, groups: OneShard, clock: StandingClock, lags: Lags, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(node, b"1", at_ms=START_MS)
    commit(groups.stage, {"orders": {0: 0}})
    reads: list[int] = []
    time_at = lag._time_at

    def counted(partition: Any, offset: int) -> int | None:
        reads.append(offset)
        return time_at(partition, offset)

    monkeypatch.setattr(lag, "_time_at", counted)
    for _ in range(3):
        clock.now_ms += 1_000
        seconds = lags.of_group(GROUP)[0].seconds

    assert (reads, seconds) == ([0], 3.0)


async def test_all_groups_are_told_in_several_turns(
    node: DataNode, groups: OneShard, lags: Lags, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lag, "AT_ONCE", 2)
    produce(node, b"1", at_ms=START_MS)
    for number in range(5):
        commit(groups.stage, {"orders": {0: 0}}, group=f"group-{number}")

    told = await lags.of_all()

    assert [each.group_id for each in told] == [f"group-{number}" for number in range(5)]
    assert {each.records for each in told} == {1}
