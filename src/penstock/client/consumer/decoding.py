"""What makes keys and values of a topic's bytes, and exceptions of what cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.client import errors
from penstock.client.cluster import TopicPartition
from penstock.client.consumer.fetch_plan import Decoders
from penstock.client.serializers import Deserializer, deserialization_failed, deserializer_of
from penstock.client.settings import ConsumerSettings


class Decoding:
    """The deserializers of a consumer, asked once for each topic."""

    def __init__(self, settings: ConsumerSettings) -> None:
        self._key = deserializer_of(settings.get("key.deserializer"), settings)
        self._value = deserializer_of(settings.get("value.deserializer"), settings)
        self._by_topic: dict[str, Decoders] = {}

    def of(self, topic: str) -> Decoders:
        decoders = self._by_topic.get(topic)
        if decoders is None:
            key, value = _decoder(self._key, topic, is_key=True), _decoder(self._value, topic, is_key=False)
            decoders = self._by_topic[topic] = Decoders(key, value, explain)
        return decoders


def _decoder(deserializer: Deserializer | None, topic: str, *, is_key: bool) -> Callable[[bytes], Any] | None:
    return None if deserializer is None else deserializer.for_topic(topic, is_key=is_key)


def explain(
    partition: TopicPartition, error: Exception, offset: int, data: bytes | None, is_key: bool
) -> BaseException:
    """What to raise where a deserializer failed, or where the records themselves are damaged."""
    if data is None:
        return errors.CorruptRecords(str(error), about=f"{partition} at offset {offset}")
    return deserialization_failed(
        error, partition.topic, data, is_key=is_key, partition=partition.partition, offset=offset
    )
