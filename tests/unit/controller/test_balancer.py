"""The self-balancer: which replicas it moves, and when it leaves a cluster alone."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from penstock.controller import balancer
from penstock.controller.balancer import BUSY_WAIT_MS, Plan, balance, wait_to_balance_ms
from penstock.controller.elect_leaders import elect_preferred_leaders
from penstock.metadata.records import ConfigRecord
from unit.controller.active import ActiveController
from unit.controller.clusters import new_topic

DRAINED = "penstock.balancer.drained.brokers"


def set_cluster_config(active: ActiveController, name: str, value: str) -> None:
    record = ConfigRecord(resource_type=4, resource_name="", name=name, value=value)
    active.state.apply(active.image.apply([record], offset=active.image.offset + 1, epoch=1))


def replica_counts(active: ActiveController) -> Counter[int]:
    return Counter(
        node_id
        for topic in active.image.topics.by_name.values()
        for partition in topic.partitions
        for node_id in partition.replicas
    )


def finish_moves(active: ActiveController) -> int:
    """The new replicas catch up; return how many reassignments were completed."""
    keys = active.state.index.reassigning()
    for topic_id, index in keys:
        topic = active.image.topics.with_id(topic_id)
        assert topic is not None
        replicas = topic.partitions[index].replicas
        alive = [node_id for node_id in replicas if active.broker(node_id).is_active]
        active.alter_isr(alive, topic=topic.name, index=index)
    return len(keys)


def run_balancer(active: ActiveController) -> int:
    """Balance until nothing moves any more; return the number of moves."""
    moves = 0
    for _ in range(1000):
        active.decide(balance)
        finished = finish_moves(active)
        if not finished and wait_to_balance_ms(active.state) > BUSY_WAIT_MS:
            return moves
        moves += finished
    raise AssertionError("the balancer never ends")


def test_a_new_broker_gets_its_share_of_replicas_and_leaders() -> None:
    active = ActiveController((1, 2, 3))
    active.create(new_topic("t", 20, 3), new_topic("u", 20, 3))
    active.join(4)

    run_balancer(active)
    active.decide(elect_preferred_leaders)

    assert replica_counts(active) == {1: 30, 2: 30, 3: 30, 4: 30}
    leaders = Counter(
        partition.leader for topic in active.image.topics.by_name.values() for partition in topic.partitions
    )
    assert 9 <= min(leaders.values()) <= max(leaders.values()) <= 11
    on_new = Counter(
        name
        for name, topic in active.image.topics.by_name.items()
        for partition in topic.partitions
        if 4 in partition.replicas
    )
    assert on_new == {"t": 15, "u": 15}, "every topic has its share"


def test_only_as_many_moves_as_needed_are_made() -> None:
    active = ActiveController((1, 2, 3))
    active.create(new_topic("t", 40, 3))
    active.join(4)

    assert run_balancer(active) == 30


def test_a_balanced_cluster_is_left_alone() -> None:
    active = ActiveController((1, 2, 3))
    active.create(new_topic("t", 10, 2), new_topic("u", 1, 1), new_topic("v", 1, 3))

    active.decide(balance)

    assert active.records == []


def test_a_single_partition_does_not_wander() -> None:
    active = ActiveController((1, 2, 3))
    active.create(new_topic("t", assignments={0: [1]}))

    assert run_balancer(active) == 0


def test_a_few_partitions_move_at_a_time() -> None:
    active = ActiveController((1, 2, 3), settings={"penstock.balancer.moves.max": "2"})
    active.create(new_topic("t", 12, 2))
    active.join(4)

    active.decide(balance)
    assert active.state.index.reassigning_count() == 2
    active.decide(balance)
    assert active.records == []
    assert wait_to_balance_ms(active.state) == 1000
    finish_moves(active)
    active.decide(balance)

    assert active.state.index.reassigning_count() == 2


def test_a_drained_broker_loses_all_replicas_and_gets_no_new_ones() -> None:
    active = ActiveController((1, 2, 3, 4))
    active.create(new_topic("t", 12, 3), new_topic("u", 5, 1))
    set_cluster_config(active, DRAINED, "1")
    assert wait_to_balance_ms(active.state) == 1000

    run_balancer(active)

    counts = replica_counts(active)
    assert counts[1] == 0
    assert max(counts.values()) - min(counts[node_id] for node_id in (2, 3, 4)) <= 2
    active.create(new_topic("v", 6, 3))
    assert replica_counts(active)[1] == 0
    assert run_balancer(active) == 0


def test_a_broker_whose_partitions_have_no_other_place_keeps_them() -> None:
    active = ActiveController((1, 2, 3))
    active.create(new_topic("t", 2, 3), new_topic("u", assignments={0: [1, 2]}))
    set_cluster_config(active, DRAINED, "1")

    run_balancer(active)

    assert replica_counts(active)[1] == 2
    assert set(active.partition("u").replicas) == {2, 3}


def test_a_drained_broker_takes_replicas_if_there_are_too_few_others() -> None:
    active = ActiveController((1, 2, 3))
    set_cluster_config(active, DRAINED, "1")

    active.create(new_topic("t", 1, 3))

    assert active.partition().replicas[-1] == 1


def test_a_dead_broker_is_drained_too() -> None:
    active = ActiveController((1, 2, 3))
    active.create(new_topic("t", assignments={0: [1, 2]}), new_topic("u", assignments={0: [1]}))
    active.fence(1)
    set_cluster_config(active, DRAINED, "1")

    run_balancer(active)

    assert active.partition("t").replicas == (3, 2)
    assert active.partition("u").replicas == (1,), "nobody else has its records"


def test_replicas_stay_in_different_racks() -> None:
    active = ActiveController()
    for node_id, rack in ((1, "a"), (2, "a"), (3, "b"), (4, "b")):
        active.join(node_id, rack=rack)
    active.create(new_topic("t", 20, 2))
    active.join(5, rack="a")

    assert run_balancer(active) > 0

    for partition in active.topic().partitions:
        assert len({active.broker(node_id).rack for node_id in partition.replicas}) == 2


@pytest.mark.parametrize("why", ["disabled", "fenced", "cordoned"])
def test_nothing_moves_to_a_broker_that_cannot_take_replicas(why: str) -> None:
    active = ActiveController((1, 2))
    active.create(new_topic("t", 10, 2))
    active.join(3)
    if why == "disabled":
        set_cluster_config(active, "penstock.balancer.enable", "false")
    elif why == "fenced":
        active.fence(3)
    else:
        active.heartbeat(3, cordoned=active.broker(3).directories)

    active.decide(balance)

    assert active.records == []


def test_partitions_that_are_not_in_sync_stay() -> None:
    active = ActiveController((1, 2))
    active.create(new_topic("t", assignments={0: [1, 2], 1: [1, 2], 2: [1, 2], 3: [1, 2]}))
    for index in range(3):
        active.alter_isr([1], index=index)
    active.join(3)

    active.decide(balance)

    assert [bool(each.adding_replicas) for each in active.topic().partitions] == [False, False, False, True]


def test_two_new_brokers_fill_up_together() -> None:
    active = ActiveController((1, 2))
    active.create(new_topic("t", 12, 2))
    active.join(3)
    active.join(4)

    moves = list(Plan(active.image, active.state.index).moves((3, 4)))

    assert [move.target for move in moves] == [3, 4] * 6


def test_a_partition_on_two_drained_brokers_leaves_one_after_the_other() -> None:
    active = ActiveController((1, 2, 3, 4))
    active.create(new_topic("t", assignments={0: [1, 2]}))
    set_cluster_config(active, DRAINED, "1,2")

    active.decide(balance)
    assert len(active.records) == 1
    run_balancer(active)

    assert set(active.partition().replicas) == {3, 4}


def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balancer, "WINDOW", 2)
    monkeypatch.setattr(balancer, "EXAMINED_MAX", 4)


def test_a_decision_examines_few_partitions_and_the_next_one_continues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only the last partition can move: the others are not in sync."""
    small_windows(monkeypatch)
    active = ActiveController((1, 2))
    active.create(new_topic("t", assignments={index: [1, 2] for index in range(11)}))
    for index in range(10):
        active.alter_isr([1], index=index)
    active.join(3)
    examined: list[object] = []
    is_movable = Plan._is_movable

    def counted(*args: Any, **kwargs: Any) -> bool:
        examined.append(args)
        return is_movable(*args, **kwargs)

    monkeypatch.setattr(Plan, "_is_movable", counted)

    for _ in range(20):
        examined.clear()
        active.decide(balance)
        assert len(examined) <= 5
        if active.records:
            break
        assert wait_to_balance_ms(active.state) == 1000

    assert active.state.index.reassigning() == [(active.topic().topic_id, 10)]


