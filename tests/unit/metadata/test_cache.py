"""The metadata cache and its listeners."""

from __future__ import annotations

import pytest

from penstock.metadata.cache import MetadataCache
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.image import EMPTY_IMAGE
from penstock.metadata.records import FeatureLevelRecord


def level(feature_level: int) -> FeatureLevelRecord:
    return FeatureLevelRecord(name="group.version", feature_level=feature_level)


def test_listeners_are_notified_in_order_and_see_the_new_image() -> None:
    cache = MetadataCache()
    heard: list[tuple[str, int]] = []

    def first(delta: MetadataDelta) -> None:
        heard.append(("first", cache.image.offset))

    def second(delta: MetadataDelta) -> None:
        heard.append(("second", delta.image.offset))

    cache.subscribe(first)
    cache.subscribe(second)

    cache.publish(EMPTY_IMAGE.apply([level(1)], offset=4, epoch=1))
    cache.unsubscribe(first)
    cache.publish(cache.image.apply([level(0)], offset=5, epoch=1))

    assert heard == [("first", 4), ("second", 4), ("second", 5)]


def test_a_change_of_another_image_is_not_published() -> None:
    cache = MetadataCache()
    delta = EMPTY_IMAGE.apply([level(1)], offset=0, epoch=1)
    cache.publish(delta)

    with pytest.raises(AssertionError, match="in order"):
        cache.publish(delta)
