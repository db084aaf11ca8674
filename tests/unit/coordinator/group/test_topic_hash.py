"""The metadata hash changes with everything that assignments depend on, and with nothing else."""

from __future__ import annotations

from dataclasses import replace

from harness.consumer_groups import ConsumerHarness
from penstock.coordinator.group.topic_hash import NO_TOPICS, hash_topics
from penstock.metadata.image import BrokerImage, MetadataImage
from penstock.protocol.types import Uuid


def image_of(rack: str | None = None, **topics: int) -> MetadataImage:
    harness = ConsumerHarness()
    for name, partition_count in topics.items():
        harness.create_topic(name, partition_count)
    broker = BrokerImage(1, 0, Uuid(bytes(16)), (), {}, rack, False, False, ())
    return replace(harness.image, brokers={1: broker})


def test_without_existing_topics_the_hash_is_0() -> None:
    assert hash_topics([], image_of(a=1)) == NO_TOPICS
    assert hash_topics(["b"], image_of(a=1)) == NO_TOPICS


def test_order_duplicates_and_other_topics_do_not_change_the_hash() -> None:
    image = image_of(a=1, b=2, c=3)

    assert hash_topics(["a", "b"], image) == hash_topics(["b", "a", "b", "unknown"], image)
    assert hash_topics(["a", "b"], image) == hash_topics(["a", "b"], image_of(a=1, b=2))


def test_the_hash_fits_a_signed_64_bit_field_and_is_deterministic() -> None:
    # It is in logs: another function would make every group compute one more assignment.
    assert hash_topics(["a"], image_of(a=1)) == -2747703876837629419


def test_names_partitions_racks_and_new_topics_of_an_old_name_matter() -> None:
    again = ConsumerHarness()
    again.create_topic("a", 1)
    again.delete_topic("a")
    again.create_topic("a", 1)
    images = [image_of(a=1), image_of(b=1), image_of(a=2), image_of("east", a=1), image_of("west", a=1)]

    hashes = [hash_topics(["a", "b"], image) for image in [*images, again.image]]

    assert len(set(hashes)) == len(hashes)
