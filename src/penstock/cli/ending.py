"""Clients inside commands: how they are closed, and how they are when somebody presses Ctrl-C.

A client that is closed in order takes its time: a producer until everything is acknowledged, a consumer until its
group has heard of it. Whoever presses Ctrl-C has none, perhaps because a broker has stopped answering. What can
still be said within `GRACE_SECONDS` is said, and the rest is let go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from penstock.cli.waiting import for_consumer, for_producer, show_warnings

if TYPE_CHECKING:
    from penstock import Consumer, Message, Producer

GRACE_SECONDS = 1.0

# The second is what a block sees whose end itself was hit by Ctrl-C, before it could begin.
IN_A_HURRY = (KeyboardInterrupt, GeneratorExit)


@contextmanager
def producing(settings: Mapping[str, object]) -> Iterator[Producer]:
    """A producer for the length of the block. At its end all is acknowledged, or raised."""
    from penstock import Producer
    from penstock.errors import PenstockError

    show_warnings()
    producer = Producer(for_producer(_without(settings, "key.serializer", "value.serializer")))
    try:
        yield producer
    except IN_A_HURRY:
        with suppress(PenstockError):
            producer.close(timeout=GRACE_SECONDS)
        raise
    except BaseException:
        with suppress(PenstockError):  # what went wrong inside is what counts
            producer.close(timeout=_time_to_deliver(producer))
        raise
    producer.close(timeout=_time_to_deliver(producer))


def _time_to_deliver(producer: Producer) -> float:
    """In seconds: until every record is acknowledged, or its `delivery.timeout.ms` is over."""
    return float(producer.settings.get("delivery.timeout.ms")) / 1000 + GRACE_SECONDS


@contextmanager
def consuming(settings: Mapping[str, object]) -> Iterator[Consumer]:
    """A consumer for the length of the block. At its end what was given is committed, where a group is to know."""
    from penstock import Consumer
    from penstock.errors import PenstockError

    show_warnings()
    consumer = Consumer(settings=for_consumer(_without(settings, "key.deserializer", "value.deserializer")))
    try:
        yield consumer
    except IN_A_HURRY:
        with suppress(PenstockError):
            consumer.close(timeout=GRACE_SECONDS)
        raise
    except BaseException as problem:
        if isinstance(problem, PenstockError):
            from penstock.cli.suggestions import add_topic_suggestions

            add_topic_suggestions(problem, lambda: consumer.topics(timeout=GRACE_SECONDS))
        with suppress(PenstockError):
            consumer.close()
        raise
    consumer.close()


def _without(settings: Mapping[str, object], *names: str) -> dict[str, object]:
    """Commands read and write bytes, as Kafka's own tools do; `records.formats` gives the bytes a meaning."""
    return {name: value for name, value in settings.items() if name not in names}


def give_back(consumer: Consumer, messages: Sequence[Message]) -> None:
    """Have messages that were given, but not dealt with, be read again: a group must not take them for done."""
    from penstock import TopicPartition

    first: dict[TopicPartition, int] = {}
    for message in messages:
        first.setdefault(TopicPartition(message.topic, message.partition), message.offset)
    for partition, offset in first.items():
        consumer.seek(partition, offset)
