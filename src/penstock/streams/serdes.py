"""Types as bytes and back, one value or one Arrow column at a time.

    str, int, float, bool, bytes, UUID        Kafka's formats: UTF-8, Long, Double, Boolean
    dict, list, a dataclass, a TypedDict, a msgspec struct, a pydantic model, list[Order], ...      JSON
    Windowed                                   Kafka's windowed keys (`TimeWindowed`, `SessionWindowed` below)
    serde(AvroSerializer(...), AvroDeserializer(...))      any serializers of the client

In every serde None is a missing key or value. A serde can be pickled if its parts can; it is rebuilt on arrival. A
value that cannot be serialized or deserialized raises an error that names the expected type.
"""

from __future__ import annotations

import struct
import types
import typing
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast

from penstock.client.errors import BadConfiguration
from penstock.client.serializers.base import deserialization_failed, serialization_failed
from penstock.client.serializers.plain import JSON, Format
from penstock.client.serializers.resolve import FORMATS, TYPES, deserializer_of, serializer_of
from penstock.streams.nouns import TopologyError, Windowed
from penstock.streams.windows import (
    NEVER_MS,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    UnlimitedWindows,
    Windows,
)

if TYPE_CHECKING:
    import pyarrow

T = TypeVar("T")

Spec: TypeAlias = "type[T] | Serde[T]"
"""A type as users give it."""


class Serde(Generic[T]):
    """Serializes and deserializes one type. `topic` is passed to serializers that register schemas, and named in
    errors."""

    def __init__(
        self,
        spec: Any,
        encode: Callable[[Any], Any] | None,
        decode: Callable[[bytes], Any] | None,
        *,
        name: str,
        topic: str = "",
        is_key: bool = False,
        is_json: bool = False,
    ) -> None:
        self.spec = spec
        self.name = name
        self.is_json = is_json
        """Whether it writes our JSON, which does not preserve every type: a tuple becomes a list."""
        self._encode = encode
        self._decode = decode
        self._topic = topic
        self._is_key = is_key

    def encode(self, value: T | None) -> bytes | None:
        if value is None:
            return None
        try:
            data = value if self._encode is None else self._encode(value)
            if isinstance(data, str):
                return data.encode()
            return data if isinstance(data, bytes) else bytes(_buffer(data))
        except Exception as error:
            raise serialization_failed(error, self._topic, value, is_key=self._is_key) from error

    def decode(self, data: bytes | None) -> T | None:
        if data is None:
            return None
        if self._decode is None:
            return cast("T", data)
        try:
            return cast("T", self._decode(data))
        except Exception as error:
            raise deserialization_failed(error, self._topic, data, is_key=self._is_key) from error

    @property
    def arrow_type(self) -> pyarrow.DataType | None:
        """The Arrow type of a column of decoded values; None if the column is a list of Python objects."""
        from penstock.streams import columns

        return columns.arrow_type(self.spec)

    def encode_column(self, values: pyarrow.Array | Sequence[T | None]) -> pyarrow.Array:
        """Encode `values`, an Arrow column of `arrow_type` or Python objects, as a binary column."""
        from penstock.streams import columns

        return columns.encode(self, values)

    def decode_column(self, data: pyarrow.Array) -> pyarrow.Array | list[T | None]:
        """Decode a binary column to an Arrow column of `arrow_type` if there is one, else to a list."""
        from penstock.streams import columns

        return columns.decode(self, data)

    def for_topic(self, topic: str, *, is_key: bool) -> Serde[T]:
        """The same serde for one topic, which schema registries and errors refer to."""
        return Serde(
            self.spec,
            self._encode,
            self._decode,
            name=self.name,
            topic=topic,
            is_key=is_key,
            is_json=self.is_json,
        )

    def writes_like(self, other: Serde[Any]) -> bool:
        """Whether both write the same bytes for a value: `str` and `"string"` name the same serde."""
        return self == other or (self._encode is not None and self._encode is other._encode)

    def __reduce__(self) -> Any:
        return _remade, (self.spec, self._topic, self._is_key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Serde) and (self.spec, self.name) == (other.spec, other.name)

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"<serde of {self.name}>"


class _Pair(Serde[T]):
    """A serializer and a deserializer of the client, which may depend on the topic."""

    def __init__(self, writer: Any, reader: Any, *, topic: str = "", is_key: bool = False) -> None:
        serializer, deserializer = serializer_of(writer), deserializer_of(reader)
        super().__init__(
            (writer, reader),
            None if serializer is None else serializer.for_topic(topic, is_key=is_key),
            None if deserializer is None else deserializer.for_topic(topic, is_key=is_key),
            name=type(writer).__name__.removesuffix("Serializer").lower() or "custom",
            topic=topic,
            is_key=is_key,
        )

    def for_topic(self, topic: str, *, is_key: bool) -> Serde[T]:
        return _Pair(*self.spec, topic=topic, is_key=is_key)

    def __reduce__(self) -> Any:
        return _remade_pair, (*self.spec, self._topic, self._is_key)


class TimeWindowed(Serde[Windowed[T]]):
    """Keys of windows of one size: the key, then the window start (8 bytes)."""

    def __init__(self, inner: Serde[T], size_ms: int) -> None:
        self.inner, self.size_ms = inner, size_ms

        def encode(key: Windowed[T]) -> bytes:
            return (inner.encode(key.key) or b"") + _START.pack(key.start_ms)

        def decode(data: bytes) -> Windowed[Any]:
            start_ms: int = _START.unpack(data[-8:])[0]
            return Windowed(inner.decode(data[:-8]), start_ms, min(start_ms + size_ms, NEVER_MS))

        super().__init__((inner.spec, size_ms), encode, decode, name=f"windowed {inner.name}")

    def for_topic(self, topic: str, *, is_key: bool) -> Serde[Windowed[T]]:
        return TimeWindowed(self.inner.for_topic(topic, is_key=is_key), self.size_ms)

    def __reduce__(self) -> Any:
        return TimeWindowed, (self.inner, self.size_ms)


