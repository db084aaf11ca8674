"""JSON that is checked against a type: dataclasses, pydantic models, msgspec structs.

A pydantic model reads and writes as pydantic does it. Everything else goes through msgspec, which knows dataclasses as
well as its own structs and makes dates, decimals, enums and nested types of them again.
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
    """What reads JSON as this type, made by msgspec.

    msgspec leaves a note on every class that it has seen, which cannot be pickled, and so neither could the class of a
    program that is sent to workers. A decoder does not need the note again: it is taken away.
    """
    decode: Callable[[bytes], Any] = need("msgspec", extra="serializers").json.Decoder(kind).decode
    for each in _classes_in(kind, set()):
        if NOTE in vars(each):
            delattr(each, NOTE)
    return decode


def _classes_in(kind: Any, seen: set[type]) -> set[type]:
    """The class itself, and those of its fields."""
    for part in typing.get_args(kind):
        _classes_in(part, seen)
    if isinstance(kind, type) and typing.get_origin(kind) is None and kind not in seen:
        seen.add(kind)
        with suppress(NameError, TypeError):  # names that nobody can find: msgspec has not found them either
            for hint in typing.get_type_hints(kind).values():
                _classes_in(hint, seen)
    return seen


def _of_pydantic(kind: type) -> Format:
    adapter = need("pydantic", extra="serializers").TypeAdapter(kind)
    return Format(_only(kind, adapter.dump_json), adapter.validate_json)


def _only(kind: type, encode: Any) -> Any:
    """Refuse a value of another type: it would be written, and then no reader of this type could take it."""

    def checked(value: Any) -> bytes:
        if not isinstance(value, kind):
            raise TypeError(f"must be of type {kind.__qualname__}")
        data: bytes = encode(value)
        return data

    return checked
