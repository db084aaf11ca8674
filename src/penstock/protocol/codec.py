"""The way to a codec: `codec(HeartbeatRequest, 4)` reads and writes that message in that version.

Codecs are compiled at first use and kept; asking again is one dictionary lookup, and a caller on a hot path keeps the
codec itself. Decoding raises `MalformedMessage` and nothing else; encoding raises `UnsupportedField` or
`UnencodableValue`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from penstock.protocol import interpreter
from penstock.protocol.plan import plan_message
from penstock.protocol.types import Buffer
from penstock.runtime.network import Part

__all__ = ["Codec", "codec"]

M = TypeVar("M")
M_co = TypeVar("M_co", covariant=True)
M_contra = TypeVar("M_contra", contravariant=True)


class Decode(Protocol[M_co]):
    def __call__(self, data: Buffer, position: int = 0) -> tuple[M_co, int]: ...


class Encode(Protocol[M_contra]):
    def __call__(self, message: M_contra) -> bytes: ...


class EncodeParts(Protocol[M_contra]):
    def __call__(self, message: M_contra, head: bytes = b"") -> list[Part]: ...


@dataclass(frozen=True, slots=True)
class Codec(Generic[M]):
    """One message in one version. The three functions are attributes, so that a caller can bind them."""

    cls: type[M]
    version: int
    decode: Decode[M]
    """The message at `position`, and the position after it. Records are views of `data`, everything else is copied."""
    encode: Encode[M]
    """The message as bytes; records that are no buffer cannot be written so."""
    encode_parts: EncodeParts[M]
    """The message as buffers and record sources in order, with `head` before the first; never an empty list."""


_codecs: dict[tuple[type, int], Codec[Any]] = {}


def codec(cls: type[M], version: int) -> Codec[M]:
    """The codec of a message class; ValueError for a version that the message does not have."""
    found = _codecs.get((cls, version))
    if found is None:
        plan = plan_message(cls, version)
        found = _codecs[cls, version] = Codec(
            cls,
            version,
            lambda data, position=0: interpreter.decode(plan, data, position),
            lambda message: interpreter.encode(plan, message),
            lambda message, head=b"": interpreter.encode_parts(plan, message, head),
        )
    return found
