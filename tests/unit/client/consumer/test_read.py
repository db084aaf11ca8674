"""Bounded reads."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from penstock.client import errors
from penstock.client.cluster import TopicPartition
from penstock.client.consumer.fetch_plan import Fetched
from penstock.client.consumer.positions import Positions, ResetPolicy
from penstock.client.consumer.read import Bounds, Columns, ReadPlan, bounds_of, read_schema, table_of
from penstock.records import consuming, kernel
from penstock.records.batch import Record
from penstock.runtime.backoff import Backoff

P0, P1, P2 = TopicPartition("orders", 0), TopicPartition("bills", 1), TopicPartition("bills", 2)


@pytest.fixture
def positions() -> Positions:
    made = Positions(ResetPolicy("earliest", lambda: 0), has_group=False, backoff=Backoff(1, 1, jitter=0))
    made.assign([P0, P1, P2])
    for partition in (P0, P1, P2):
        made.seek(partition, 0)
    return made


def fetched(positions: Positions, partition: TopicPartition, offsets: list[int]) -> Fetched:
    rows = [Record(offset, 1_000 + offset, b"k", str(offset).encode(), ()) for offset in offsets]
    state = positions.of(partition)
    records = consuming.FetchedRecords(
        partition.topic, partition.partition, kernel.build_batch(rows), state.offset
    )
    return Fetched(state, records)


def test_bounds_are_parsed() -> None:
    moment = datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.UTC)

    assert bounds_of("end") == Bounds()
    assert bounds_of({("orders", 0): 5}) == Bounds(offsets={P0: 5})
    assert bounds_of(7) == bounds_of(7) == Bounds(timestamp=7)
    assert bounds_of(moment) == Bounds(timestamp=1_700_000_000_000)
    for wrong in ("start", None, {P0: -1}, {P0: "5"}, {"orders": 5}, -5):
        with pytest.raises(errors.BadArgument):
            bounds_of(wrong)


def test_only_partitions_of_the_read_are_fetched(positions: Positions) -> None:
    positions.seek(P1, 10)

    plan = ReadPlan(positions, {P0: 5, P1: 10})

    assert [state.is_fetchable(0) for state in positions] == [True, False, False]
    assert positions.of(P0).stop_offset == 5
    plan.release()
    assert all(state.is_fetchable(0) for state in positions)


def test_a_read_of_many_partitions_checks_each_a_few_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It looked at all of them for each portion: reading 5,000 partitions took 13 s of CPU."""
    partitions = [TopicPartition("orders", index) for index in range(100)]
    positions = Positions(
        ResetPolicy("earliest", lambda: 0), has_group=False, backoff=Backoff(1, 1, jitter=0)
    )
    positions.assign(partitions)
    for partition in partitions:
        positions.seek(partition, 0)
    plan = ReadPlan(positions, dict.fromkeys(partitions, 1))
    looks = 0
    get = positions.get

    def counted(partition: TopicPartition) -> Any:
        nonlocal looks
        looks += 1
        return get(partition)

    monkeypatch.setattr(positions, "get", counted)

    for partition in reversed(partitions):
        assert not plan.is_done
        positions.of(partition).move(1, 0)
        plan.note_progress(partition)

    assert plan.is_done
    assert looks <= 3 * len(partitions)


def test_revoked_or_skipped_partitions_are_not_waited_for(positions: Positions) -> None:
    plan = ReadPlan(positions, {P0: 5, P1: 5, P2: 5})
    positions.assign([P0, P1])
    positions.of(P0).move(5, 0)
    assert not plan.is_done

    positions.of(P1).move(7, 0)

    assert plan.is_done


