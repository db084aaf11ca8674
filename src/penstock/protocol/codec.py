"""Codecs: `codec(HeartbeatRequest, 4)` reads and writes that message in that version.

A codec is compiled at first use and cached; a caller on a hot path keeps it. Decoding raises only `MalformedMessage`;
encoding raises `UnsupportedField` or `UnencodableValue`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

from penstock.protocol.compiler import compile_bounded_decoder, compile_decoder, compile_encoder
from penstock.protocol.plan import plan_message
from penstock.protocol.primitives import join_parts
from penstock.protocol.types import Buffer
from penstock.runtime.network import Part

__all__ = ["Codec", "codec"]

M = TypeVar("M")
M_co = TypeVar("M_co", covariant=True)
M_contra = TypeVar("M_contra", contravariant=True)


class Decode(Protocol[M_co]):
    def __call__(self, data: Buffer, position: int = 0) -> tuple[M_co, int]: ...


class DecodeBounded(Protocol[M_co]):
    def __call__(self, data: Buffer, position: int, room: int) -> tuple[M_co, int]: ...


class EncodeParts(Protocol[M_contra]):
    def __call__(self, message: M_contra, head: bytes = b"") -> list[Part]: ...


class Codec(Generic[M]):
    """One message in one version. Its functions are compiled when they are first used: a broker never encodes most
    requests, nor decodes their responses."""

    def __init__(self, cls: type[M], version: int) -> None:
        self.cls = cls
        self.version = version
        self._plan = plan_message(cls, version)

    @cached_property
    def decode(self) -> Decode[M]:
        """The message at `position`, and the position after it. Records are views of `data`, the rest is copied."""
        return compile_decoder(self._plan)

    @cached_property
    def decode_bounded(self) -> DecodeBounded[M]:
        """The same for large messages of untrusted clients: `MalformedMessage` if it has more than `room` elements in
        all."""
        return compile_bounded_decoder(self._plan)

    @cached_property
    def encode_parts(self) -> EncodeParts[M]:
        """The message as a list of buffers and record sources, with `head` before the first; never an empty list."""
        return compile_encoder(self._plan)

    def encode(self, message: M) -> bytes:
        """The message as bytes; only for records in memory."""
        return join_parts(self.encode_parts(message))


_codecs: dict[tuple[type, int], Codec[Any]] = {}


def codec(cls: type[M], version: int) -> Codec[M]:
    """The codec of a message class; ValueError for an unknown version."""
    found = _codecs.get((cls, version))
    if found is None:
        found = _codecs[cls, version] = Codec(cls, version)
    return found
