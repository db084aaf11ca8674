"""Writes the source of `decode(data, position=0)` for a plan, and of a bounded version for large untrusted messages.

The code has three variables: `data` (a memoryview), `position` and `end`. `struct` and indexing raise past the end,
and their errors become `MalformedMessage` in one place; slices do not raise, so every length is compared with `end`
before it is used. A count is compared with the remaining bytes before a list is made.

Even so a hundred megabytes can declare fifty million elements, each an object of fifty times its size. The bounded
`decode(data, position, room)` refuses a message with more than `room` elements and tagged fields in all; small
messages do not need the check.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from penstock.protocol.compiler.source import Source, snake_case
from penstock.protocol.declare import FieldOptions, declaration_of
from penstock.protocol.errors import ERROR_BY_CODE, ErrorCode, MalformedMessage
from penstock.protocol.plan import STRING_BYTES_MAX, Array, Blob, Fixed, Nested, Plan, Shape, Text
from penstock.protocol.primitives import read_tag_count, read_varint, skip_tagged
from penstock.protocol.types import WireType


def decoder_source(plan: Plan, *, is_bounded: bool = False) -> Source:
    name = f"{plan.cls.__qualname__} version {plan.version}"
    source = Source(f"<penstock: decode {'large ' if is_bounded else ''}{name}>")
    source.globals.update(
        {
            "memoryview": memoryview,
            "new": object.__new__,
            "error_of": ERROR_BY_CODE.get,
            "UNKNOWN_SERVER_ERROR": ErrorCode.UNKNOWN_SERVER_ERROR,
            "READ_ERRORS": (struct.error, IndexError, UnicodeDecodeError),
            "MalformedMessage": MalformedMessage,
            "misfit": _misfit_of(name),
            "too_many": _too_many_of(name),
            "read_varint": read_varint,
            "read_tag_count": read_tag_count,
            "skip_tagged": skip_tagged,
            "long_varint": long_varint,
            "long_string_length": long_string_length,
            "unpack_from": struct.unpack_from,
            "read_uuids": read_uuids,
            "read_error_codes": read_error_codes,
        }
    )
    writer = _DecoderWriter(source, is_bounded)
    source.reserve("data", "position", "end", "stop", "length", "marker", "exc", "room")
    with source.block(f"def decode(data, position{', room' if is_bounded else '=0'}):"):
        with source.block("try:"):
            source.line("data = memoryview(data)")
            source.line("end = len(data)")
            message = writer.read_struct(plan)
            writer.flush()
            source.line(f"return {message}, position")
        with source.block("except READ_ERRORS as exc:"):
            source.line(f"raise MalformedMessage(f'{name}: {{exc}}') from exc")
    return source


class _DecoderWriter:
    """Writes one field after the other; fields of fixed size wait, to be read together with their neighbours."""

    def __init__(self, source: Source, is_bounded: bool) -> None:
        self.source = source
        self.is_bounded = is_bounded
        self.run: list[tuple[Fixed, str]] = []

    def flush(self, then: tuple[str, str] | None = None) -> None:
        """Read the pending fields and one more number, (code, variable), in one call.

        A number of one byte ("B") is the start of a varint, which may be longer: `position` stays on it.
        """
        line = self.source.line
        codes = [shape.code for shape, _ in self.run]
        targets = [target for _, target in self.run]
        if then:
            codes.append(then[0])
            targets.append(then[1])
        if codes == ["B"]:
            line(f"{targets[0]} = data[position]")
            return
        if codes:
            unpack = self.source.unpacker(codes)
            line(f"{', '.join(targets)}{',' if len(targets) == 1 else ''} = {unpack}(data, position)")
            line(f"position += {struct.calcsize('>' + ''.join(codes)) - (codes[-1] == 'B')}")
        for shape, target in self.run:
            if shape.type is WireType.ERROR_CODE:
                line(f"{target} = error_of({target}, UNKNOWN_SERVER_ERROR)")
        self.run.clear()

    def read_struct(self, plan: Plan) -> str:
        """Write the code that reads a struct; returns its variable."""
        cls = self.source.bind(plan.cls.__name__, plan.cls)
        variable = self.source.variable(snake_case(plan.cls.__name__))
        # Setting slots takes a third of the time of the constructor (bench/micro/protocol.py).
        self.source.line(f"{variable} = new({cls})")
        for step in plan.steps:
            self.read(step.shape, f"{variable}.{step.name}", step.name)
        for name, options in plan.absent.items():
            self.write_default(f"{variable}.{name}", options)
        for step in plan.tagged:
            self.write_default(f"{variable}.{step.name}", step.options)
        if plan.is_flexible:
            self.read_tagged(plan, variable)
        return variable

    def read(self, shape: Shape, target: str, name: str) -> None:
        match shape:
            case Fixed():
                self.run.append((shape, target))
            case Text() | Blob():
                self.read_sized(shape, target, name)
            case Array():
                self.read_array(shape, target, name)
            case Nested(plan, False):
                self.source.line(f"{target} = {self.read_struct(plan)}")
            case Nested(plan, True, null_marker):
                self.flush(then=("b", "marker"))
                with self.source.block(f"if marker <= {null_marker}:"):
                    self.source.line(f"{target} = None")
                with self.source.block("else:"):
                    variable = self.read_struct(plan)
                    self.flush()
                    self.source.line(f"{target} = {variable}")

    def read_sized(self, shape: Text | Blob, target: str, name: str) -> None:
        line, block = self.source.line, self.source.block
        if shape.compact:
            # The stored number is the length plus one, and `position` is on its last byte: the end is their sum.
            self.flush(then=("B", "length"))
            long_length = "long_string_length" if isinstance(shape, Text) else "long_varint"
            with block("if length > 127:"):
                line(f"length, position = {long_length}(data, position)")
            is_null, start, after_null = "length == 0", "position + 1", "position += 1"
        else:
            self.flush(then=("h" if isinstance(shape, Text) else "i", "length"))
            is_null, start, after_null = "length < 0", "position", ""
        if isinstance(shape, Text):
            # Many strings are empty (bench/micro/groups.py).
            with block(f"if length == {1 if shape.compact else 0}:"):
                line(f"{target} = ''")
                if after_null:
                    line(after_null)
            branch = "elif"
        else:
            branch = "if"
        if shape.nullable:
            with block(f"{branch} {is_null}:"):
                line(f"{target} = None")
                if after_null:
                    line(after_null)
            with block("elif (stop := position + length) > end:"):
                line(f"raise misfit({name!r}, position)")
        else:
            with block(f"{branch} {is_null} or (stop := position + length) > end:"):
                line(f"raise misfit({name!r}, position)")
        taken = f"data[{start}:stop]"
        if isinstance(shape, Text):
            # On a memoryview this is a quarter faster than str(..., 'utf-8') (bench/micro/protocol.py).
            taken += ".tobytes().decode()"
        elif not shape.is_records:
            taken += ".tobytes()"
        with block("else:"):
            line(f"{target} = {taken}")
            line("position = stop")

    def read_array(self, shape: Array, target: str, name: str) -> None:
        line, block = self.source.line, self.source.block
        count = self.source.variable("count")
        self.flush(then=("B" if shape.compact else "i", count))
        if shape.compact:
            with block(f"if {count} > 127:"):
                line(f"{count}, position = long_varint(data, position)")
            line(f"{count} -= 1")
            line("position += 1")
        each = max(1, shape.element.minimum_bytes)
        too_many = f"{count} * {each} > end - position" if each > 1 else f"{count} > end - position"
        if not shape.nullable:
            with block(f"if {count} < 0 or {too_many}:"):
                line(f"raise misfit({name!r}, position)")
            self.count_elements(count)
            self.read_elements(shape.element, target, name, count)
            return
        with block(f"if {count} < 0:"):
            line(f"{target} = None")
        with block(f"elif {too_many}:"):
            line(f"raise misfit({name!r}, position)")
        with block("else:"):
            self.count_elements(count)
            self.read_elements(shape.element, target, name, count)

    def count_elements(self, count: str) -> None:
        if self.is_bounded:
            self.source.line(f"room -= {count}")
            with self.source.block("if room < 0:"):
                self.source.line("raise too_many()")

    def read_elements(self, element: Shape, target: str, name: str, count: str) -> None:
        line = self.source.line
        if isinstance(element, Fixed):
            if element.type is WireType.UUID:
                line(f"{target} = read_uuids(data, position, {count})")
            elif element.type is WireType.ERROR_CODE:
                line(f"{target} = read_error_codes(data, position, {count})")
            else:
                line(f"{target} = list(unpack_from(f'>{{{count}}}{element.code}', data, position))")
            line(f"position += {count} * {element.minimum_bytes}")
            return
        elements = self.source.variable(name)
        line(f"{target} = {elements} = []")
        with self.source.block(f"for _ in range({count}):"):
            if isinstance(element, Nested) and not element.nullable:
                variable = self.read_struct(element.plan)
            else:
                variable = self.source.variable("element")
                self.read(element, variable, name)
            self.flush()
            line(f"{elements}.append({variable})")

    def read_tagged(self, plan: Plan, variable: str) -> None:
        line, block = self.source.line, self.source.block
        count = self.source.variable("tags")
        self.flush(then=("B", count))
        line("position += 1")
        if not plan.tagged:
            with block(f"if {count}:"):
                self.count_elements(count)
                line("position = skip_tagged(data, position - 1)")
            return
        with block(f"if {count}:"):
            self.count_elements(count)
            line(f"{count}, position = read_tag_count(data, position - 1)")
            with block(f"for _ in range({count}):"):
                tag, tag_end = self.source.variable("tag"), self.source.variable("tag_end")
                line(f"{tag}, position = read_varint(data, position)")
                line(f"{tag_end}, position = read_varint(data, position)")
                line(f"{tag_end} += position")
                with block(f"if {tag_end} > end:"):
                    line("raise misfit('a tagged field', position)")
                branch = "if"
                for step in plan.tagged:
                    with block(f"{branch} {tag} == {step.options.tag}:"):
                        self.read(step.shape, f"{variable}.{step.name}", step.name)
                        self.flush()
                        with block(f"if position != {tag_end}:"):
                            line(f"raise misfit({step.name!r}, position)")
                    branch = "elif"
                line(f"position = {tag_end}")

    def write_default(self, target: str, options: FieldOptions) -> None:
        line = self.source.line
        default = options.default
        if isinstance(default, list):
            line(f"{target} = []")
        elif hasattr(default, "__declaration__"):
            cls = type(default)
            variable = self.source.variable(snake_case(cls.__name__))
            line(f"{target} = {variable} = new({self.source.bind(cls.__name__, cls)})")
            for name, inner in declaration_of(cls).fields.items():
                self.write_default(f"{variable}.{name}", inner)
        else:
            line(f"{target} = {self.source.literal(default)}")


def _misfit_of(message: str) -> Callable[[str, int], MalformedMessage]:
    def misfit(field: str, position: int) -> MalformedMessage:
        return MalformedMessage(
            f"{message}: the size of {field} does not fit what follows at position {position}"
        )

    return misfit


def _too_many_of(message: str) -> Callable[[], MalformedMessage]:
    def too_many() -> MalformedMessage:
        return MalformedMessage(f"{message}: it has more elements than a request of its size may have")

    return too_many


def long_varint(data: memoryview, position: int) -> tuple[int, int]:
    """A varint of more than one byte; unlike `read_varint` it returns the position of the last byte."""
    value, after = read_varint(data, position)
    return value, after - 1


def long_string_length(data: memoryview, position: int) -> tuple[int, int]:
    value, after = read_varint(data, position)
    if value - 1 > STRING_BYTES_MAX:
        raise MalformedMessage(f"a string of {value - 1} bytes at position {position} is too long")
    return value, after - 1


def read_uuids(data: memoryview, position: int, count: int) -> list[bytes]:
    return [data[at : at + 16].tobytes() for at in range(position, position + count * 16, 16)]


def read_error_codes(data: memoryview, position: int, count: int) -> list[ErrorCode]:
    return [ErrorCode.of(code) for code in struct.unpack_from(f">{count}h", data, position)]
