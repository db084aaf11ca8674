"""Arguments of a consumer's calls, in the forms that programs pass."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from penstock.client import errors
from penstock.client.addresses import BadAddress, parse_addresses
from penstock.client.argument_types import shown
from penstock.client.cluster import TopicPartition
from penstock.client.group.types import Offset, Subscription
from penstock.records.batch import NO_LEADER_EPOCH
from penstock.records.consuming import Message


class RebalanceListener(Protocol):
    """Is notified of assigned and revoked partitions, inside the application's own calls.

    Any object with some of these methods can be a listener; a subclass overrides those that it needs.
    """

    def on_partitions_assigned(self, partitions: tuple[TopicPartition, ...], /) -> object:
        """These partitions are assigned to this consumer now, and none of their messages was returned yet: the time to
        seek."""
        return None

    def on_partitions_revoked(self, partitions: tuple[TopicPartition, ...], /) -> object:
        """These partitions are about to be revoked: the time to finish work and commit."""
        return None

    def on_partitions_lost(self, partitions: tuple[TopicPartition, ...], /) -> object:
        """These partitions were reassigned already. By default this calls `on_partitions_revoked`."""
        return self.on_partitions_revoked(partitions)


def check_listener(listener: object) -> None:
    """Rejects a listener without any listener method: its methods are probably misspelled."""
    names = ("on_partitions_assigned", "on_partitions_revoked", "on_partitions_lost")
    if listener is not None and not any(hasattr(listener, name) for name in names):
        raise errors.BadArgument(
            f"the listener {type(listener).__name__} has none of the methods {', '.join(names)}"
        )


def check_callback(on_done: object) -> None:
    if on_done is not None and not callable(on_done):
        raise errors.BadArgumentType(f"on_done must be a function, not {shown(on_done)}")


def subscription_of(topics: object, pattern: re.Pattern[str] | str | None = None) -> Subscription:
    """Topics by name, or a pattern: compiled in Python's syntax, or text in RE2 syntax for brokers to match."""
    if isinstance(topics, re.Pattern):
        topics, pattern = None, topics
    if pattern is not None:
        if topics:
            raise errors.BadArgument("subscribe to topics or to a pattern, not both")
        if not isinstance(pattern, str | re.Pattern):
            raise errors.BadArgumentType(
                f"pattern must be a string or a compiled pattern, not {shown(pattern)}"
            )
        try:
            re.compile(pattern)
        except re.error as error:
            raise errors.BadArgument(f"{pattern!r} is not a regular expression: {error}") from None
        return Subscription(pattern=pattern)
    names = [
        topic_of(name) for name in ([topics] if isinstance(topics, str) else _iterable(topics, "topics"))
    ]
    if not names:
        raise errors.BadArgument("no topic given; to end a subscription, call unsubscribe()")
    return Subscription(frozenset(names))


def topic_of(given: object) -> str:
    """The name of a topic. An address here is a common mistake, because other clients take the address first."""
    if not isinstance(given, str):
        raise errors.BadArgumentType(f"a topic must be a string, not {shown(given)}")
    if not given:
        raise errors.BadArgument("the name of a topic must not be empty")
    if is_address(given):
        raise errors.BadArgument(
            f'{given!r} is an address, not a topic; write Consumer("orders", bootstrap_servers={given!r})'
        )
    return given


def is_address(text: str) -> bool:
    """Whether it looks like `bootstrap.servers`. A topic name cannot contain a colon."""
    try:
        return ":" in text and bool(parse_addresses(text))
    except BadAddress:
        return False


def partitions_of(given: Iterable[object]) -> list[TopicPartition]:
    """Partitions in order, without duplicates; lists are flattened."""
    found: dict[TopicPartition, None] = {}
    for each in given:
        if isinstance(each, tuple) and len(each) == 2 and isinstance(each[0], str):
            found[partition_of(each)] = None
        else:
            found.update(dict.fromkeys(map(partition_of, _iterable(each, "partitions"))))
    return list(found)