class SessionWindowed(Serde[Windowed[T]]):
    """Session keys: the key, then the end and the start of the session (8 bytes each)."""

    def __init__(self, inner: Serde[T]) -> None:
        self.inner = inner

        def encode(key: Windowed[T]) -> bytes:
            return (inner.encode(key.key) or b"") + _END_AND_START.pack(key.end_ms, key.start_ms)

        def decode(data: bytes) -> Windowed[Any]:
            end_ms, start_ms = _END_AND_START.unpack(data[-16:])
            return Windowed(inner.decode(data[:-16]), start_ms, end_ms)

        super().__init__((inner.spec,), encode, decode, name=f"session of {inner.name}")

    def for_topic(self, topic: str, *, is_key: bool) -> Serde[Windowed[T]]:
        return SessionWindowed(self.inner.for_topic(topic, is_key=is_key))

    def __reduce__(self) -> Any:
        return SessionWindowed, (self.inner,)


_START = struct.Struct(">q")
_END_AND_START = struct.Struct(">qq")


def serde(serializer: Any, deserializer: Any) -> Serde[Any]:
    """A serde from a serializer and a deserializer of the client."""
    return _Pair(serializer, deserializer)


def serde_of(spec: Any) -> Serde[Any]:
    """The serde of a type, a serde itself, or a name such as `json` or `int32`."""
    if isinstance(spec, Serde):
        return spec
    spec = _without_none(spec)
    if spec is bytes or spec == "bytes":
        return Serde(bytes, None, None, name="bytes")
    if isinstance(spec, str):
        if spec not in FORMATS:
            raise TopologyError(f"unknown serde {spec}; known are bytes, {', '.join(FORMATS)}")
        return _plain(spec, FORMATS[spec], name=spec)
    if isinstance(spec, type) and spec in TYPES:
        return _plain(spec, TYPES[spec], name=spec.__name__)
    if spec is tuple:
        return Serde(spec, JSON.encode, lambda data: tuple(JSON.decode(data)), name="tuple", is_json=True)
    if typing.get_origin(spec) in (dict, list) and typing.get_args(spec)[-1] is Any:
        return _plain(spec, JSON, name=_name(spec))
    return _of_model(spec)


def windowed_serde(inner: Serde[T], windows: Windows) -> Serde[Windowed[T]]:
    """The serde of the keys of a table with these windows."""
    match windows:
        case TimeWindows(size_ms=size_ms) | UnlimitedWindows(size_ms=size_ms):
            return TimeWindowed(inner, size_ms)
        case SlidingWindows(difference_ms=difference_ms):
            return TimeWindowed(inner, difference_ms)
        case SessionWindows():
            return SessionWindowed(inner)


def natural_bytes(value: Any) -> bytes | None:
    """Serialize a value of an undeclared type by its Python type. This is enough to write a topic, not to read it
    back."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, Windowed):
        raise TopologyError("the type of this windowed key is not known: pass key=...")
    return serde_of(type(value)).encode(value)


def _plain(spec: Any, form: Format, *, name: str) -> Serde[Any]:
    return Serde(spec, form.encode, form.decode, name=name, is_json=form is JSON)


def _of_model(spec: Any) -> Serde[Any]:
    """Dataclasses, pydantic models and structs use the client's JSON; other `typing` types use msgspec."""
    if isinstance(spec, type) and not typing.is_typeddict(spec) and typing.get_origin(spec) is None:
        try:
            pair = _Pair[Any](spec, spec)
        except BadConfiguration as error:
            raise TopologyError(f"{_name(spec)} has no serde: {error}") from error
        return Serde(spec, pair._encode, pair._decode, name=_name(spec), is_json=True)
    if not typing.is_typeddict(spec) and typing.get_origin(spec) is None:
        raise TopologyError(
            f"{spec!r} is not a type: use str, int, float, bool, bytes, dict, list, a dataclass, a TypedDict, "
            "a pydantic model, a msgspec struct, or a serde"
        )
    from penstock.client.serializers.libraries import need
    from penstock.client.serializers.typed import decoder_of

    msgspec = need("msgspec", extra="serializers")
    try:
        decode = decoder_of(spec)
    except TypeError as error:
        raise TopologyError(f"{_name(spec)} has no serde: {error}") from error
    return Serde(spec, msgspec.json.Encoder().encode, decode, name=_name(spec), is_json=True)


def _without_none(spec: Any) -> Any:
    """`str | None` is the same as `str`: any value may be missing."""
    if typing.get_origin(spec) in (typing.Union, types.UnionType):
        rest = [argument for argument in typing.get_args(spec) if argument is not type(None)]
        return rest[0] if len(rest) == 1 else spec
    return spec


def _name(spec: Any) -> str:
    if isinstance(spec, type) and typing.get_origin(spec) is None:
        return spec.__name__
    return str(spec).replace("typing.", "")


def _buffer(data: Any) -> Any:
    if isinstance(data, bytearray | memoryview):
        return data
    raise TypeError(f"expected bytes, not {type(data).__name__}")


def _remade(spec: Any, topic: str, is_key: bool) -> Serde[Any]:
    made = serde_of(spec)
    return made.for_topic(topic, is_key=is_key) if topic else made


def _remade_pair(writer: Any, reader: Any, topic: str, is_key: bool) -> Serde[Any]:
    return _Pair(writer, reader, topic=topic, is_key=is_key)
