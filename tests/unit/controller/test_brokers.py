"""Nodes that come into service, and blocks of producer ids for them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.controller.brokers import (
    fail_directories,
    register_broker,
    register_controller,
    unfence_broker,
)
from penstock.controller.producer_ids import BLOCK_SIZE, PRODUCER_ID_MAX, allocate_producer_ids
from penstock.metadata.errors import Refused
from penstock.metadata.image import FeatureRange, MetadataImage
from penstock.metadata.records import BrokerRegistrationChangeRecord, PartitionChangeRecord
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from penstock.protocol.types import Uuid
from unit.controller.clusters import after, cluster, new_topic, node_uuid, registration, with_topics


def restart(image: MetadataImage, node_id: int = 1, *, keeps_epochs: bool = False) -> MetadataImage:
    epoch = image.offset + 1
    image = after(image, register_broker(image, registration(node_id, start=1), broker_epoch=epoch))
    return after(image, unfence_broker(image, node_id, broker_epoch=epoch, keeps_epochs=keeps_epochs))


def test_a_node_is_fenced_until_it_is_let_in() -> None:
    image = after(cluster(0), register_broker(cluster(0), registration(1), broker_epoch=42))
    assert image.brokers[1].is_fenced
    assert image.brokers[1].epoch == 42

    image = after(image, unfence_broker(image, 1, broker_epoch=42, keeps_epochs=False))
    assert image.brokers[1].is_active


def test_a_new_incarnation_gets_a_new_epoch_and_the_same_one_keeps_its_own() -> None:
    image = cluster()
    epoch = image.brokers[1].epoch

    again = register_broker(image, registration(1, start=0), broker_epoch=99)
    assert again.response == epoch
    assert after(image, again).brokers[1].is_active, (
        "to say more of itself does not put a node out of service"
    )

    new = register_broker(image, registration(1, start=1), broker_epoch=99)
    assert new.response == 99
    assert after(image, new).brokers[1].is_fenced


def test_a_node_that_comes_back_leads_again_in_a_new_epoch() -> None:
    image = restart(with_topics(cluster(), new_topic("t", 3, 1)))

    for partition in image.topics.by_name["t"].partitions:
        assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (1, 1, 1)


def test_a_node_that_stopped_cleanly_leads_on_in_the_old_epoch() -> None:
    image = restart(with_topics(cluster(), new_topic("t", 3, 1)), keeps_epochs=True)

    for partition in image.topics.by_name["t"].partitions:
        assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (1, 0, 0)


def test_a_node_takes_the_lead_where_there_is_none_and_it_has_everything() -> None:
    image = with_topics(cluster(2), new_topic("t", assignments={0: [1, 2], 1: [2, 1], 2: [2, 1]}))
    topic_id = image.topics.by_name["t"].topic_id
    image = image.apply(
        [
            PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=-1),
            PartitionChangeRecord(
                partition_id=1, topic_id=topic_id, leader=-1, isr=[], eligible_leader_replicas=[1, 2]
            ),
            PartitionChangeRecord(partition_id=2, topic_id=topic_id, leader=-1, isr=[2]),
        ],
        offset=image.offset + 3,
        epoch=1,
    ).image

    in_sync, eligible, behind = restart(image).topics.by_name["t"].partitions

    assert (in_sync.leader, in_sync.isr) == (1, (1, 2))
    assert (eligible.leader, eligible.isr, eligible.eligible_leaders) == (1, (1,), (2,))
    assert behind.leader == -1, "node 2 has records that node 1 never saw"


def test_other_nodes_partitions_are_left_alone() -> None:
    image = with_topics(cluster(2), new_topic("t", assignments={0: [2, 1]}))

    outcome = unfence_broker(image, 1, broker_epoch=image.brokers[1].epoch, keeps_epochs=False)

    assert [type(record) for record in outcome.records] == [BrokerRegistrationChangeRecord]


def test_an_incarnation_that_is_gone_is_not_let_in() -> None:
    image = cluster()
    with pytest.raises(Refused) as refused:
        unfence_broker(image, 1, broker_epoch=image.brokers[1].epoch - 1, keeps_epochs=False)
    assert refused.value.error is ErrorCode.STALE_BROKER_EPOCH

    with pytest.raises(Refused) as refused:
        unfence_broker(image, 5, broker_epoch=1, keeps_epochs=False)
    assert refused.value.error is ErrorCode.BROKER_ID_NOT_REGISTERED


@pytest.mark.parametrize(
    "directories",
    [
        (),
        (node_uuid(1, "disk"), node_uuid(1, "disk")),
        (Uuid(bytes(15) + b"\x07"),),
        (node_uuid(2, "disk"),),
    ],
)
def test_directories_that_can_not_be(directories: tuple[Uuid, ...]) -> None:
    with pytest.raises(Refused) as refused:
        register_broker(cluster(2), replace(registration(1), directories=directories), broker_epoch=9)

    assert refused.value.error is ErrorCode.INVALID_REGISTRATION


def test_a_node_that_is_too_old_for_the_cluster_is_refused() -> None:
    supported = {**registration(1).features, "metadata.version": FeatureRange(7, 29)}

    with pytest.raises(Refused, match=r"metadata.version 30, and node 1 supports 7-29") as refused:
        register_broker(cluster(), replace(registration(1), features=supported), broker_epoch=9)

    assert refused.value.error is ErrorCode.UNSUPPORTED_VERSION


def test_a_controller_registers_with_its_features() -> None:
    image = after(cluster(), register_controller(registration(1)))

    assert image.controllers[1].features["metadata.version"] == FeatureRange(30, 30)


def test_producer_ids_come_in_blocks_that_never_overlap() -> None:
    image = cluster()
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=image.brokers[1].epoch)

    first = allocate_producer_ids(image, request)
    second = allocate_producer_ids(after(image, first), request)

    assert (first.response.producer_id_start, first.response.producer_id_len) == (0, BLOCK_SIZE)
    assert second.response.producer_id_start == BLOCK_SIZE


def test_producer_ids_are_for_nodes_that_are_registered() -> None:
    with pytest.raises(Refused):
        allocate_producer_ids(cluster(), AllocateProducerIdsRequest(broker_id=1, broker_epoch=12345))


def test_producer_ids_end_some_day() -> None:
    image = replace(cluster(), next_producer_id=PRODUCER_ID_MAX - BLOCK_SIZE + 1)

    with pytest.raises(Refused, match="No producer ids are left"):
        allocate_producer_ids(
            image, AllocateProducerIdsRequest(broker_id=1, broker_epoch=image.brokers[1].epoch)
        )


def test_a_node_that_lost_a_directory_leads_nothing_there_and_leads_again_when_it_is_repaired() -> None:
    image = with_topics(cluster(), new_topic("t", 3, 1))
    topic = image.topics.by_name["t"]
    left = [node_uuid(1, "left")]

    lost = fail_directories(image, 1, online=left, offline={(topic.topic_id, 1)})
    image = after(image, lost)

    partitions = image.topics.by_name["t"].partitions
    assert [(each.leader, each.leader_epoch) for each in partitions] == [(1, 0), (-1, 1), (1, 0)]
    assert partitions[1].isr == (1,), "it is the only one that has the records"
    assert image.brokers[1].directories == tuple(left)
    assert after(image, fail_directories(image, 1, online=left, offline={(topic.topic_id, 1)})) == image
    partitions = restart(image, keeps_epochs=True).topics.by_name["t"].partitions
    assert [(each.leader, each.leader_epoch) for each in partitions] == [(1, 0), (1, 2), (1, 0)]


def test_another_replica_in_sync_takes_over_from_a_failed_directory() -> None:
    image = with_topics(cluster(2), new_topic("t", 1, 2))
    topic = image.topics.by_name["t"]
    leader = topic.partitions[0].leader
    other = 3 - leader

    offline = {(topic.topic_id, 0)}
    image = after(image, fail_directories(image, leader, online=[node_uuid(1, "left")], offline=offline))

    partition = image.topics.by_name["t"].partitions[0]
    assert (partition.leader, partition.isr) == (other, (other,))


def test_a_node_that_starts_without_a_directory_does_not_lead_what_is_there() -> None:
    image = with_topics(cluster(), new_topic("t", 2, 1))
    topic = image.topics.by_name["t"]
    epoch = image.offset + 1
    image = after(image, register_broker(image, registration(1, start=1), broker_epoch=epoch))

    unfenced = unfence_broker(image, 1, broker_epoch=epoch, keeps_epochs=True, offline={(topic.topic_id, 0)})

    partitions = after(image, unfenced).topics.by_name["t"].partitions
    assert [each.leader for each in partitions] == [-1, 1]
