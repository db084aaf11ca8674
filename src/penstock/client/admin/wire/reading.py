"""What the families share: errors out of responses, partitions by topic, settings as text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from penstock.client import errors
from penstock.client.cluster import TopicPartition
from penstock.client.errors import PenstockError
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import ZERO_UUID, Uuid, uuid_text

V = TypeVar("V")


def answer(code: ErrorCode, words: str | None, about: object, value: V) -> V | PenstockError:
    """The value, unless there is an error beside it."""
    return value if code is ErrorCode.NONE else errors.of(code, words, about=about)


def check(code: ErrorCode, words: str | None = None, about: object = None) -> None:
    """Raises the error of a response as a whole."""
    if code is not ErrorCode.NONE:
        raise errors.of(code, words, about=about)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partitions as most requests want them."""
    indexes: dict[str, list[int]] = {}
    for topic, partition in partitions:
        indexes.setdefault(topic, []).append(partition)
    return indexes


def setting_text(value: object) -> str:
    """A setting's value as brokers read it: `true`, `a,b`, `86400000`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(setting_text(part) for part in value)
    return str(value)


def known(number: int) -> int | None:
    """The protocol says -1 for what there is not."""
    return None if number == -1 else number


def id_text(uuid: Uuid) -> str | None:
    """An id in Kafka's own spelling; None where there is none."""
    return None if uuid == ZERO_UUID else uuid_text(uuid)
