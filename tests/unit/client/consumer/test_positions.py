"""Where a consumer stands, and how it comes to stand there."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.client import errors
from penstock.client.backoff import Backoff
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
from penstock.client.group.nouns import Offset

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
    """A partition that was read up to `offset`, the last of it in `epoch`."""
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
def test_a_policy_says_where_to_go(text: str, reset: Reset | None) -> None:
    assert ResetPolicy(text, lambda: WALL_MS).reset() == reset


def test_without_a_group_the_policy_decides_at_once() -> None:
    found = positions("latest")

    assert found.assign([ORDERS, OTHERS]) == (ORDERS, OTHERS)

    assert [(state.need, state.reset) for state in found] == [(Need.RESET, LATEST)] * 2
    assert not found.of(ORDERS).is_fetchable(NOW_MS)


def test_with_a_group_the_committed_offset_comes_first_and_then_the_policy() -> None:
    found = positions(has_group=True)
    found.assign([ORDERS, OTHERS])
    wanted = found.wanting(Need.COMMITTED, NOW_MS)
    asked = {state.partition: state.generation for state in wanted}

    found.take_committed(asked, {ORDERS: Offset(7, 2)})

    assert (found.of(ORDERS).offset, found.of(ORDERS).epoch) == (7, 2)
    assert found.of(ORDERS).is_fetchable(NOW_MS)
    assert found.of(OTHERS).need is Need.RESET


def test_no_place_and_no_policy_is_told_at_every_poll() -> None:
    found = positions("none")
    found.assign([ORDERS])

    for _ in range(2):
        assert isinstance(found.take_error(), errors.NoOffset)
    assert not found.wanting(Need.RESET, NOW_MS)


def test_a_new_assignment_keeps_the_place_of_what_stays() -> None:
    found = positions()
    found.assign([ORDERS])
    found.seek(ORDERS, 5)

    assert found.assign([ORDERS, OTHERS]) == (OTHERS,)
    assert found.of(ORDERS).offset == 5
    found.assign([OTHERS])
    with pytest.raises(errors.IllegalState, match="not assigned"):
        found.of(ORDERS)


def test_an_answer_to_an_older_question_is_not_taken() -> None:
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


def test_what_failed_is_left_alone_for_a_while() -> None:
    found = positions()
    found.assign([ORDERS])

    found.retry(ORDERS, found.of(ORDERS).generation, NOW_MS)

    assert found.wanting(Need.RESET, NOW_MS) == []
    assert found.wake_at_ms(NOW_MS) == NOW_MS + 100
    assert [state.partition for state in found.wanting(Need.RESET, NOW_MS + 100)] == [ORDERS]


def test_an_offset_out_of_range_goes_where_the_policy_says() -> None:
    found = positions("latest")
    found.assign([ORDERS])
    found.seek(ORDERS, 500)

    found.take_out_of_range(ORDERS, found.of(ORDERS).generation, NOW_MS)

    assert (found.of(ORDERS).need, found.of(ORDERS).reset) == (Need.RESET, LATEST)


def test_an_offset_out_of_range_is_an_error_where_there_is_no_policy() -> None:
    found = positions("none")
    found.assign([ORDERS])
    found.take_error()
    found.seek(ORDERS, 500)

    found.take_out_of_range(ORDERS, found.of(ORDERS).generation, NOW_MS)

    error = found.take_error()
    assert isinstance(error, errors.OffsetOutOfRange)
    assert "500" in str(error)


def test_what_was_fetched_before_the_log_was_cut_is_given_first() -> None:
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


def test_a_new_leader_has_to_confirm_what_was_read() -> None:
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


def test_a_place_without_an_epoch_cannot_be_confirmed() -> None:
    found = positions()
    found.assign([ORDERS])
    found.seek(ORDERS, 10)

    found.follow_leaders(cluster(2, 3))

    assert found.of(ORDERS).is_fetchable(NOW_MS)


def test_a_log_that_was_cut_below_the_place_is_read_from_the_cut() -> None:
    found = positions()
    state = read_up_to(found, 10, epoch=1)
    found.follow_leaders(cluster(2, 3))

    found.take_validation(ORDERS, state.generation, end_offset=8, epoch=1)

    assert (state.offset, state.epoch, state.need) == (8, 1, Need.NOTHING)


def test_a_log_that_was_cut_is_an_error_where_there_is_no_policy() -> None:
    found = positions("none")
    state = read_up_to(found, 10, epoch=1)
    state.error = None
    found.follow_leaders(cluster(2, 3))

    found.take_validation(ORDERS, state.generation, end_offset=8, epoch=1)

    assert isinstance(found.take_error(), errors.LogTruncated)
    assert state.offset == 10


def test_only_what_waits_in_memory_is_dropped_where_the_cut_is_behind_the_reader() -> None:
    found = positions()
    state = read_up_to(found, 10, epoch=1)
    state.fetch_offset = 20
    generation = state.generation
    found.follow_leaders(cluster(2, 3))

    found.take_validation(ORDERS, state.generation, end_offset=15, epoch=1)

    assert (state.offset, state.fetch_offset) == (10, 10)
    assert state.generation > generation


def test_a_leader_that_knows_nothing_of_the_epoch_leads_to_a_reset() -> None:
    found = positions()
    state = read_up_to(found, 10, epoch=1)
    found.follow_leaders(cluster(2, 3))

    found.take_validation(ORDERS, state.generation, end_offset=-1, epoch=-1)

    assert (state.need, state.reset) == (Need.RESET, EARLIEST)


@pytest.mark.parametrize(
    ("attribute", "value"), [("is_paused", True), ("is_parked", True), ("stop_offset", 0)]
)
def test_what_is_held_back_is_not_fetched(attribute: str, value: Any) -> None:
    found = positions()
    found.assign([ORDERS])
    found.seek(ORDERS, 0)
    assert found.of(ORDERS).is_fetchable(NOW_MS)

    setattr(found.of(ORDERS), attribute, value)

    assert not found.of(ORDERS).is_fetchable(NOW_MS)


def test_a_rewind_leads_to_the_last_commit_or_to_where_reading_began() -> None:
    positions = Positions(ResetPolicy("latest", lambda: 0), has_group=True, backoff=Backoff(1, 1))
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


def test_a_rewind_after_a_cut_log_still_gives_what_was_not_committed() -> None:
    positions = Positions(ResetPolicy("earliest", lambda: 0), has_group=True, backoff=Backoff(1, 1))
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
