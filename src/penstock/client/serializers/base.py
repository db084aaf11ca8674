"""What a serializer is, and the two ways in which one fails.

A client asks a serializer once for each topic (`for_topic`), keeps the function that it gets, and calls that function
for every record. So what depends on the topic (a schema's subject) is decided once, and a record costs one call of one
argument; `struct.Struct(">q").pack` is such a function as it stands.

None is a record without key or value (a tombstone, in a compacted topic). No function is ever called with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from penstock.client.errors import DeserializationFailed, SerializationFailed

Serialize = Callable[[Any], "bytes | bytearray | memoryview | str | None"]
"""Bytes of a value; text stands for its UTF-8."""
Deserialize = Callable[[bytes], Any]
"""A value of bytes."""


@runtime_checkable
class Serializer(Protocol):
    """Makes bytes of the keys or values of any topic."""

    def for_topic(self, topic: str, /, *, is_key: bool) -> Serialize: ...


@runtime_checkable
class Deserializer(Protocol):
    """Makes keys or values of bytes."""

    def for_topic(self, topic: str, /, *, is_key: bool) -> Deserialize: ...


def serialization_failed(
    error: BaseException, topic: str, value: object, *, is_key: bool
) -> SerializationFailed:
    """The exception to raise from what a serializer raised."""
    part = "key" if is_key else "value"
    words = (
        f"the {part} {_shown(value)} of type {type(value).__name__} cannot be serialized: {_reason(error)}"
    )
    failure = SerializationFailed(words, about=topic or None)  # state that is in no topic has a serde, too
    failure.__cause__ = error
    return failure


def deserialization_failed(
    error: BaseException,
    topic: str,
    data: bytes,
    *,
    is_key: bool,
    partition: int | None = None,
    offset: int | None = None,
) -> DeserializationFailed:
    """The exception to raise from what a deserializer raised."""
    part = "key" if is_key else "value"
    place = topic or None if partition is None else f"{topic}-{partition} at offset {offset}"
    failure = DeserializationFailed(
        f"the {part} {_shown(data)} cannot be read: {_reason(error)}",
        about=place,
        topic=topic,
        partition=partition,
        offset=offset,
        data=data,
    )
    failure.__cause__ = error
    return failure


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except Exception as error:  # an object that cannot even be shown must not hide what went wrong with it
        text = f"({type(error).__name__} in its repr)"
    return text if len(text) <= 60 else f"{text[:57]}..."
