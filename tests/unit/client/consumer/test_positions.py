"""The positions of a consumer, and how they are found."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.client import errors
from penstock.client.cluster import Cluster, Leader, PartitionInfo, Topic, TopicPartition
from penstock.client.consumer.positions import (
    EARLIEST,
    LATEST,
    Need,
    PartitionState,
    Positions,
    Reset,
    ResetPolicy,
)
from penstock.client.group.types import Offset
from penstock.runtime.backoff import Backoff

ORDERS = TopicPartition("orders", 0)
OTHERS = TopicPartition("orders", 1)
NOW_MS = 1_000
WALL_MS = 1_700_000_000_000


def positions(policy: str = "earliest", *, has_group: bool = False) -> Positions:
    return Positions(
        ResetPolicy(policy, lambda: WALL_MS), has_group=has_group, backoff=Backoff(100, 100, draw=lambda: 0.5)
    )


def cluster(leader_id: int, epoch: int) -> Cluster:
    topic = Topic(
        "orders", partitions=(PartitionInfo(0, leader_id, epoch), PartitionInfo(1, leader_id, epoch))
    )
    return Cluster(topics={"orders": topic})


def read_up_to(found: Positions, offset: int, *, epoch: int) -> PartitionState:
    """A partition that was read up to `offset`, with the last record in `epoch`."""
    found.assign([ORDERS])
    state = found.of(ORDERS)
    state.go_to(0, -1)
    state.move(offset, epoch)
    state.fetch_offset, state.fetch_epoch = offset, epoch
    found.follow_leaders(cluster(1, epoch), can_validate=False)
    return state


@pytest.mark.parametrize(
    ("text", "reset"),
    [
        ("earliest", EARLIEST),
        ("latest", LATEST),
        ("none", None),
        ("by_duration:PT1H", Reset(WALL_MS - 3_600_000)),
    ],
)
def test_reset_policies(text: str, reset: Reset | None) -> None:
    assert ResetPolicy(text, lambda: WALL_MS).reset() == reset


def test_without_a_group_the_policy_applies_at_once() -> None:
    found = positions("latest")

    assert found.assign([ORDERS, OTHERS]) == (ORDERS, OTHERS)

    assert [(state.need, state.reset) for state in found] == [(Need.RESET, LATEST)] * 2
    assert not found.of(ORDERS).is_fetchable(NOW_MS)


def test_with_a_group_the_committed_offset_comes_before_the_policy() -> None:
    found = positions(has_group=True)
    found.assign([ORDERS, OTHERS])
    wanted = found.needing(Need.COMMITTED, NOW_MS)
    asked = {state.partition: state.generation for state in wanted}

    found.take_committed(asked, {ORDERS: Offset(7, 2)})

    assert (found.of(ORDERS).offset, found.of(ORDERS).epoch) == (7, 2)
    assert found.of(ORDERS).is_fetchable(NOW_MS)
    assert found.of(OTHERS).need is Need.RESET


def test_no_offset_and_no_policy_is_raised_by_every_poll() -> None:
    found = positions("none")
    found.assign([ORDERS])

    for _ in range(2):
        assert isinstance(found.take_error(), errors.NoOffset)
    assert not found.needing(Need.RESET, NOW_MS)


def test_a_new_assignment_keeps_positions_of_kept_partitions() -> None:
    found = positions()
    found.assign([ORDERS])
    found.seek(ORDERS, 5)

    assert found.assign([ORDERS, OTHERS]) == (OTHERS,)
    assert found.of(ORDERS).offset == 5
    found.assign([OTHERS])
    with pytest.raises(errors.IllegalState, match="not assigned"):
        found.of(ORDERS)


def test_a_response_to_an_older_lookup_is_ignored() -> None:
    found = positions(has_group=True)
    found.assign([ORDERS])
    asked = {ORDERS: found.of(ORDERS).generation}
    found.seek(ORDERS, 5)

    found.take_committed(asked, {ORDERS: Offset(7)})
    found.take_reset(ORDERS, asked[ORDERS], 9, 1)
    found.fail(ORDERS, asked[ORDERS], errors.NoOffset())
    found.retry(ORDERS, asked[ORDERS], NOW_MS)

    assert found.of(ORDERS).offset == 5
    assert found.of(ORDERS).is_fetchable(NOW_MS)
    assert found.take_error() is None


def test_a_failed_lookup_backs_off() -> None:
    found = positions()
    found.assign([ORDERS])

    found.retry(ORDERS, found.of(ORDERS).generation, NOW_MS)

    assert found.needing(Need.RESET, NOW_MS) == []
    assert found.wake_at_ms(NOW_MS) == NOW_MS + 100
    assert [state.partition for state in found.needing(Need.RESET, NOW_MS + 100)] == [ORDERS]


def test_an_offset_out_of_range_is_reset_by_the_policy() -> None:
    found = positions("latest")
    found.assign([ORDERS])
    found.seek(ORDERS, 500)

    found.take_out_of_range(ORDERS, found.of(ORDERS).generation, NOW_MS)

    assert (found.of(ORDERS).need, found.of(ORDERS).reset) == (Need.RESET, LATEST)


def test_an_offset_out_of_range_is_an_error_without_a_policy() -> None:
    found = positions("none")
    found.assign([ORDERS])
    found.take_error()
    found.seek(ORDERS, 500)

    found.take_out_of_range(ORDERS, found.of(ORDERS).generation, NOW_MS)

    error = found.take_error()
    assert isinstance(error, errors.OffsetOutOfRange)
    assert "500" in str(error)


def test_buffered_records_before_a_truncation_are_returned_first() -> None:
    found = positions()
    state = read_up_to(found, 10, epoch=1)
    state.fetch_offset = 20

    found.take_out_of_range(ORDERS, state.generation, NOW_MS)
    assert (state.need, state.generation) == (Need.NOTHING, state.generation)
    assert not state.is_fetchable(NOW_MS)

    state.move(20, 1)
    found.take_out_of_range(ORDERS, state.generation, NOW_MS)
    assert state.need is Need.RESET


# KIP-320


def test_a_new_leader_must_validate_the_position() -> None:
    found = positions()
    state = read_up_to(found, 10, epoch=1)

    found.follow_leaders(cluster(2, 3))

    assert state.need is Need.VALIDATION
    assert state.leader == Leader(2, 3)
    assert state.has_position
    assert not state.is_fetchable(NOW_MS)
    found.take_validation(ORDERS, state.generation, end_offset=12, epoch=1)
    assert state.is_fetchable(NOW_MS)
    assert state.offset == 10


def test_the_same_leader_is_not_asked_twice() -> None:
    found = positions()
    state = read_up_to(found, 10, epoch=1)

    found.follow_leaders(cluster(1, 1))

    assert state.need is Need.NOTHING


def test_a_position_without_an_epoch_cannot_be_validated() -> None:
    found = positions()
    found.assign([ORDERS])
    found.seek(ORDERS, 10)

    found.follow_leaders(cluster(2, 3))

    assert found.of(ORDERS).is_fetchable(NOW_MS)


def test_a_log_truncated_below_the_position_is_read_from_the_truncation() -> None:
    found = positions()
    state = read_up_to(found, 10, epoch=1)
    found.follow_leaders(cluster(2, 3))

    found.take_validation(ORDERS, state.generation, end_offset=8, epoch=1)

    assert (state.offset, state.epoch, state.need) == (8, 1, Need.NOTHING)


def test_a_truncated_log_is_an_error_without_a_policy() -> None:
    found = positions("none")
    state = read_up_to(found, 10, epoch=1)
    state.error = None
    found.follow_leaders(cluster(2, 3))

    found.take_validation(ORDERS, state.generation, end_offset=8, epoch=1)

    assert isinstance(found.take_error(), errors.LogTruncated)
    assert state.offset == 10


def test_only_buffered_records_are_dropped_if_the_truncation_is_after_the_position() -> None:
    found = positions()
    state = read_up_to(found, 10, epoch=1)
    state.fetch_offset = 20
    generation = state.generation
    found.follow_leaders(cluster(2, 3))

    found.take_validation(ORDERS, state.generation, end_offset=15, epoch=1)

    assert (state.offset, state.fetch_offset) == (10, 10)
    assert state.generation > generation


def test_a_leader_that_does_not_know_the_epoch_causes_a_reset() -> None:
    found = positions()
    state = read_up_to(found, 10, epoch=1)
    found.follow_leaders(cluster(2, 3))

    found.take_validation(ORDERS, state.generation, end_offset=-1, epoch=-1)

    assert (state.need, state.reset) == (Need.RESET, EARLIEST)


@pytest.mark.parametrize(
    ("attribute", "value"), [("is_paused", True), ("is_parked", True), ("stop_offset", 0)]
)
def test_parked_partitions_are_not_fetched(attribute: str, value: Any) -> None:
    found = positions()
    found.assign([ORDERS])
    found.seek(ORDERS, 0)
    assert found.of(ORDERS).is_fetchable(NOW_MS)

    setattr(found.of(ORDERS), attribute, value)

    assert not found.of(ORDERS).is_fetchable(NOW_MS)


def test_a_rewind_goes_to_the_last_commit_or_the_start() -> None:
    positions = Positions(ResetPolicy("latest", lambda: 0), has_group=True, backoff=Backoff(1, 1, jitter=0))
    committed, begun, untouched = (TopicPartition("orders", index) for index in range(3))
    positions.assign([committed, begun, untouched])
    for partition in (committed, begun, untouched):
        positions.seek(partition, 10, 2)
    positions.note_committed({committed: Offset(15, 3), TopicPartition("gone", 0): Offset(1)})
    positions.of(committed).move(20, 3)
    positions.of(begun).move(20, 3)
    generation = positions.of(untouched).generation

    positions.rewind()

    places = [(state.offset, state.epoch, state.fetch_offset) for state in positions]
    assert places == [(15, 3, 15), (10, 2, 10), (10, 2, 10)]
    assert positions.of(untouched).generation == generation, "what was fetched ahead is kept"


def test_a_rewind_after_truncation_returns_uncommitted_records() -> None:
    positions = Positions(ResetPolicy("earliest", lambda: 0), has_group=True, backoff=Backoff(1, 1, jitter=0))
    partition = TopicPartition("orders", 0)
    positions.assign([partition])
    positions.seek(partition, 10, 2)
    state = positions.of(partition)
    state.move(20, 2)
    state.fetch_offset, state.need = 20, Need.VALIDATION
    positions.take_validation(partition, state.generation, end_offset=15, epoch=2)
    assert state.offset == 15

    positions.rewind()

    assert state.offset == 10
