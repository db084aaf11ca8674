"""Writes the source of `encode_parts(message, head=b"")` for a plan.

The code collects chunks of bytes in a list and joins them at the end, or where records become a part of their own. A
version without records has one part. Values that do not fit raise in `struct` or in an attribute lookup; the
interpreter, which knows the field, then explains the error. That is slow, but only for our own bugs.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from penstock.protocol import interpreter
from penstock.protocol.compiler.source import Source, snake_case
from penstock.protocol.declare import FieldOptions, declaration_of
from penstock.protocol.errors import UnencodableValue
from penstock.protocol.plan import STRING_BYTES_MAX, Array, Blob, Fixed, Nested, Plan, Shape, Text
from penstock.protocol.primitives import ONE_BYTE_VARINTS, SPLICE_BYTES, varint
from penstock.protocol.types import WireType


def encoder_source(plan: Plan) -> Source:
    source = Source(f"<penstock: encode {plan.cls.__qualname__} version {plan.version}>")
    source.globals.update(
        {
            "join": b"".join,
            "pack": struct.pack,
            "varint": varint,
            "one_byte": ONE_BYTE_VARINTS,
            "string_length": string_length,
            "BUFFERS": (bytes, bytearray, memoryview),
            "WRITE_ERRORS": (struct.error, AttributeError, TypeError, ValueError, UnencodableValue),
            "Misfit": UnencodableValue,
            "explain": _explainer_of(plan),
        }
    )
    source.reserve("message", "head", "parts", "chunks", "write", "length", "size", "encoded", "value", "exc")
    writer = _EncoderWriter(source)
    with source.block("def encode_parts(message, head=b''):"):
        with source.block("try:"):
            source.line("parts = []")
            source.line("chunks = [head]")
            source.line("write = chunks.append")
            writer.write_struct(plan, "message")
            writer.flush()
            with source.block("if chunks:"):  # none are left if the message ends with records
                source.line("parts.append(join(chunks))")
            source.line("return parts")
        with source.block("except WRITE_ERRORS as exc:"):
            source.line("raise explain(message, exc)")
    return source


class _EncoderWriter:
    """Writes one field after the other; fields of fixed size wait, to be packed together with their neighbours."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.run: list[tuple[str, str]] = []

    def flush(self) -> None:
        if self.run:
            self.source.line(f"write({self.pack()})")
            self.run.clear()

    def flush_with_length(self, shape: Text | Blob | Array) -> None:
        """Write the pending fields, and then `length` as on the wire: plus one if it is compact."""
        line, block = self.source.line, self.source.block
        if not shape.compact:
            self.run.append(("h" if isinstance(shape, Text) else "i", "length"))
            self.flush()
            return
        long_length = "string_length(length)" if isinstance(shape, Text) else "varint(length)"
        if not self.run:
            line(f"write(one_byte[length] if length < 128 else {long_length})")
            return
        separate = self.pack()
        self.run.append(("B", "length"))
        with block("if length < 128:"):
            line(f"write({self.pack()})")
        with block("else:"):
            line(f"write({separate})")
            line(f"write({long_length})")
        self.run.clear()

    def pack(self) -> str:
        """The expression that packs the pending fields."""
        if all(code == "x" for code, _ in self.run):
            return repr(bytes(len(self.run)))
        arguments = ", ".join(expression for _, expression in self.run if expression)
        return f"{self.source.packer([code for code, _ in self.run])}({arguments})"

    def write_struct(self, plan: Plan, variable: str) -> None:
        line = self.source.line
        for name, options in plan.absent.items():
            if not options.ignorable:
                with self.source.block(f"if {self.differs(f'{variable}.{name}', options)}:"):
                    line(f"raise Misfit({name!r})")
        for step in plan.steps:
            self.write(step.shape, f"{variable}.{step.name}", step.name)
        if plan.tagged:
            self.write_tagged(plan, variable)
        elif plan.is_flexible:
            self.run.append(("x", ""))  # a pad byte is zero: no tagged fields

    def write(self, shape: Shape, expression: str, name: str) -> None:
        match shape:
            case Fixed():
                if shape.type is WireType.UUID:
                    with self.source.block(f"if len({expression}) != 16:"):
                        self.source.line(f"raise Misfit({name!r})")
                self.run.append((shape.code, expression))
            case Text():
                self.write_text(shape, expression)
            case Blob():
                self.write_blob(shape, expression)
            case Array():
                self.write_array(shape, expression, name)
            case Nested():
                self.write_nested(shape, expression, name)

    def write_text(self, shape: Text, expression: str) -> None:
        line, block = self.source.line, self.source.block
        if shape.nullable:
            line(f"value = {expression}")
            with block("if value is None:"):
                line("encoded = b''")
                line(f"length = {_NULL[shape.compact]}")
            with block("else:"):
                line("encoded = value.encode()")
                line(f"length = len(encoded){_PLUS_ONE[shape.compact]}")
        else:
            line(f"encoded = {expression}.encode()")
            line(f"length = len(encoded){_PLUS_ONE[shape.compact]}")
        self.flush_with_length(shape)
        line("write(encoded)")

    def write_blob(self, shape: Blob, expression: str) -> None:
        line, block = self.source.line, self.source.block
        line(f"value = {expression}")
        if shape.nullable:
            with block("if value is None:"):
                line("value = b''")
                line("size = 0")
                line(f"length = {_NULL[shape.compact]}")
            with block("else:"):
                line("size = len(value)")
                line(f"length = size{_PLUS_ONE[shape.compact]}")
        else:
            line("size = len(value)")
            line(f"length = size{_PLUS_ONE[shape.compact]}")
        self.flush_with_length(shape)
        if not shape.is_records:
            line("write(value)")
            return
        with block(f"if size < {SPLICE_BYTES} and isinstance(value, BUFFERS):"):
            line("write(value)")
        with block("elif size:"):
            line("parts += join(chunks), value")
            line("chunks.clear()")

    def write_array(self, shape: Array, expression: str, name: str) -> None:
        line, block = self.source.line, self.source.block
        elements = self.source.variable(name)
        line(f"{elements} = {expression}")
        if shape.nullable:
            with block(f"if {elements} is None:"):
                line(f"{elements} = ()")
                line(f"length = {_NULL[shape.compact]}")
            with block("else:"):
                line(f"length = len({elements}){_PLUS_ONE[shape.compact]}")
        else:
            line(f"length = len({elements}){_PLUS_ONE[shape.compact]}")
        self.flush_with_length(shape)
        element = shape.element
        if isinstance(element, Fixed) and element.type is not WireType.UUID:
            line(f"write(pack(f'>{{len({elements})}}{element.code}', *{elements}))")
            return
        hint = snake_case(element.plan.cls.__name__) if isinstance(element, Nested) else "element"
        variable = self.source.variable(hint)
        with block(f"for {variable} in {elements}:"):
            self.write(element, variable, name)
            self.flush()

    def write_nested(self, shape: Nested, expression: str, name: str) -> None:
        if not shape.nullable and "." not in expression:
            self.write_struct(shape.plan, expression)  # an element of an array already has a variable
            return
        variable = self.source.variable(name)
        self.source.line(f"{variable} = {expression}")
        if not shape.nullable:
            self.write_struct(shape.plan, variable)
            return
        self.flush()
        with self.source.block(f"if {variable} is None:"):
            self.source.line(f"write({shape.null_marker.to_bytes(1, 'big', signed=True)!r})")
        with self.source.block("else:"):
            self.run.append(("b", "1"))
            self.write_struct(shape.plan, variable)
            self.flush()

    def write_tagged(self, plan: Plan, variable: str) -> None:
        """Only fields that differ from their default are written, each after its tag and size."""
        line, block = self.source.line, self.source.block
        self.flush()
        is_set = {step.name: self.source.variable(f"has_{step.name}") for step in plan.tagged}
        for step in plan.tagged:
            line(f"{is_set[step.name]} = {self.differs(f'{variable}.{step.name}', step.options)}")
        with block(f"if not ({' or '.join(is_set.values())}):"):
            line(r"write(b'\x00')")
        with block("else:"):
            line(f"write(varint({' + '.join(is_set.values())}))")
            outer = self.source.variable("outer")
            line(f"{outer} = chunks")
            for step in plan.tagged:
                with block(f"if {is_set[step.name]}:"):
                    # The size precedes the value, so the value is collected separately.
                    line("chunks = []")
                    line("write = chunks.append")
                    self.write(step.shape, f"{variable}.{step.name}", step.name)
                    self.flush()
                    line("encoded = join(chunks)")
                    line(f"{outer} += varint({step.options.tag}), varint(len(encoded)), encoded")
            line(f"chunks = {outer}")
            line("write = chunks.append")

    def differs(self, expression: str, options: FieldOptions) -> str:
        """An expression: whether a field differs from its default, without calling the comparison of a struct."""
        default = options.default
        if default is None:
            return f"({expression} is not None)"
        if isinstance(default, list):
            return f"({expression} != [])"
        if hasattr(default, "__declaration__"):
            fields = declaration_of(type(default)).fields
            differences = [self.differs(f"{expression}.{name}", each) for name, each in fields.items()]
            return f"({' or '.join([f'{expression} is None', *differences])})"
        return f"({expression} != {self.source.literal(default)})"


_NULL = {True: "0", False: "-1"}
_PLUS_ONE = {True: " + 1", False: ""}


def string_length(length: int) -> bytes:
    """A compact length of two bytes or more, of a string that is not too long."""
    if length - 1 > STRING_BYTES_MAX:
        raise UnencodableValue(f"a string of {length - 1} bytes is too long")
    return varint(length)


def _explainer_of(plan: Plan) -> Callable[[Any, Exception], Exception]:
    def explain(message: Any, failure: Exception) -> Exception:
        try:
            interpreter.encode_parts(plan, message)
        except Exception as explanation:
            return explanation
        return failure

    return explain
