"""What programs pass to a consumer, in the forms that they have it."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from penstock.client import errors
from penstock.client.cluster import NO_EPOCH, TopicPartition
from penstock.client.group.nouns import Offset, Subscription
from penstock.records.kernel import Message


class RebalanceListener(Protocol):
    """Hears of partitions that come and go, inside the application's own calls.

    A subclass names what it wants to hear; of any other object too, methods may be missing.
    """

    def on_partitions_assigned(self, partitions: tuple[TopicPartition, ...], /) -> object:
        """They are this consumer's now, and nothing of them has been given yet: the moment to seek."""
        return None

    def on_partitions_revoked(self, partitions: tuple[TopicPartition, ...], /) -> object:
        """They are about to go to others: the moment to finish and commit."""
        return None

    def on_partitions_lost(self, partitions: tuple[TopicPartition, ...], /) -> object:
        """They went to others already. Where this is missing, they count as revoked."""
        return self.on_partitions_revoked(partitions)


def check_listener(listener: object) -> None:
    """One that would hear of nothing was meant otherwise: most likely its methods have other names."""
    names = ("on_partitions_assigned", "on_partitions_revoked", "on_partitions_lost")
    if listener is not None and not any(hasattr(listener, name) for name in names):
        raise errors.BadArgument(
            f"the listener {type(listener).__name__} would hear of nothing: it has none of {', '.join(names)}"
        )


def subscription_of(topics: object, pattern: re.Pattern[str] | str | None = None) -> Subscription:
    """Topics by name, or a pattern: a compiled one in Python's syntax, a text in that of RE2, for brokers to match."""
    if isinstance(topics, re.Pattern):
        topics, pattern = None, topics
    if pattern is not None:
        if topics:
            raise errors.BadArgument("topics and a pattern cannot be subscribed to together")
        if not isinstance(pattern, str | re.Pattern):
            raise errors.BadArgument(f"{pattern!r} is no pattern")
        try:
            re.compile(pattern)
        except re.error as error:
            raise errors.BadArgument(f"{pattern!r} is no regular expression: {error}") from None
        return Subscription(pattern=pattern)
    names: list[str] = []
    for name in [topics] if isinstance(topics, str) else _iterable(topics, "topics"):
        if not isinstance(name, str) or not name:
            raise errors.BadArgument(f"{name!r} is no name of a topic")
        names.append(name)
    if not names:
        raise errors.BadArgument("name at least one topic; unsubscribe() ends a subscription")
    return Subscription(frozenset(names))


def partitions_of(given: Iterable[object]) -> list[TopicPartition]:
    """One after another, each once; those of a list in its place."""
    found: dict[TopicPartition, None] = {}
    for each in given:
        if isinstance(each, tuple) and len(each) == 2 and isinstance(each[0], str):
            found[partition_of(each)] = None
        else:
            found.update(dict.fromkeys(map(partition_of, _iterable(each, "partitions"))))
    return list(found)


def partition_of(given: object) -> TopicPartition:
    match given:
        case (str() as topic, int() as index) if not isinstance(index, bool) and index >= 0 and topic:
            return TopicPartition(topic, index)
    raise errors.BadArgument(f"{given!r} is no partition; say TopicPartition(topic, index)")


def place_of(given: object, partition: TopicPartition) -> tuple[int, int]:
    """Offset and leader epoch to seek to."""
    if isinstance(given, Message):
        return given.offset, NO_EPOCH
    if isinstance(given, Offset):
        offset, epoch = given.offset, given.leader_epoch
    elif isinstance(given, int) and not isinstance(given, bool):
        offset, epoch = given, NO_EPOCH
    else:
        raise errors.BadArgument(f"{given!r} is no offset", about=partition)
    if offset < 0:
        raise errors.BadArgument(f"offset {offset} is negative", about=partition)
    return offset, epoch


def timestamp_of(given: object) -> int:
    """Milliseconds since 1970; a datetime without a zone is local time, as everywhere in Python."""
    if isinstance(given, datetime.datetime):
        return round(given.timestamp() * 1000)
    if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
        return given
    raise errors.BadArgument(f"{given!r} is no time; say milliseconds since 1970, or a datetime")


def timestamps_of(given: Mapping[TopicPartition, int | datetime.datetime]) -> dict[TopicPartition, int]:
    return {partition_of(partition): timestamp_of(at) for partition, at in given.items()}


def count_of(given: int | None, default: int, *, name: str = "max_records") -> int:
    if given is None:
        return default
    if not isinstance(given, int) or isinstance(given, bool) or given < 1:
        raise errors.BadArgument(f"{name} is {given!r}, and must be a number of at least 1")
    return given


class Reader(Protocol):
    def subscribe(self, topics: Any, /) -> None: ...

    def assign(self, partitions: Any, /) -> None: ...


def read_what(consumer: Reader, given: Sequence[object]) -> None:
    """The arguments of a constructor: topics, one pattern, or partitions."""
    partitions = [each for each in given if isinstance(each, TopicPartition)]
    if partitions and len(partitions) != len(given):
        raise errors.BadArgument("topics and partitions cannot be read by one consumer")
    if partitions:
        consumer.assign(partitions)
    elif len(given) == 1:
        consumer.subscribe(given[0])
    elif given:
        consumer.subscribe(given)


def _iterable(given: object, what: str) -> Iterable[object]:
    if given is None or isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise errors.BadArgument(f"{given!r} is no list of {what}")
    return given
