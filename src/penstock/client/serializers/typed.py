"""JSON checked against a type: dataclasses, pydantic models, msgspec structs.

Pydantic models are read and written by pydantic. Everything else uses msgspec, which also knows dataclasses and
restores dates, decimals, enums and nested types.
"""

from __future__ import annotations

import typing
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from penstock.client.serializers.libraries import need
from penstock.client.serializers.plain import Format

NOTE = "__msgspec_cache__"


def format_of(kind: type) -> Format:
    """Both sides of the JSON of one type."""
    if hasattr(kind, "__pydantic_validator__"):
        return _of_pydantic(kind)
    msgspec = need("msgspec", extra="serializers")
    return Format(_only(kind, msgspec.json.Encoder().encode), decoder_of(kind))


def decoder_of(kind: Any) -> Callable[[bytes], Any]:
    """A function that reads JSON as this type, made by msgspec.

    msgspec leaves an attribute on every class that it has seen, which cannot be pickled, so the class could not be sent
    to workers. A decoder does not need the attribute again: it is removed.
    """
    decode: Callable[[bytes], Any] = need("msgspec", extra="serializers").json.Decoder(kind).decode
    for each in _classes_in(kind, set()):
        if NOTE in vars(each):
            delattr(each, NOTE)
    return decode


def _classes_in(kind: Any, seen: set[type]) -> set[type]:
    """The class and those of its fields."""
    for part in typing.get_args(kind):
        _classes_in(part, seen)
    if isinstance(kind, type) and typing.get_origin(kind) is None and kind not in seen:
        seen.add(kind)
        with suppress(NameError, TypeError):  # unresolvable names: msgspec has not resolved them either
            for hint in typing.get_type_hints(kind).values():
                _classes_in(hint, seen)
    return seen


def _of_pydantic(kind: type) -> Format:
    adapter = need("pydantic", extra="serializers").TypeAdapter(kind)
    return Format(_only(kind, adapter.dump_json), adapter.validate_json)


def _only(kind: type, encode: Any) -> Any:
    """Reject a value of another type: no reader of this type could read it."""

    def checked(value: Any) -> bytes:
        if not isinstance(value, kind):
            raise TypeError(f"must be of type {kind.__qualname__}")
        data: bytes = encode(value)
        return data

    return checked
