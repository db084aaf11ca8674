"""Codecs that follow a plan step by step: slow, and meant to be obviously right.

A test compares the compiler with this module, for every message and version. The broker never runs it. A `Reader`
never reads past its end and never allocates for a count that the remaining bytes cannot hold.
"""

from __future__ import annotations

import struct
from typing import Any

from penstock.protocol import primitives
from penstock.protocol.errors import ErrorCode, MalformedMessage, UnencodableValue, UnsupportedField
from penstock.protocol.plan import STRING_BYTES_MAX, Array, Blob, Fixed, Nested, Plan, Shape, Step, Text
from penstock.protocol.types import Buffer, WireType
from penstock.runtime.network import Part


def decode(plan: Plan, data: Buffer, position: int = 0) -> tuple[Any, int]:
    """The message at `position`, and the position after it."""
    reader = Reader(data, position)
    return reader.read_struct(plan), reader.position


def encode(plan: Plan, message: Any) -> bytes:
    return primitives.join_parts(encode_parts(plan, message))


def encode_parts(plan: Plan, message: Any, head: bytes = b"") -> list[Part]:
    writer = Writer(head)
    try:
        writer.write_struct(plan, message)
    except (AttributeError, TypeError, UnicodeEncodeError) as exc:
        raise UnencodableValue(f"{plan.cls.__qualname__}: {exc}") from exc
    return writer.finish()


class Reader:
    def __init__(self, data: Buffer, position: int) -> None:
        self.view = memoryview(data)
        self.position = position

    def take(self, size: int) -> memoryview:
        """The next `size` bytes; every read goes through here."""
        if size < 0:
            raise MalformedMessage(f"the length before position {self.position} is negative")
        if size > len(self.view) - self.position:
            raise MalformedMessage(
                f"{size} bytes are announced at position {self.position}, and"
                f" {len(self.view) - self.position} are left"
            )
        taken = self.view[self.position : self.position + size]
        self.position += size
        return taken

    def read_varint(self) -> int:
        try:
            value, self.position = primitives.read_varint(self.view, self.position)
        except IndexError as exc:
            raise MalformedMessage(f"the varint at position {self.position} is cut off") from exc
        return value

    def read_number(self, code: str) -> Any:
        (value,) = struct.unpack(">" + code, self.take(struct.calcsize(">" + code)))
        return value

    def read_length(self, *, compact: bool, code: str, nullable: bool) -> int | None:
        """A length or count; None stands for null, which only a nullable field may be."""
        length: int = self.read_varint() - 1 if compact else self.read_number(code)
        if length >= 0:
            return length
        if not nullable:
            raise MalformedMessage(f"null before position {self.position}, where null is not allowed")
        return None

    def read(self, shape: Shape) -> Any:
        match shape:
            case Fixed(WireType.ERROR_CODE):
                return ErrorCode.of(self.read_number("h"))
            case Fixed():
                return self.read_number(shape.code)
            case Text(compact, nullable):
                length = self.read_length(compact=compact, code="h", nullable=nullable)
                return None if length is None else self.read_text(length)
            case Blob(compact, nullable, is_records):
                length = self.read_length(compact=compact, code="i", nullable=nullable)
                if length is None:
                    return None
                return self.take(length) if is_records else bytes(self.take(length))
            case Array(compact, nullable, element):
                count = self.read_length(compact=compact, code="i", nullable=nullable)
                return None if count is None else self.read_elements(element, count)
            case Nested(plan, nullable, null_marker):
                if nullable and self.read_number("b") <= null_marker:
                    return None
                return self.read_struct(plan)

    def read_text(self, length: int) -> str:
        if length > STRING_BYTES_MAX:
            raise MalformedMessage(f"a string of {length} bytes at position {self.position} is too long")
        try:
            return str(self.take(length), "utf-8")
        except UnicodeDecodeError as exc:
            raise MalformedMessage(f"the string before position {self.position} is not UTF-8") from exc

    def read_elements(self, element: Shape, count: int) -> list[Any]:
        if count * max(1, element.minimum_bytes) > len(self.view) - self.position:
            raise MalformedMessage(f"{count} elements cannot follow at position {self.position}")
        return [self.read(element) for _ in range(count)]

    def read_struct(self, plan: Plan) -> Any:
        values = {step.name: self.read(step.shape) for step in plan.steps}
        for step in plan.tagged:
            values[step.name] = step.options.make_default()
        for name, options in plan.absent.items():
            values[name] = options.make_default()
        if plan.is_flexible:
            values.update(self.read_tagged(plan))
        return plan.cls(**values)

    def read_tagged(self, plan: Plan) -> dict[str, Any]:
        steps = {step.options.tag: step for step in plan.tagged}
        values = {}
        count = self.read_varint()
        if count > primitives.TAGGED_FIELDS_MAX:
            raise MalformedMessage(f"{count} tagged fields at position {self.position} are too many")
        for _ in range(count):
            tag = self.read_varint()
            end = self.read_varint() + self.position
            if tag not in steps:
                self.take(end - self.position)
                continue
            values[steps[tag].name] = self.read(steps[tag].shape)
            if self.position != end:
                raise MalformedMessage(f"the field with tag {tag} does not end at {end}, where it should")
        return values