def test_columns_have_the_partition_and_offset_of_every_row(positions: Positions) -> None:
    plan = ReadPlan(positions, {P0: 5, P1: 3})

    batches = [plan.columns(fetched(positions, P1, [0, 1, 2, 3])), plan.columns(fetched(positions, P0, [4]))]

    rows: list[dict[str, Any]] = [row for batch in batches if batch is not None for row in batch.to_pylist()]
    assert [(row["topic"], row["partition"], row["offset"], row["value"]) for row in rows] == [
        ("bills", 1, 0, b"0"),
        ("bills", 1, 1, b"1"),
        ("bills", 1, 2, b"2"),
        ("orders", 0, 4, b"4"),
    ]
    for batch in batches:
        assert batch is not None
        batch.validate(full=True)
        assert batch.schema == read_schema()


def test_responses_of_any_size_have_their_partition(positions: Positions) -> None:
    plan = ReadPlan(positions, {P0: 10, P1: 10})

    batches = [
        plan.columns(fetched(positions, partition, offsets))
        for partition, offsets in ((P0, [0, 1]), (P1, [0]), (P0, [2]), (P0, [3, 4, 5]), (P1, [1, 2]))
    ]

    places = [
        {(row["topic"], row["partition"]) for row in batch.to_pylist()}
        for batch in batches
        if batch is not None
    ]
    assert places == [{("orders", 0)}, {("bills", 1)}, {("orders", 0)}, {("orders", 0)}, {("bills", 1)}]
    table = table_of([batch for batch in batches if batch is not None], plan.schema)
    table.validate(full=True)
    assert table.num_rows == 9


def test_headers_are_optional(positions: Positions) -> None:
    plan = ReadPlan(positions, {P0: 5}, columns=Columns(headers=False))

    batch = plan.columns(fetched(positions, P0, [0]))

    assert batch is not None
    assert batch.schema.names == ["topic", "partition", "offset", "timestamp", "key", "value"]
    assert batch.schema == read_schema(Columns(headers=False)) == plan.schema


def test_timestamp_types_are_optional(positions: Positions) -> None:
    plan = ReadPlan(positions, {P0: 5}, columns=Columns(headers=False, timestamp_types=True))

    batch = plan.columns(fetched(positions, P0, [0, 1]))

    assert batch is not None
    assert batch.column("timestamp_type").to_pylist() == [0, 0]
    assert batch.schema == read_schema(Columns(headers=False, timestamp_types=True)) == plan.schema


def test_a_limit_ends_the_read_and_sets_the_position(positions: Positions) -> None:
    plan = ReadPlan(positions, {P0: 100}, limit=2)

    batch = plan.columns(fetched(positions, P0, [0, 5, 9, 10]))

    assert batch is not None
    assert batch.column("offset").to_pylist() == [0, 5]
    assert plan.rewind == (P0, 9)
    assert plan.is_done


def test_a_read_is_done_when_every_partition_is_at_its_end(positions: Positions) -> None:
    plan = ReadPlan(positions, {P0: 5, P1: 3})
    assert not plan.is_done

    positions.of(P0).move(5, -1)
    assert not plan.is_done
    assert positions.of(P0).is_parked
    positions.of(P1).move(7, -1)

    assert plan.is_done


def test_a_revoked_partition_is_not_waited_for(positions: Positions) -> None:
    plan = ReadPlan(positions, {P0: 5, P1: 3})
    positions.of(P0).move(5, -1)

    positions.assign([P0])

    assert plan.is_done


def test_a_source_without_rows_makes_no_batch(positions: Positions) -> None:
    plan = ReadPlan(positions, {P0: 4})

    assert plan.columns(fetched(positions, P0, [4, 5])) is None


def test_messages_end_where_columns_do(positions: Positions) -> None:
    plan = ReadPlan(positions, {P0: 7})

    messages = plan.messages(fetched(positions, P0, [0, 5, 9, 10]))

    assert [message.offset for message in messages] == [0, 5]
    assert plan.rewind == (P0, 9)


def test_a_limit_holds_for_messages_too(positions: Positions) -> None:
    plan = ReadPlan(positions, {P0: 100}, limit=3)

    assert len(plan.messages(fetched(positions, P0, [0, 1]))) == 2
    assert len(plan.messages(fetched(positions, P0, [0, 1, 2]))) == 1
    assert plan.is_done
    assert plan.rewind is None
