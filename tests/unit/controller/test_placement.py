"""Where replicas go."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.controller.placement import default_directory, place_replicas
from penstock.metadata.directories import UNASSIGNED
from penstock.metadata.errors import Refused
from penstock.metadata.image import BrokerImage
from penstock.protocol.errors import ErrorCode
from unit.controller.clusters import cluster, node_uuid


def place(
    brokers: dict[int, BrokerImage], partition_count: int, replication_factor: int, seed: int = 0
) -> list[tuple[int, ...]]:
    return place_replicas(
        brokers,
        partition_count=partition_count,
        replication_factor=replication_factor,
        rng=random.Random(seed),
    )


def nodes(count: int, *, racks: tuple[str, ...] = ()) -> dict[int, BrokerImage]:
    return dict(cluster(count, racks=racks).brokers)


@given(
    node_count=st.integers(1, 7),
    partition_count=st.integers(1, 40),
    replication_factor=st.integers(1, 7),
    seed=st.integers(0, 99),
)
def test_leaders_and_replicas_are_spread_and_no_node_has_two_of_one_partition(
    node_count: int, partition_count: int, replication_factor: int, seed: int
) -> None:
    replication_factor = min(replication_factor, node_count)

    placements = place(nodes(node_count), partition_count, replication_factor, seed)

    leaders = Counter(replicas[0] for replicas in placements)
    assert len(placements) == partition_count
    assert all(len(set(replicas)) == replication_factor for replicas in placements)
    assert max(leaders.values()) - min(leaders.get(node, 0) for node in range(1, node_count + 1)) <= 1


def test_followers_are_spread_too() -> None:
    followers = Counter(replicas[1] for replicas in place(nodes(5), 100, 2))

    assert set(followers) == {1, 2, 3, 4, 5}
    assert max(followers.values()) <= 25


def test_the_replicas_of_a_partition_stand_in_different_racks() -> None:
    racks = ("east", "east", "west", "west", "south", "south")
    rack_of = dict(enumerate(racks, start=1))

    for replicas in place(nodes(6, racks=racks), 30, 3):
        assert len({rack_of[node] for node in replicas}) == 3


def test_a_fenced_node_follows_where_it_must_and_never_leads() -> None:
    brokers = nodes(3)
    brokers[2] = replace(brokers[2], is_fenced=True)

    assert all(2 not in replicas for replicas in place(brokers, 20, 2))
    assert all(replicas[-1] == 2 for replicas in place(brokers, 20, 3))


@pytest.mark.parametrize(
    "change", [{"in_controlled_shutdown": True}, {"cordoned_directories": (node_uuid(2, "disk"),)}]
)
def test_a_broker_in_controlled_shutdown_or_with_cordoned_directories_gets_no_replicas(
    change: dict[str, object],
) -> None:
    brokers = nodes(2)
    brokers[2] = replace(brokers[2], **change)  # type: ignore[arg-type]

    assert set(place(brokers, 10, 1)) == {(1,)}
    with pytest.raises(Refused) as refused:
        place(brokers, 10, 2)
    assert refused.value.error is ErrorCode.INVALID_REPLICATION_FACTOR


def test_too_many_replicas_are_refused_and_the_message_names_the_replication_factor() -> None:
    """Users and scripts search for this text."""
    with pytest.raises(
        Refused, match=r"replication factor of 9 .* available brokers, 2. Choose .* at most 2"
    ):
        place(nodes(2), 1, 9)
    with pytest.raises(Refused, match="replication factor of 1 cannot be reached: no broker is registered"):
        place({}, 1, 1)


def test_no_replica_is_placed_if_all_brokers_are_fenced() -> None:
    brokers = {1: replace(nodes(1)[1], is_fenced=True)}

    with pytest.raises(
        Refused, match=r"replication factor of .* cannot be reached: all registered brokers are fenced"
    ):
        place(brokers, 1, 1)


def test_two_topics_begin_at_different_nodes() -> None:
    first_leaders = {place(nodes(5), 1, 1, seed)[0] for seed in range(50)}

    assert len(first_leaders) == 5


def test_the_directory_is_known_where_a_node_has_one() -> None:
    node = nodes(1)[1]
    second = node_uuid(1, "second")

    assert default_directory(node) == node.directories[0]
    assert default_directory(replace(node, directories=(*node.directories, second))) == UNASSIGNED
    cordoned = replace(node, directories=(*node.directories, second), cordoned_directories=node.directories)
    assert default_directory(cordoned) == second


def on_hosts(brokers: dict[int, BrokerImage], hosts: dict[int, str]) -> dict[int, BrokerImage]:
    return {
        node_id: replace(broker, endpoints=(replace(broker.endpoints[0], host=hosts[node_id]),))
        for node_id, broker in brokers.items()
    }


@pytest.mark.parametrize("seed", range(5))
def test_replicas_of_a_partition_do_not_share_a_host_if_there_are_several(seed: int) -> None:
    hosts = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}

    placements = place(on_hosts(nodes(6), hosts), 30, 3, seed)

    assert all(len({hosts[node_id] for node_id in replicas}) == 3 for replicas in placements)


def test_racks_come_before_hosts() -> None:
    hosts = {1: "a", 2: "b", 3: "a", 4: "b"}

    placements = place(on_hosts(nodes(4, racks=("x", "x", "y", "y")), hosts), 12, 2)

    racks = {1: "x", 2: "x", 3: "y", 4: "y"}
    assert all({racks[node_id] for node_id in replicas} == {"x", "y"} for replicas in placements)