def test_a_broker_that_nothing_can_move_to_is_left_alone_until_the_next_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise the balancer would examine all partitions every second."""
    small_windows(monkeypatch)
    active = ActiveController()
    for node_id, rack in ((1, "a"), (2, "b"), (3, "b")):
        active.join(node_id, rack=rack)
    active.create(new_topic("t", assignments={index: [1, 2 + index % 2] for index in range(20)}))

    waits = []
    for _ in range(20):
        active.decide(balance)
        assert active.records == []
        waits.append(wait_to_balance_ms(active.state))
        if waits[-1] != 1000:
            break

    assert waits[-1] == 30_000
    assert active.state.balancing.filling == ()
    active.join(4, rack="a")
    assert run_balancer(active) > 0, "the next check starts from the beginning"


def test_a_drained_broker_that_cannot_lose_its_replicas_is_checked_rarely(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small_windows(monkeypatch)
    active = ActiveController((1, 2, 3))
    active.create(new_topic("t", 9, 3))
    set_cluster_config(active, DRAINED, "1")

    for _ in range(3):
        active.decide(balance)

    assert active.records == []
    assert wait_to_balance_ms(active.state) == 30_000


def test_a_new_broker_gets_its_share_even_if_windows_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    small_windows(monkeypatch)
    active = ActiveController((1, 2, 3))
    active.create(new_topic("t", 20, 3), new_topic("u", 20, 3))
    active.join(4)

    run_balancer(active)

    assert replica_counts(active) == {1: 30, 2: 30, 3: 30, 4: 30}
