"""Log lines about brokers, leaders and reassignments."""

from __future__ import annotations

from collections.abc import Callable

from penstock.controller.cluster_changes import cluster_lines, lost_leaders
from penstock.metadata.delta import MetadataDelta
from unit.controller.active import ActiveController
from unit.controller.clusters import new_topic


def change(active: ActiveController, act: Callable[[], object]) -> MetadataDelta:
    """What an action changed."""
    before = active.image
    deltas: list[MetadataDelta] = []
    apply = active.state.apply

    def watch(delta: MetadataDelta) -> None:
        deltas.append(delta)
        apply(delta)

    active.state.apply = watch  # type: ignore[method-assign]
    act()
    active.state.apply = apply  # type: ignore[method-assign]
    (delta,) = deltas
    assert delta.before is before
    return delta


def three_nodes() -> ActiveController:
    active = ActiveController((1, 2, 3))
    active.create(new_topic("t", assignments={index: [1, 2, 3] for index in range(7)}))
    return active


def test_registration_and_unfencing_are_logged_once() -> None:
    active = ActiveController((1, 2))

    registered = change(active, lambda: active.register(3, rack="r1"))
    unfenced = change(active, lambda: active.heartbeat(3))

    assert list(cluster_lines(registered)) == [
        f"registered broker 3, broker epoch {active.broker(3).epoch}, rack r1"
    ]
    assert list(cluster_lines(unfenced)) == ["unfenced broker 3"]


def test_a_fenced_broker_is_logged_with_the_partitions_that_moved() -> None:
    active = three_nodes()

    delta = change(active, lambda: active.fence(1))

    assert list(cluster_lines(delta)) == [
        "fenced broker 1",
        "7 partitions have another leader: t-0, t-1, t-2, t-3, t-4 and 2 more",
    ]
    assert lost_leaders(delta) is None


def test_lost_leaders_say_which_brokers_to_start() -> None:
    active = ActiveController((1, 2, 3))
    active.create(new_topic("t", assignments={0: [1, 2]}, configs={"min.insync.replicas": "2"}))
    active.fence(1)

    delta = change(active, lambda: active.fence(2))

    assert lost_leaders(delta) == (
        "1 partition has no leader now: t-0. Start brokers 1, 2: only they have all committed records"
    )


def test_a_reassignment_is_logged_when_it_starts_and_ends() -> None:
    active = ActiveController((1, 2, 3))
    active.create(new_topic("t", assignments={0: [1, 2]}))

    started = change(active, lambda: active.reassign([3, 2]))
    ended = change(active, lambda: active.alter_isr([1, 2, 3]))

    assert list(cluster_lines(started)) == ["reassigning t-0 from [1, 2] to [3, 2]"]
    assert list(cluster_lines(ended)) == [
        "1 partition has another leader: t-0",
        "the reassignment of t-0 is complete or cancelled: its replicas are [3, 2]",
    ]


def test_a_cluster_of_one_has_nothing_to_report() -> None:
    active = ActiveController(node_id=1)

    assert list(cluster_lines(change(active, lambda: active.register(1)))) == []
    assert list(cluster_lines(change(active, lambda: active.heartbeat(1)))) == []
