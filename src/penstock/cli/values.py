"""Values of options that are more than text or a number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.cli.failures import Misuse

if TYPE_CHECKING:
    from penstock.client.cluster import TopicPartition


def read_pairs(
    texts: Iterable[str], *, option: str, example: str = "retention.ms=86400000"
) -> dict[str, str]:
    """`key=value` each; a value may contain commas and equals signs."""
    pairs: dict[str, str] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key.strip():
            raise Misuse(f"{option} {text}: must be key=value, such as {option} {example}")
        pairs[key.strip()] = value.strip()
    return pairs


def read_partition(text: str) -> TopicPartition:
    """`topic:0`, as Kafka's tools write a partition."""
    from penstock.client.cluster import TopicPartition

    topic, separator, index = text.rpartition(":")
    if not separator or not topic or not index.isdecimal():
        raise Misuse(f"{text} is not a partition: write it as topic:0")
    return TopicPartition(topic, int(index))
