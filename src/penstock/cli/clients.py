"""Producers and consumers of commands, and how they close on Ctrl-C.

Normally, closing a producer waits until every record is acknowledged, and closing a consumer leaves its group. After
Ctrl-C a client gets only `GRACE_SECONDS` for that, because the broker may have stopped answering."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from penstock.cli.timeouts import for_calls, for_producer, show_warnings

if TYPE_CHECKING:
    from penstock import Consumer, Message, Producer

GRACE_SECONDS = 1.0

INTERRUPTED = (KeyboardInterrupt, GeneratorExit)  # the second if Ctrl-C hit the end of the block itself


@contextmanager
def open_producer(settings: Mapping[str, object]) -> Iterator[Producer]:
    """A producer. At the end of the block every record is acknowledged, or the error is raised."""
    from penstock import Producer
    from penstock.errors import PenstockError

    show_warnings()
    producer = Producer(for_producer(_without(settings, "key.serializer", "value.serializer")))
    try:
        yield producer
    except INTERRUPTED:
        with suppress(PenstockError):
            producer.close(timeout=GRACE_SECONDS)
        raise
    except BaseException:
        with suppress(PenstockError):  # the error of the block matters more
            producer.close(timeout=_time_to_deliver(producer))
        raise
    producer.close(timeout=_time_to_deliver(producer))


def _time_to_deliver(producer: Producer) -> float:
    """Seconds until every record is acknowledged or its `delivery.timeout.ms` has passed."""
    return float(producer.settings.get("delivery.timeout.ms")) / 1000 + GRACE_SECONDS


@contextmanager
def open_consumer(settings: Mapping[str, object]) -> Iterator[Consumer]:
    """A consumer. At the end of the block the consumed offsets are committed, if it has a group."""
    from penstock import Consumer
    from penstock.errors import PenstockError

    show_warnings()
    consumer = Consumer(settings=for_calls(_without(settings, "key.deserializer", "value.deserializer")))
    try:
        yield consumer
    except INTERRUPTED:
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
    """Commands read and write bytes, as Kafka's own tools do; `records.formats` converts them."""
    return {name: value for name, value in settings.items() if name not in names}


def seek_back(consumer: Consumer, messages: Sequence[Message]) -> None:
    """Have the consumer read these messages again: they were polled but not processed, so must not be committed."""
    from penstock import TopicPartition

    first: dict[TopicPartition, int] = {}
    for message in messages:
        first.setdefault(TopicPartition(message.topic, message.partition), message.offset)
    for partition, offset in first.items():
        consumer.seek(partition, offset)
