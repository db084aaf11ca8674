"""Images that break a rule are found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage, TopicsImage
from penstock.protocol.types import Uuid
from simulator.clusters.metadata import check_image, check_successor
from simulator.world import BrokenPromise

ID = Uuid(b"\\x01" * 16)
PARTITION = PartitionImage(
    replicas=(1, 2, 3), isr=(1, 2), leader=1, leader_epoch=5, partition_epoch=7, directories=(ID, ID, ID)
)


def image(partition: PartitionImage, *, fenced: int | None = None) -> MetadataImage:
    brokers = {
        node_id: BrokerImage(
            node_id=node_id,
            epoch=node_id,
            incarnation_id=ID,
            endpoints=(),
            features={},
            rack=None,
            is_fenced=node_id == fenced,
            in_controlled_shutdown=False,
            directories=(),
        )
        for node_id in (1, 2, 3)
    }
    topics = TopicsImage(
        by_name={"orders": TopicImage("orders", ID, (partition,))}, names_by_id={ID: "orders"}
    )
    return MetadataImage(topics=topics, brokers=brokers, offset=10)


@pytest.mark.parametrize(
    ("partition", "fenced"),
    [
        (PARTITION, None),
        (PARTITION, 3),
        (replace(PARTITION, isr=(1,), leader=-1), 1),
        (replace(PARTITION, isr=(1,), eligible_leaders=(2,)), 2),
    ],
)
def test_sound_images_pass(partition: PartitionImage, fenced: int | None) -> None:
    check_image(image(partition, fenced=fenced))


@pytest.mark.parametrize(
    ("partition", "fenced", "complaint"),
    [
        (replace(PARTITION, isr=(1, 4)), None, "no replicas"),
        (replace(PARTITION, eligible_leaders=(2,)), None, "both in sync and eligible"),
        (replace(PARTITION, leader=3), None, "not in sync"),
        (PARTITION, 1, "leader that is fenced"),
        (PARTITION, 2, "counts a fenced broker"),
    ],
)
def test_an_image_that_breaks_a_rule_is_found(
    partition: PartitionImage, fenced: int | None, complaint: str
) -> None:
    with pytest.raises(BrokenPromise, match=complaint):
        check_image(image(partition, fenced=fenced))


@pytest.mark.parametrize(
    "later",
    [
        replace(PARTITION, leader_epoch=4),
        replace(PARTITION, partition_epoch=6),
        replace(PARTITION, leader=2, partition_epoch=8),
    ],
)
def test_epochs_that_go_back_or_stay_when_the_leader_changes_are_found(later: PartitionImage) -> None:
    with pytest.raises(BrokenPromise):
        check_successor(image(PARTITION), image(later))
