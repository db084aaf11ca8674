"""Changes of the metadata reach the parts of a broker in order, in slices that do not block the event loop."""

from __future__ import annotations

import asyncio

import pytest

from penstock.metadata.cache import MetadataCache
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.records import (
    ConfigRecord,
    NoOpRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from penstock.metadata.resources import topic_resource
from penstock.node.applying import SLICE_PARTITIONS, MetadataApplier
from penstock.protocol.types import Uuid

LARGE = 3 * SLICE_PARTITIONS + 7


def topic_id(name: str) -> Uuid:
    return Uuid(name.encode().ljust(16, b"\0"))


def topic(name: str, partition_count: int, *, id_of: str | None = None) -> list[object]:
    identity = topic_id(id_of or name)
    return [
        TopicRecord(name=name, topic_id=identity),
        *(
            PartitionRecord(
                partition_id=index,
                topic_id=identity,
                replicas=[1],
                isr=[1],
                removing_replicas=[],
                adding_replicas=[],
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
            )
            for index in range(partition_count)
        ),
    ]


class Heard:
    """Two parts and the end of each change, as one list of words."""

    def __init__(self) -> None:
        self.cache = MetadataCache()
        self.words: list[str] = []
        self.slices: list[MetadataDelta] = []
        self.failures: list[Exception] = []
        self.error: Exception | None = None
        self.applier = MetadataApplier(
            self.cache,
            parts=(self._first, lambda delta: self.words.append("second")),
            after=lambda delta: self.words.append(f"end {delta.image.offset}"),
            failed=self.failures.append,
        )

    def _first(self, delta: MetadataDelta) -> None:
        if self.error is not None:
            raise self.error
        self.words.append("first")
        self.slices.append(delta)

    def write(self, *records: object) -> None:
        image = self.cache.image
        self.cache.publish(image.apply(records, offset=image.offset + len(records), epoch=1))

    def partitions(self, name: str) -> list[int]:
        return [
            index
            for delta in self.slices
            if topic_id(name) in delta.topics
            for index in delta.topics[topic_id(name)].changed_partitions
        ]


async def test_a_small_change_is_applied_when_it_is_published() -> None:
    heard = Heard()
    heard.write(NoOpRecord())
    await heard.applier.start()
    heard.words.clear()

    heard.write(*topic("t", SLICE_PARTITIONS))

    assert heard.words == ["first", "second", f"end {SLICE_PARTITIONS + 1}"]
    await heard.applier.close()


async def test_a_large_change_is_applied_in_slices_and_later_ones_wait_for_it() -> None:
    heard = Heard()
    await heard.applier.start()
    heard.slices.clear()
    heard.words.clear()

    heard.write(*topic("large", LARGE))
    heard.write(*topic("small", 1))
    assert heard.words == [], "the event loop is not blocked"
    await asyncio.sleep(0)
    assert heard.words == ["first", "second"]
    await heard.applier.settled()

    assert heard.partitions("large") == list(range(LARGE))
    assert max(len(each.topics[topic_id("large")].changed_partitions) for each in heard.slices[:4]) == 50
    assert [word for word in heard.words if word.startswith("end")] == [f"end {LARGE}", f"end {LARGE + 2}"]
    assert list(heard.slices[-1].topics) == [topic_id("small")]
    await heard.applier.close()


async def test_a_change_that_is_published_later_does_not_prolong_the_wait() -> None:
    heard = Heard()
    await heard.applier.start()
    heard.write(*topic("first", LARGE))
    waiting = asyncio.create_task(heard.applier.settled())
    await asyncio.sleep(0)
    heard.write(*topic("second", LARGE))

    await waiting

    assert heard.partitions("first") == list(range(LARGE))
    assert len(heard.partitions("second")) < LARGE
    await heard.applier.close()


async def test_nobody_waits_for_a_change_that_cannot_be_applied() -> None:
    heard = Heard()
    await heard.applier.start()
    heard.error = OSError("no")
    heard.write(*topic("large", LARGE))
    heard.write(*topic("small", 1))

    await heard.applier.settled()

    assert heard.failures == [heard.error]
    await heard.applier.close()


async def test_deleted_topics_and_settings_come_first() -> None:
    heard = Heard()
    heard.write(*topic("t", 1, id_of="old"))
    await heard.applier.start()
    heard.slices.clear()

    heard.write(
        *topic("t", LARGE, id_of="new"),
        RemoveTopicRecord(topic_id=topic_id("old")),
        ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="1"),
    )
    await heard.applier.settled()

    assert heard.slices[0].topics[topic_id("old")].is_deleted
    assert topic_resource("t") in heard.slices[0].configs
    assert [each.configs for each in heard.slices[1:]] == [()] * (len(heard.slices) - 1)
    await heard.applier.close()


async def test_the_start_applies_the_whole_image_and_what_comes_meanwhile() -> None:
    heard = Heard()
    heard.write(*topic("t", LARGE))
    starting = asyncio.ensure_future(heard.applier.start())
    await asyncio.sleep(0)
    heard.write(*topic("meanwhile", 1))

    await starting

    assert heard.partitions("t") == list(range(LARGE))
    assert heard.partitions("meanwhile") == [0]
    await heard.applier.close()


async def test_a_change_that_cannot_be_applied_stops_the_node() -> None:
    heard = Heard()
    await heard.applier.start()
    heard.error = ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        heard.write(*topic("small", 1))
    heard.write(*topic("large", LARGE))
    await heard.applier.settled()

    assert heard.failures == [heard.error]
    await heard.applier.close()
