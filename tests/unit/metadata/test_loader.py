"""The loader: committed batches and snapshots become images, and their listeners get the difference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest

from penstock.metadata.cache import MetadataCache
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.errors import CorruptMetadata
from penstock.metadata.framing import encode_record
from penstock.metadata.image import EMPTY_IMAGE
from penstock.metadata.loader import MetadataLoader
from penstock.metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from penstock.metadata.resources import topic_resource
from penstock.protocol.types import Uuid


def topic_id(name: str) -> Uuid:
    return Uuid(name.encode().ljust(16, b"\0"))


def topic(name: str) -> TopicRecord:
    return TopicRecord(name=name, topic_id=topic_id(name))


def partition(name: str, index: int, *, leader: int = 1) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id(name),
        replicas=[1, 2],
        isr=[1, 2],
        removing_replicas=[],
        adding_replicas=[],
        leader=leader,
        leader_epoch=0,
        partition_epoch=0,
    )


class Batch(NamedTuple):
    last_offset: int
    epoch: int
    values: Sequence[bytes]


def batch(first_offset: int, *records: object, epoch: int = 1) -> Batch:
    values = [encode_record(record) for record in records]
    return Batch(first_offset + len(values) - 1, epoch, values)


class Heard:
    def __init__(self) -> None:
        self.cache = MetadataCache()
        self.loader = MetadataLoader(self.cache)
        self.deltas: list[MetadataDelta] = []
        self.cache.subscribe(self.deltas.append)

    @property
    def topics(self) -> list[str]:
        return list(self.cache.image.topics.by_name)


def test_batches_that_are_passed_together_are_published_once() -> None:
    heard = Heard()

    heard.loader.replay([batch(3, topic("a")), batch(5, topic("b"), topic("c"), epoch=2)])

    assert [(each.image.offset, each.image.epoch) for each in heard.deltas] == [(6, 2)]
    assert heard.topics == ["a", "b", "c"]


def test_a_batch_is_not_applied_twice() -> None:
    heard = Heard()
    heard.loader.replay([batch(0, topic("a"))])

    with pytest.raises(CorruptMetadata, match="passed after"):
        heard.loader.replay([batch(0, topic("a"))])


def test_a_transaction_over_several_batches_takes_effect_at_its_end() -> None:
    heard = Heard()

    heard.loader.replay([batch(0, topic("before"), BeginTransactionRecord(), topic("a"))])
    assert heard.topics == ["before"]
    assert heard.cache.image.offset == 0
    heard.loader.replay([batch(3, topic("b"))])
    assert heard.topics == ["before"]
    assert heard.loader.last_offset == 3
    heard.loader.replay([batch(4, EndTransactionRecord(), topic("after"))])

    assert heard.topics == ["before", "a", "b", "after"]
    assert [each.image.offset for each in heard.deltas] == [0, 5]


def test_an_aborted_transaction_has_no_effect() -> None:
    heard = Heard()

    heard.loader.replay([batch(0, BeginTransactionRecord(), topic("a"))])
    heard.loader.replay([batch(2, AbortTransactionRecord(), NoOpRecord())])

    assert heard.topics == []
    assert heard.cache.image.offset == 3


def test_an_error_names_the_offset_of_the_record() -> None:
    with pytest.raises(CorruptMetadata, match="at offset 8 of the metadata log"):
        Heard().loader.replay([batch(7, topic("a"), partition("unknown", 0))])
    with pytest.raises(CorruptMetadata, match="at offset 7 of the metadata log"):
        Heard().loader.replay([Batch(7, 1, [b"\x01\x7f\x00"])])


def broker(node_id: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=node_id,
        incarnation_id=Uuid(bytes(16)),
        broker_epoch=7,
        end_points=[],
        features=[],
        rack=None,
        log_dirs=[],
    )


def setting(name: str, value: str, *, topic: str) -> ConfigRecord:
    return ConfigRecord(resource_type=2, resource_name=topic, name=name, value=value)


def test_a_snapshot_becomes_the_difference_to_the_present_image() -> None:
    heard = Heard()
    before = [
        FeatureLevelRecord(name="group.version", feature_level=1),
        broker(1),
        broker(2),
        *(topic("same"), partition("same", 0), setting("retention.ms", "1", topic="same")),
        *(topic("changed"), partition("changed", 0), setting("retention.ms", "1", topic="changed")),
        *(topic("deleted"), partition("deleted", 0), setting("retention.ms", "1", topic="deleted")),
    ]
    heard.loader.replay([batch(0, *before)])
    after = [
        FeatureLevelRecord(name="transaction.version", feature_level=2),
        broker(2),
        broker(3),
        *(topic("same"), partition("same", 0), setting("retention.ms", "1", topic="same")),
        *(topic("changed"), partition("changed", 0, leader=2), partition("changed", 1)),
        *(topic("created"), partition("created", 0), setting("retention.ms", "1", topic="created")),
    ]

    heard.loader.load_snapshot([batch(0, *after)], end_offset=100, epoch=4)

    delta = heard.deltas[-1]
    assert (delta.image.offset, delta.image.epoch) == (99, 4)
    assert delta.image == EMPTY_IMAGE.apply(after, offset=99, epoch=4).image
    changes = {name: delta.topics[topic_id(name)] for name in ("changed", "created", "deleted")}
    assert len(delta.topics) == 3
    assert changes["changed"].changed_partitions == (0, 1)
    assert changes["created"].is_created
    assert changes["deleted"].is_deleted
    assert delta.configs == (topic_resource("created"), topic_resource("changed"), topic_resource("deleted"))
    assert delta.brokers == (3, 1)
    assert delta.features == ("transaction.version", "group.version")


def test_a_topic_that_was_deleted_and_created_again_appears_twice_in_the_difference() -> None:
    heard = Heard()
    heard.loader.replay([batch(0, topic("a"), partition("a", 0))])
    again = TopicRecord(name="a", topic_id=topic_id("second"))

    heard.loader.load_snapshot([batch(0, again)], end_offset=10, epoch=1)

    delta = heard.deltas[-1]
    assert [(each.is_deleted, each.is_created) for each in delta.topics.values()] == [
        (True, False),
        (False, True),
    ]


def test_the_log_goes_on_after_a_snapshot() -> None:
    heard = Heard()
    heard.loader.replay([batch(0, BeginTransactionRecord(), topic("lost"))])

    heard.loader.load_snapshot([batch(0, topic("a"))], end_offset=10, epoch=1)
    heard.loader.replay([batch(10, topic("b"))])

    assert heard.topics == ["a", "b"]


def test_a_listener_that_is_installed_late_gets_the_whole_image() -> None:
    heard = Heard()
    heard.loader.replay([batch(0, topic("a"), partition("a", 0), broker(1))])
    late: list[MetadataDelta] = []

    heard.cache.install(late.append)
    heard.loader.replay([batch(3, topic("b"))])

    assert late[0].topics[topic_id("a")].is_created
    assert late[0].brokers == (1,)
    assert list(late[1].topics) == [topic_id("b")]
