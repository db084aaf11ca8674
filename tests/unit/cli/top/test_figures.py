"""Figures computed from snapshots of a cluster."""

from __future__ import annotations

from dataclasses import replace

from penstock.cli.top.figures import Figures, Observer
from penstock.cli.top.snapshots import BrokerState, GroupState, PartitionState, Snapshot

BEFORE = Snapshot(
    seconds=10.0,
    cluster_id="abc",
    brokers=(BrokerState(2, "b:2"), BrokerState(1, "a:1", is_controller=True, used_bytes=500)),
    partitions={
        ("orders", 0): PartitionState(1, (1, 2), (1, 2), 100, 1000),
        ("orders", 1): PartitionState(2, (2, 1), (2,), 50, 500),
        ("empty", 0): PartitionState(None, (1,), (), None),
    },
    groups={
        "g": GroupState(
            "Stable", 2, {("orders", 0): 40, ("orders", 1): 0}, {("orders", 0): 60, ("orders", 1): 50}
        )
    },
)
AFTER = replace(
    BEFORE,
    seconds=12.0,
    partitions={
        ("orders", 0): PartitionState(1, (1, 2), (1, 2), 300, 3000),
        ("orders", 1): PartitionState(2, (2, 1), (2,), 50, 500),
        ("empty", 0): PartitionState(None, (1,), (), None),
        ("new", 0): PartitionState(1, (1,), (1,), 1000, 9),
    },
    groups={
        "g": GroupState(
            "Stable", 2, {("orders", 0): 140, ("orders", 1): 0}, {("orders", 0): 160, ("orders", 1): 50}
        ),
        "still": GroupState("Empty", 0, {("orders", 0): 300}, {("orders", 0): 0}),
    },
)


def observed(*snapshots: Snapshot) -> Figures:
    observer = Observer()
    for snapshot in snapshots:
        figures = observer.take(snapshot)
    return figures


def test_one_look_has_no_rates() -> None:
    figures = observed(BEFORE)

    assert figures.records_per_second == figures.bytes_per_second == 0.0
    assert (figures.partitions, figures.without_leader, figures.under_replicated) == (3, 1, 2)


def test_rates_are_differences_between_two_snapshots() -> None:
    figures = observed(BEFORE, AFTER)

    assert figures.records_per_second == 100.0
    assert figures.bytes_per_second == 1000.0
    orders = next(topic for topic in figures.topics if topic.name == "orders")
    assert (orders.partitions, orders.records_per_second, orders.records, orders.size_bytes) == (
        2,
        100.0,
        350,
        3500,
    )
    new = next(topic for topic in figures.topics if topic.name == "new")
    assert new.records_per_second == 0.0, "what was there before it was seen did not come just now"


def test_a_recreated_topic_has_no_negative_rate() -> None:
    assert observed(AFTER, replace(BEFORE, seconds=14.0)).records_per_second == 0.0


def test_lag_is_of_the_group_that_is_furthest_behind() -> None:
    figures = observed(BEFORE, AFTER)

    orders = next(topic for topic in figures.topics if topic.name == "orders")
    assert orders.lag == 300
    moving, still = figures.groups
    assert (moving.name, moving.lag, moving.records_per_second, moving.seconds_behind) == (
        "g",
        140,
        50.0,
        2.8,
    )
    assert (still.name, still.lag, still.seconds_behind) == ("still", 300, None)


def test_brokers_lead_and_hold_partitions() -> None:
    first, second = observed(BEFORE, AFTER).brokers

    assert (first.broker.id, first.leads, first.replicas, first.records_per_second) == (1, 2, 4, 100.0)
    assert (second.broker.id, second.leads, second.replicas) == (2, 1, 2)


def test_history_grows_with_every_look() -> None:
    figures = observed(BEFORE, AFTER, replace(AFTER, seconds=13.0), replace(AFTER, seconds=14.0))

    assert figures.history == (100.0, 0.0)


def test_programs_get_all_of_it() -> None:
    facts = observed(BEFORE, AFTER).facts()

    assert facts["records_per_second"] == 100.0
    assert [topic["topic"] for topic in facts["topics"]] == ["empty", "new", "orders"]  # type: ignore[attr-defined]
    assert [group["group"] for group in facts["groups"]] == ["g", "still"]  # type: ignore[attr-defined]