def partition_of(given: object) -> TopicPartition:
    match given:
        case (str() as topic, int() as index) if not isinstance(index, bool):
            if index < 0:
                raise errors.BadArgument(f"partition {index} is negative", about=topic)
            return TopicPartition(topic_of(topic), index)
    raise errors.BadArgumentType(
        f"a partition must be a TopicPartition, not {shown(given)}; write TopicPartition(topic, index)"
    )


def place_of(given: object, partition: TopicPartition) -> tuple[int, int]:
    """Offset and leader epoch to seek to."""
    if isinstance(given, Message):
        return given.offset, NO_LEADER_EPOCH
    if isinstance(given, Offset):
        offset, epoch = given.offset, given.leader_epoch
    elif isinstance(given, int) and not isinstance(given, bool):
        offset, epoch = given, NO_LEADER_EPOCH
    else:
        raise errors.BadArgumentType(
            f"an offset must be an integer, an Offset or a Message, not {shown(given)}", about=partition
        )
    if offset < 0:
        raise errors.BadArgument(f"offset {offset} is negative", about=partition)
    return offset, epoch


def timestamp_of(given: object) -> int:
    """Milliseconds since 1970; a datetime without a time zone is local time, as usual in Python."""
    if isinstance(given, datetime.datetime):
        return round(given.timestamp() * 1000)
    if not isinstance(given, int) or isinstance(given, bool):
        raise errors.BadArgumentType(
            f"a time must be milliseconds since 1970 or a datetime, not {shown(given)}"
        )
    if given < 0:
        raise errors.BadArgument(f"time {given} is negative; give milliseconds since 1970, or a datetime")
    return given


def timestamps_of(given: Mapping[TopicPartition, int | datetime.datetime]) -> dict[TopicPartition, int]:
    if not isinstance(given, Mapping):
        raise errors.BadArgumentType(
            f"times must be a mapping of TopicPartition to times, not {shown(given)}"
        )
    return {partition_of(partition): timestamp_of(at) for partition, at in given.items()}


def count_of(given: int | None, default: int, *, name: str = "max_records") -> int:
    if given is None:
        return default
    if not isinstance(given, int) or isinstance(given, bool):
        raise errors.BadArgumentType(f"{name} must be an integer of at least 1, not {shown(given)}")
    if given < 1:
        raise errors.BadArgument(f"{name} must be at least 1, not {given}")
    return given


class Reader(Protocol):
    def subscribe(self, topics: Any, /) -> None: ...

    def assign(self, partitions: Any, /) -> None: ...


def settings_and_topics(
    given: Sequence[object],
) -> tuple[Mapping[str, object] | None, Sequence[object]]:
    """Splits the arguments of a constructor: an optional mapping of settings, then topics or partitions."""
    first, topics = (given[0], given[1:]) if given and isinstance(given[0], Mapping) else (None, given)
    if any(isinstance(each, Mapping) for each in topics):
        raise errors.BadArgumentType("a mapping of settings must be the first argument, before all topics")
    return first, topics


def subscribe_or_assign(consumer: Reader, given: Sequence[object]) -> None:
    """Subscribes or assigns by the arguments of a constructor: topics, one pattern, or partitions."""
    partitions = [each for each in given if isinstance(each, TopicPartition)]
    if partitions and len(partitions) != len(given):
        raise errors.BadArgument("give topics to subscribe to or partitions to assign, not both")
    if partitions:
        consumer.assign(partitions)
    elif len(given) == 1:
        consumer.subscribe(given[0])
    elif given:
        consumer.subscribe(given)


def _iterable(given: object, what: str) -> Iterable[object]:
    """Partitions may be the keys of a mapping. Topics may not: a mapping there was meant as settings."""
    is_wrong = isinstance(given, str | bytes) or (isinstance(given, Mapping) and what == "topics")
    if is_wrong or not isinstance(given, Iterable):
        raise errors.BadArgumentType(f"{what} must be a list, not {shown(given)}")
    return given
