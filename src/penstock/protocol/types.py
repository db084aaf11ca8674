"""The wire types of Kafka's protocol, as annotations for message fields.

For `partition: Int32` a type checker reads `int`, and `penstock.protocol.plan` reads the `WireType`. `str`, `bytes`
and `bool` need no annotation. Nothing here encodes: the plan decides the layout, the interpreter and the compiler
encode.
"""

from __future__ import annotations

import base64
import enum
import random
from typing import Annotated, NewType, Protocol

from penstock.runtime.disk import Buffer

__all__ = [
    "METADATA_TOPIC_ID",
    "ZERO_UUID",
    "Bool",
    "Buffer",
    "Float64",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Records",
    "RecordsSource",
    "UInt16",
    "UInt32",
    "Uuid",
    "WireType",
    "parse_uuid",
    "random_uuid",
    "uuid_text",
]


class WireType(enum.Enum):
    """A wire type. A fixed-size type has a `struct` code; always big-endian."""

    BOOL = "?"
    INT8 = "b"
    INT16 = "h"
    INT32 = "i"
    INT64 = "q"
    UINT16 = "H"
    UINT32 = "I"
    FLOAT64 = "d"
    UUID = "16s"
    ERROR_CODE = "error code"  # an int16 that is decoded to an ErrorCode
    STRING = "string"
    BYTES = "bytes"
    RECORDS = "records"


class RecordsSource(Protocol):
    """Record batches that are not in memory, such as a slice of a file; only their size is known here."""

    def __len__(self) -> int: ...


Bool = Annotated[bool, WireType.BOOL]
Int8 = Annotated[int, WireType.INT8]
Int16 = Annotated[int, WireType.INT16]
Int32 = Annotated[int, WireType.INT32]
Int64 = Annotated[int, WireType.INT64]
UInt16 = Annotated[int, WireType.UINT16]
UInt32 = Annotated[int, WireType.UINT32]
Float64 = Annotated[float, WireType.FLOAT64]

Records = Annotated[Buffer | RecordsSource, WireType.RECORDS]
"""Record batches: decoded to a `memoryview` of the request, encoded from a buffer or a source."""

Uuid = NewType("Uuid", bytes)
"""Sixteen raw bytes, as on the wire."""

ZERO_UUID = Uuid(bytes(16))
"""Kafka's "no id"."""

METADATA_TOPIC_ID = Uuid(bytes(15) + b"\x01")
"""The id of `__cluster_metadata`, the same in every cluster (KIP-595)."""


def uuid_text(uuid: Uuid) -> str:
    """Kafka's text form of an id: 22 characters of URL-safe base64, without padding."""
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode("ascii")


def parse_uuid(text: str) -> Uuid:
    """The inverse of `uuid_text`; ValueError for any other text."""
    try:
        raw = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except ValueError as exc:
        raise ValueError(f"{text!r} is not an id: 22 characters of URL-safe base64 are expected") from exc
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not an id: it has {len(raw)} bytes instead of 16")
    return Uuid(raw)


def random_uuid(rng: random.Random) -> Uuid:
    """A new id (RFC 4122 version 4) that is not reserved, and whose text does not look like a command-line option."""
    while True:
        raw = bytearray(rng.randbytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        uuid = Uuid(bytes(raw))
        if not uuid_text(uuid).startswith("-"):
            return uuid
