"""Codecs as straight-line Python, one function for each message, version and direction.

`decoder` and `encoder` walk a plan and write source; `source` collects the text, compiles it, and shows it to
debuggers and tracebacks through `linecache`. To see the code:

    print(compiler.decoder_source(plan_message(ProduceRequest, 9)).text)

A compiled codec does exactly what `penstock.protocol.interpreter` does, and a test compares the two. It is fast
because adjacent fields of fixed size, and the length that follows them, are one call of `struct`; a compact length
below 128 costs one comparison; objects are made without their constructor. bench/micro/protocol.py has the figures.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.protocol.compiler.decoder import decoder_source
from penstock.protocol.compiler.encoder import encoder_source
from penstock.protocol.plan import Plan

__all__ = [
    "compile_bounded_decoder",
    "compile_decoder",
    "compile_encoder",
    "decoder_source",
    "encoder_source",
]


def compile_decoder(plan: Plan) -> Callable[..., Any]:
    """`decode(data, position=0) -> (message, end)`"""
    return decoder_source(plan).function("decode")


def compile_bounded_decoder(plan: Plan) -> Callable[..., Any]:
    """`decode(data, position, room) -> (message, end)`, for a message of at most `room` elements"""
    return decoder_source(plan, is_bounded=True).function("decode")


def compile_encoder(plan: Plan) -> Callable[..., Any]:
    """`encode_parts(message, head=b"") -> list[Part]`"""
    return encoder_source(plan).function("encode_parts")
