"""Cluster metadata: what replaces what."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.cluster import Cluster, Leader, LeaderChange, Node, PartitionInfo, TopicPartition
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from penstock.protocol.types import ZERO_UUID, Uuid

ORDERS = TopicPartition("orders", 0)
FIRST_ID, SECOND_ID = Uuid(b"1" * 16), Uuid(b"2" * 16)


def partition(index: int = 0, *, leader: int = 1, epoch: int = 0) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        partition_index=index,
        leader_id=leader,
        leader_epoch=epoch,
        replica_nodes=[leader],
        isr_nodes=[leader],
    )


def topic(
    *partitions: MetadataResponsePartition,
    name: str = "orders",
    topic_id: Uuid = FIRST_ID,
    error: ErrorCode = ErrorCode.NONE,
) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=error, name=name, topic_id=topic_id, partitions=list(partitions))


def answer(*topics: MetadataResponseTopic, node_ids: tuple[int, ...] = (1, 2)) -> MetadataResponse:
    brokers = [MetadataResponseBroker(node_id=each, host=f"host{each}", port=9092) for each in node_ids]
    return MetadataResponse(brokers=brokers, cluster_id="c", controller_id=1, topics=list(topics))


def test_nothing_is_known_at_first() -> None:
    assert Cluster().leader_of(ORDERS) is None
    assert Cluster().partitions_of("orders") == ()


def test_a_response_has_nodes_topics_and_leaders() -> None:
    cluster = Cluster().merged(answer(topic(partition(leader=2, epoch=7))))
    assert cluster.cluster_id == "c"
    assert cluster.controller_id == 1
    assert cluster.nodes[2] == Node(2, "host2", 9092)
    assert cluster.leader_of(ORDERS) == Leader(2, 7)
    assert cluster.topics_by_id[FIRST_ID].name == "orders"
    assert cluster.partitions_of("orders") == (ORDERS,)


@pytest.mark.parametrize("unknown", [("orders", 1), ("orders", -1), ("payments", 0)])
def test_an_unknown_partition_has_no_leader(unknown: tuple[str, int]) -> None:
    cluster = Cluster().merged(answer(topic(partition())))
    assert cluster.leader_of(TopicPartition(*unknown)) is None
    assert cluster.partition(TopicPartition(*unknown)) is None


def test_partitions_are_ordered_by_index() -> None:
    cluster = Cluster().merged(answer(topic(partition(2), partition(0), partition(1))))
    assert [each.index for each in cluster.topics["orders"].partitions] == [0, 1, 2]


def test_a_missing_index_has_no_leader() -> None:
    cluster = Cluster().merged(answer(topic(partition(0), partition(2))))
    assert cluster.topics["orders"].partitions[1] == PartitionInfo(1, error=ErrorCode.LEADER_NOT_AVAILABLE)
    assert cluster.leader_of(TopicPartition("orders", 1)) is None


def test_an_older_epoch_does_not_replace_a_newer_one() -> None:
    known = Cluster().merged(answer(topic(partition(leader=2, epoch=7))))
    assert known.merged(answer(topic(partition(leader=1, epoch=6)))).leader_of(ORDERS) == Leader(2, 7)


def test_the_same_epoch_replaces() -> None:
    known = Cluster().merged(answer(topic(partition(leader=2, epoch=7))))
    after = known.merged(answer(topic(partition(leader=-1, epoch=7))))
    assert after.leader_of(ORDERS) is None


def test_a_broker_without_epochs_is_trusted() -> None:
    known = Cluster().merged(answer(topic(partition(leader=2, epoch=7))))
    assert known.merged(answer(topic(partition(leader=1, epoch=-1)))).leader_of(ORDERS) == Leader(1, -1)


def test_a_recreated_topic_starts_again() -> None:
    known = Cluster().merged(answer(topic(partition(leader=2, epoch=7))))
    after = known.merged(answer(topic(partition(leader=1, epoch=0), topic_id=SECOND_ID)))
    assert after.leader_of(ORDERS) == Leader(1, 0)
    assert FIRST_ID not in after.topics_by_id


def test_an_older_broker_without_ids_does_not_remove_one() -> None:
    known = Cluster().merged(answer(topic(partition(epoch=7))))
    after = known.merged(answer(topic(partition(epoch=6), topic_id=ZERO_UUID)))
    assert after.topics["orders"].id == FIRST_ID
    assert after.leader_of(ORDERS) == Leader(1, 7)


def test_topics_missing_in_a_response_are_dropped_unless_kept() -> None:
    known = Cluster().merged(
        answer(topic(partition()), topic(partition(), name="payments", topic_id=SECOND_ID))
    )
    assert set(known.merged(answer()).topics) == set()
    assert set(known.merged(answer(), keep=["payments", "others"]).topics) == {"payments"}


def test_a_retriable_error_keeps_known_metadata() -> None:
    known = Cluster().merged(answer(topic(partition(epoch=7))))
    after = known.merged(answer(topic(error=ErrorCode.LEADER_NOT_AVAILABLE)))
    assert after.topics["orders"].error == ErrorCode.LEADER_NOT_AVAILABLE
    assert after.leader_of(ORDERS) == Leader(1, 7)


def test_a_fatal_error_drops_known_metadata() -> None:
    known = Cluster().merged(answer(topic(partition(epoch=7))))
    after = known.merged(answer(topic(error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)))
    assert after.topics["orders"].error == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert after.leader_of(ORDERS) is None


def test_a_newer_leader_from_a_fetch_is_taken_with_its_address() -> None:
    known = Cluster().merged(answer(topic(partition(epoch=7), partition(1))))
    after = known.with_leaders([LeaderChange(ORDERS, Leader(3, 8))], [Node(3, "host3", 9092)])
    assert after.leader_of(ORDERS) == Leader(3, 8)
    assert after.leader_of(TopicPartition("orders", 1)) == Leader(1, 0)
    assert after.nodes[3].host == "host3"
    assert known.leader_of(ORDERS) == Leader(1, 7), "a picture never changes"


@pytest.mark.parametrize(
    "change",
    [
        LeaderChange(ORDERS, Leader(2, 7)),
        LeaderChange(ORDERS, Leader(2, 6)),
        LeaderChange(ORDERS, Leader(-1, 9)),
        LeaderChange(TopicPartition("orders", 5), Leader(2, 9)),
        LeaderChange(TopicPartition("payments", 0), Leader(2, 9)),
    ],
)
def test_without_changes_the_cluster_object_stays_the_same(change: LeaderChange) -> None:
    known = Cluster().merged(answer(topic(partition(epoch=7))))
    assert known.with_leaders([change]) is known


def test_a_cluster_is_immutable() -> None:
    cluster = Cluster().merged(answer(topic(partition())))
    with pytest.raises(TypeError):
        cluster.topics["x"] = cluster.topics["orders"]  # type: ignore[index]


@given(epochs=st.lists(st.integers(min_value=0, max_value=5), min_size=1))
def test_the_leader_epoch_never_decreases(epochs: list[int]) -> None:
    cluster, highest = Cluster(), -1
    for epoch in epochs:
        cluster = cluster.merged(answer(topic(partition(leader=epoch + 1, epoch=epoch))))
        highest = max(highest, epoch)
        assert cluster.leader_of(ORDERS) == Leader(highest + 1, highest)
