"""Resolves the `serializer` and `deserializer` options: a name, a type, an object, a function, or the import path of
one.

    "json"                      one of the names below, or a Kafka Java class
    int, str, UUID              the format of that type
    Order                       a dataclass, a pydantic model or a msgspec struct: JSON checked against it
    AvroSerializer(...)         an object with `for_topic`
    orjson.dumps                any function of one value
    "shop.wire:write_order"     any of these, by its import path

A function whose second parameter is named `ctx` or `context` gets a `Context`, like serializers for confluent-kafka.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from penstock.client.errors import BadConfiguration
from penstock.client.importing import find
from penstock.client.serializers import plain
from penstock.client.serializers.base import Deserializer, Serializer
from penstock.client.setting_values import JAVA_NAMES

if TYPE_CHECKING:
    from penstock.client.settings import ClientSettings

FORMATS: Final[dict[str, plain.Format]] = {
    "string": plain.STRING,
    "str": plain.STRING,
    "json": plain.JSON,
    "int": plain.INT64,
    "int64": plain.INT64,
    "long": plain.INT64,
    "int32": plain.INT32,
    "integer": plain.INT32,
    "int16": plain.INT16,
    "short": plain.INT16,
    "float": plain.FLOAT64,
    "float64": plain.FLOAT64,
    "double": plain.FLOAT64,
    "float32": plain.FLOAT32,
    "boolean": plain.BOOLEAN,
    "bool": plain.BOOLEAN,
    "uuid": plain.UUID_TEXT,
    "void": plain.VOID,
}
TYPES: Final[dict[type, plain.Format]] = {
    str: plain.STRING,
    int: plain.INT64,
    float: plain.FLOAT64,
    bool: plain.BOOLEAN,
    UUID: plain.UUID_TEXT,
    dict: plain.JSON,
    list: plain.JSON,
}
AS_THEY_ARE: Final = (None, "bytes", bytes)

# Names whose modules need a library.
LAZY: Final = {
    "arrow": "penstock.client.serializers.arrow",
    "avro": "penstock.client.serializers.avro",
    "protobuf": "penstock.client.serializers.protobuf",
    "json-schema": "penstock.client.serializers.json_schema",
}


class Context(NamedTuple):
    """The second argument of a function with two parameters."""

    topic: str
    field: str
    """`key` or `value`."""
    headers: None = None


def serializer_of(spec: object, settings: ClientSettings | None = None) -> Serializer | None:
    """The serializer; None if bytes and text are sent as they are."""
    resolved = _resolve(spec, "serializer", settings)
    if resolved is None or isinstance(resolved, Serializer):
        return resolved
    if isinstance(resolved, plain.Format):
        return plain.Encoder(resolved.encode)
    return _Function(resolved) if _takes_context(resolved) else plain.Encoder(resolved)


def deserializer_of(spec: object, settings: ClientSettings | None = None) -> Deserializer | None:
    """The deserializer; None if bytes are returned as they are."""
    resolved = _resolve(spec, "deserializer", settings)
    if resolved is None or isinstance(resolved, Deserializer):
        return resolved
    if isinstance(resolved, plain.Format):
        return plain.Decoder(resolved.decode)
    return _Function(resolved) if _takes_context(resolved) else plain.Decoder(resolved)


class _Function:
    """A function that gets the topic too."""

    def __init__(self, function: Callable[[Any, Context], Any]) -> None:
        self._function = function

    def for_topic(self, topic: str, /, *, is_key: bool) -> Callable[[Any], Any]:
        function, context = self._function, Context(topic, "key" if is_key else "value")
        return lambda value: function(value, context)


def _resolve(spec: Any, side: str, settings: ClientSettings | None) -> Any:
    """None, a `Format`, an object with `for_topic`, or a function."""
    if spec in AS_THEY_ARE:
        return None
    if isinstance(spec, str):
        name = JAVA_NAMES.get(spec, spec)
        if name in AS_THEY_ARE:
            return None
        if name in FORMATS:
            return FORMATS[name]
        if name in LAZY:
            return getattr(importlib.import_module(LAZY[name]), f"{side}_by_settings")(settings)
        spec = _import(spec, side)
    if isinstance(spec, type):
        if spec in TYPES:
            return TYPES[spec]
        return _of_type(spec, side)
    if hasattr(spec, "for_topic") or callable(spec):
        return spec
    raise BadConfiguration(
        f"a {side} must be a name, a type, an object with for_topic, or a function, not {spec!r}"
    )


def _of_type(kind: type, side: str) -> Any:
    if hasattr(kind, "for_topic"):
        return kind()
    if dataclasses.is_dataclass(kind) or _is_model(kind):
        from penstock.client.serializers import typed

        return typed.format_of(kind)
    raise BadConfiguration(
        f"{kind.__qualname__} is not a {side}: a type may be str, int, float, bool, UUID, dict, list, a dataclass, "
        "a pydantic model or a msgspec struct, or a class with for_topic"
    )


def _is_model(kind: type) -> bool:
    """Whether it is a pydantic or msgspec class, by its attributes, so that neither is imported here."""
    return hasattr(kind, "__pydantic_validator__") or hasattr(kind, "__struct_fields__")


def _import(place: str, side: str) -> Any:
    if ":" not in place and "." not in place:
        known = ", ".join(["bytes", *FORMATS, *LAZY])
        raise BadConfiguration(f"unknown {side} {place}; known are {known}")
    return find(place, what=side)


def _takes_context(function: Callable[..., Any]) -> bool:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some C functions have no signature
        return False
    return len(parameters) > 1 and parameters[1].name in ("ctx", "context")
