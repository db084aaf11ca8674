"""The interfaces of serializers and deserializers, and their errors.

A client calls `for_topic` once for each topic, keeps the function that it returns, and calls it for every record. So
everything that depends on the topic (a schema's subject) is decided once, and a record costs one call with one
argument; `struct.Struct(">q").pack` is such a function.

None is a record without key or value (a tombstone in a compacted topic). No function is called with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from penstock.client.errors import DeserializationFailed, SerializationFailed

Serialize = Callable[[Any], "bytes | bytearray | memoryview | str | None"]
"""Converts a value to bytes; text is encoded as UTF-8."""
Deserialize = Callable[[bytes], Any]
"""Converts bytes to a value."""


@runtime_checkable
class Serializer(Protocol):
    """Serializes the keys or values of any topic."""

    def for_topic(self, topic: str, /, *, is_key: bool) -> Serialize: ...


@runtime_checkable
class Deserializer(Protocol):
    """Deserializes keys or values."""

    def for_topic(self, topic: str, /, *, is_key: bool) -> Deserialize: ...


def serialization_failed(
    error: BaseException, topic: str, value: object, *, is_key: bool
) -> SerializationFailed:
    """The exception to raise after a serializer failed."""
    part = "key" if is_key else "value"
    message = (
        f"the {part} {_shown(value)} of type {type(value).__name__} cannot be serialized: {_reason(error)}"
    )
    failure = SerializationFailed(message, about=topic or None)  # state stores have serializers but no topic
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
    """The exception to raise after a deserializer failed."""
    part = "key" if is_key else "value"
    place = topic or None if partition is None else f"{topic}-{partition} at offset {offset}"
    failure = DeserializationFailed(
        f"the {part} {_shown(data)} cannot be deserialized: {_reason(error)}",
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
    except Exception as error:  # an object whose repr fails must not hide the error
        text = f"({type(error).__name__} in its repr)"
    return text if len(text) <= 60 else f"{text[:57]}..."
