"""Converts objects to plain data and back, for formats that know only dicts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from penstock.client.serializers.libraries import need


def as_data(value: Any) -> Any:
    """The dict of a dataclass, a pydantic model or a msgspec struct; other values, such as dates, stay as they are."""
    if isinstance(value, dict | str | bytes | int | float):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if hasattr(value, "__pydantic_validator__"):
        return value.model_dump() if hasattr(value, "model_dump") else value
    if hasattr(value, "__struct_fields__"):
        return {name: as_data(getattr(value, name)) for name in value.__struct_fields__}
    return value


def reader_into(kind: Any) -> Callable[[Any], Any] | None:
    """A function that converts data to an object: the given function, or one for the given type."""
    if kind is None or not isinstance(kind, type):
        return kind
    if hasattr(kind, "__pydantic_validator__"):
        validate: Callable[[Any], Any] = (
            need("pydantic", extra="serializers").TypeAdapter(kind).validate_python
        )
        return validate
    if dataclasses.is_dataclass(kind) or hasattr(kind, "__struct_fields__"):
        msgspec = need("msgspec", extra="serializers")
        return lambda data: msgspec.convert(data, kind)
    return kind
