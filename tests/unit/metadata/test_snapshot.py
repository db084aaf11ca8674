"""The records of an image, replayed, give an equal image."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from penstock.metadata.features import METADATA_VERSION
from penstock.metadata.framing import decode_record
from penstock.metadata.image import (
    EMPTY_IMAGE,
    BrokerImage,
    ControllerImage,
    Endpoint,
    FeatureRange,
    MetadataImage,
    PartitionImage,
)
from penstock.metadata.records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    EntityData,
    FeatureLevelRecord,
)
from penstock.metadata.resources import ConfigResource, ResourceType
from penstock.metadata.snapshot import encoded_records, records_of
from penstock.metadata.topics import TopicsBuilder
from penstock.protocol.types import Uuid

ids = st.binary(min_size=16, max_size=16).map(Uuid)
names = st.text("abc.-_", min_size=1, max_size=5)
levels = st.integers(0, 30)
ranges = st.builds(lambda low, more: FeatureRange(low, low + more), levels, levels)
endpoints = st.lists(
    st.builds(Endpoint, names, names, st.integers(0, 65535), st.integers(0, 3)), max_size=2
).map(tuple)
nodes = st.integers(0, 5)


@st.composite
def brokers(draw: st.DrawFn) -> BrokerImage:
    return BrokerImage(
        node_id=draw(nodes),
        epoch=draw(st.integers(0, 1000)),
        incarnation_id=draw(ids),
        endpoints=draw(endpoints),
        features=draw(st.dictionaries(names, ranges, max_size=2)),
        rack=draw(st.none() | names),
        is_fenced=draw(st.booleans()),
        in_controlled_shutdown=draw(st.booleans()),
        directories=tuple(draw(st.lists(ids, max_size=2))),
        cordoned_directories=tuple(draw(st.lists(ids, max_size=2))),
    )


@st.composite
def partitions(draw: st.DrawFn) -> PartitionImage:
    replicas = tuple(draw(st.lists(nodes, unique=True, min_size=1, max_size=4)))
    some = st.lists(st.sampled_from(replicas), unique=True, max_size=len(replicas)).map(tuple)
    return PartitionImage(
        replicas=replicas,
        isr=draw(some),
        leader=draw(st.sampled_from((-1, *replicas))),
        leader_epoch=draw(st.integers(0, 100)),
        partition_epoch=draw(st.integers(0, 100)),
        directories=tuple(draw(st.lists(ids, min_size=len(replicas), max_size=len(replicas)))),
        is_recovering=draw(st.booleans()),
        adding_replicas=draw(some),
        removing_replicas=draw(some),
        eligible_leaders=draw(some),
        last_known_leaders=draw(some),
    )


@st.composite
def images(draw: st.DrawFn) -> MetadataImage:
    topics = TopicsBuilder(EMPTY_IMAGE.topics)
    for name in draw(st.lists(names, unique=True, max_size=3)):
        topic_id = Uuid(name.encode().ljust(16, b"\0"))
        topics.create(name, topic_id)
        for index, partition in enumerate(draw(st.lists(partitions(), min_size=1, max_size=3))):
            topics.put_partition(topic_id, index, partition)
    types = st.sampled_from([ResourceType.TOPIC, ResourceType.BROKER, ResourceType.GROUP])
    resources = st.builds(ConfigResource, types, st.just("") | names)
    settings = st.dictionaries(names, names, min_size=1, max_size=2)
    registered = draw(st.lists(brokers(), unique_by=lambda broker: broker.node_id, max_size=3))
    controllers = draw(
        st.lists(
            st.builds(ControllerImage, nodes, ids, endpoints, st.dictionaries(names, ranges, max_size=2)),
            unique_by=lambda controller: controller.node_id,
            max_size=2,
        )
    )
    acl = AccessControlEntryRecord(
        id=draw(ids), resource_type=2, resource_name="t", pattern_type=3, principal="User:a", host="*",
        operation=3, permission_type=3,
    )  # fmt: skip
    quota = ClientQuotaRecord(
        entity=[EntityData(entity_type="user", entity_name=None)], key="rate", value=1.5, remove=False
    )
    image = EMPTY_IMAGE.apply(draw(st.sampled_from([(), (acl,), (acl, quota)])), offset=9, epoch=2).image
    return replace(
        image,
        topics=topics.finish()[0],
        configs=draw(st.dictionaries(resources, settings, max_size=3)),
        brokers={broker.node_id: broker for broker in registered},
        controllers={controller.node_id: controller for controller in controllers},
        # An older metadata.version has no records for cordoned directories and eligible leader replicas.
        features={**draw(st.dictionaries(names, st.integers(1, 30), max_size=2)), METADATA_VERSION: 30},
        next_producer_id=draw(st.sampled_from([0, 1000, 5000])),
    )


@given(images())
def test_replaying_the_records_of_an_image_gives_an_equal_image(image: MetadataImage) -> None:
    records = [decode_record(value) for value in encoded_records(image)]

    replayed = EMPTY_IMAGE.apply(records, offset=image.offset, epoch=image.epoch).image

    assert replayed == image


def test_the_metadata_version_comes_first() -> None:
    image = replace(EMPTY_IMAGE, features={"group.version": 1, METADATA_VERSION: 30})

    first = next(iter(records_of(image)))

    assert first == FeatureLevelRecord(name=METADATA_VERSION, feature_level=30)
