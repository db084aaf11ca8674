"""Deserializes keys and values, and explains failures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.client import errors
from penstock.client.cluster import TopicPartition
from penstock.client.consumer.fetch_plan import Decoders
from penstock.client.serializers import Deserializer, deserialization_failed, deserializer_of
from penstock.client.settings import ConsumerSettings


class Decoding:
    """The deserializers of a consumer, created once for each topic."""

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
    """The error to raise if a deserializer failed, or if the records are corrupt."""
    if data is None:
        return errors.CorruptRecords(str(error), about=f"{partition} at offset {offset}")
    return deserialization_failed(
        error, partition.topic, data, is_key=is_key, partition=partition.partition, offset=offset
    )