class Writer:
    def __init__(self, head: bytes) -> None:
        self.parts: list[Part] = []
        self.buffer = bytearray(head)

    def finish(self) -> list[Part]:
        if self.buffer or not self.parts:
            self.parts.append(bytes(self.buffer))
        return self.parts

    def write_number(self, code: str, value: Any) -> None:
        try:
            self.buffer += struct.pack(">" + code, value)
        except struct.error as exc:
            raise UnencodableValue(f"{value!r} does not fit: {exc}") from exc

    def write_length(self, length: int, *, compact: bool, code: str) -> None:
        """A length or count; -1 stands for null."""
        if compact:
            self.buffer += primitives.varint(length + 1)
        else:
            self.write_number(code, length)

    def write(self, shape: Shape, value: Any) -> None:
        match shape:
            case Fixed(WireType.UUID) if len(value) != 16:
                raise UnencodableValue(f"{value!r} is not the 16 bytes of an id")
            case Fixed():
                self.write_number(shape.code, value)
            case Text(compact, _):
                encoded = None if value is None else value.encode()
                if encoded is not None and len(encoded) > STRING_BYTES_MAX:
                    raise UnencodableValue(f"a string of {len(encoded)} bytes is too long")
                self.write_length(-1 if encoded is None else len(encoded), compact=compact, code="h")
                self.buffer += encoded or b""
            case Blob(compact, _, is_records):
                self.write_length(-1 if value is None else len(value), compact=compact, code="i")
                if is_records:
                    self.write_records(value)
                else:
                    self.buffer += value or b""
            case Array(compact, _, element):
                self.write_length(-1 if value is None else len(value), compact=compact, code="i")
                for each in value or ():
                    self.write(element, each)
            case Nested(plan, nullable, null_marker):
                if nullable:
                    self.write_number("b", null_marker if value is None else 1)
                if value is not None:
                    self.write_struct(plan, value)

    def write_records(self, records: Any) -> None:
        if records is None or len(records) == 0:
            return
        if isinstance(records, Buffer) and len(records) < primitives.SPLICE_BYTES:
            self.buffer += records
            return
        self.parts += [bytes(self.buffer), records]
        self.buffer.clear()

    def write_struct(self, plan: Plan, value: Any) -> None:
        for name, options in plan.absent.items():
            if not options.ignorable and getattr(value, name) != options.make_default():
                raise UnsupportedField(f"{plan.cls.__qualname__} version {plan.version} has no {name}")
        for step in plan.steps:
            self.write_field(plan, step, getattr(value, step.name))
        if plan.is_flexible:
            self.write_tagged(plan, value)

    def write_field(self, plan: Plan, step: Step, value: Any) -> None:
        if value is None and (isinstance(step.shape, Fixed) or not step.shape.nullable):
            raise UnsupportedField(
                f"{plan.cls.__qualname__}.{step.name} cannot be null in version {plan.version}"
            )
        self.write(step.shape, value)

    def write_tagged(self, plan: Plan, value: Any) -> None:
        fields = [(step, getattr(value, step.name)) for step in plan.tagged]
        fields = [(step, each) for step, each in fields if each != step.options.make_default()]
        self.buffer += primitives.varint(len(fields))
        for step, each in fields:
            inner = Writer(b"")
            inner.write_field(plan, step, each)
            (encoded,) = inner.finish()
            assert isinstance(encoded, Buffer), "records are never tagged"
            assert step.options.tag is not None
            self.buffer += primitives.varint(step.options.tag)
            self.buffer += primitives.varint(len(encoded))
            self.buffer += encoded
