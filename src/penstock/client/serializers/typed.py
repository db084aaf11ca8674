"""JSON that is checked against a type: dataclasses, pydantic models, msgspec structs.

A pydantic model reads and writes as pydantic does it. Everything else goes through msgspec, which knows dataclasses as
well as its own structs and makes dates, decimals, enums and nested types of them again.
"""

from __future__ import annotations

from typing import Any

from penstock.client.serializers.libraries import need
from penstock.client.serializers.plain import Format


def format_of(kind: type) -> Format:
    """Both sides of the JSON of one type."""
    if hasattr(kind, "__pydantic_validator__"):
        return _of_pydantic(kind)
    msgspec = need("msgspec", extra="serializers")
    return Format(_only(kind, msgspec.json.Encoder().encode), msgspec.json.Decoder(kind).decode)


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
