"""Finds the fields of Protobuf messages in all rows side by side.

A message is a sequence of tags and values. Each step takes the smallest tag that any row is at, and advances all
rows that are at it. Writers put fields in the order of their numbers, so that a step is a field of the whole column;
any other order works, too. Unknown fields are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy
import pyarrow as pa

from penstock.spark.decoding.lanes import Lanes, NotColumnar, Numbers
from penstock.spark.decoding.protobuf_numbers import FIXED_BYTES, SIZED, VARINT, unpacked

STEPS_MAX = 256  # fields in a message, counting repetitions; longer messages are faster row by row
NUMBER_SHIFT = 3
WIRE_MASK = 7
TAG_MAX = 2**32 - 1
SIZE_BYTES_MAX = 5
END: Final = 2**62  # the tag of a row that is at its end


class Part(NamedTuple):
    """What one step found of a field."""

    rows: Numbers
    values: Numbers
    """Numbers in wire form, or where bytes begin."""
    sizes: Numbers = None
    """Of bytes; None for numbers."""


class Found(NamedTuple):
    """Everything found of one field, in the order of each row."""

    data: Numbers
    begins: Numbers
    """Where rows begin: a valid position for absent values."""
    parts: list[Part]

    def absent(self) -> Numbers:
        """The rows without the field; None if all have it."""
        if self._is_plain():
            return None
        absent = numpy.ones(len(self.begins), bool)
        for part in self.parts:
            absent[part.rows] = False
        return absent

    def numbers(self, dtype: str) -> Numbers:
        """The last number of each row; zero if there is none."""
        if self._is_plain():
            return self.parts[0].values
        values = numpy.zeros(len(self.begins), dtype)
        for part in self.parts:
            values[part.rows] = part.values
        return values

    def spans(self) -> tuple[Numbers, Numbers]:
        """Where the bytes of each row begin, and their sizes."""
        if self._is_plain():
            return self.parts[0].values, self.parts[0].sizes
        begins, sizes = self.begins.copy(), numpy.zeros(len(self.begins), numpy.int64)
        seen = numpy.zeros(len(self.begins), bool)
        for part in self.parts:
            if seen[part.rows].any():
                raise NotColumnar  # messages would be merged, and a replaced text must be valid, too
            seen[part.rows] = True
            begins[part.rows] = part.values
            sizes[part.rows] = part.sizes
        return begins, sizes

    def all_numbers(self, wire: int, dtype: str) -> tuple[Numbers, Numbers]:
        """The numbers of row after row, packed or not, and how many each row has."""
        rows, values = [], []
        for part in self.parts:
            if part.sizes is None:
                rows.append(part.rows)
                values.append(part.values)
            else:
                numbers, counts = unpacked(self.data, part.values, part.sizes, wire)
                rows.append(numpy.repeat(part.rows, counts))
                values.append(numbers)
        counts, (numbers,) = self._by_row(rows, [values], dtype)
        return numbers, counts

    def all_spans(self) -> tuple[Numbers, Numbers, Numbers]:
        """The positions and sizes of row after row, and how many each row has."""
        rows = [part.rows for part in self.parts]
        begins, sizes = [part.values for part in self.parts], [part.sizes for part in self.parts]
        counts, (begins, sizes) = self._by_row(rows, [begins, sizes], "i8")
        return begins, sizes, counts

    def _is_plain(self) -> bool:
        """Whether every row has it exactly once."""
        return len(self.parts) == 1 and len(self.parts[0].rows) == len(self.begins)

    def _by_row(
        self, rows: list[Numbers], columns: list[list[Numbers]], dtype: str
    ) -> tuple[Numbers, list[Numbers]]:
        """The counts of rows, and the values of all steps in the order of rows."""
        if not rows:
            return numpy.zeros(len(self.begins), numpy.int64), [numpy.zeros(0, dtype) for _ in columns]
        whole = numpy.concatenate(rows)
        joined = [numpy.concatenate(column) for column in columns]
        if len(rows) > 1:
            order = numpy.argsort(whole, kind="stable")
            joined = [column[order] for column in joined]
        return numpy.bincount(whole, minlength=len(self.begins)), joined


Take = Callable[[Found, Numbers], pa.Array]
"""From everything found of a field to its column; the second argument tells which rows are null, if any."""


class Field(NamedTuple):
    tags: tuple[int, ...]
    take: Take
    has_presence: bool = False
    oneof: int | None = None
    """The index of its oneof in the message, if that has other members."""


class Fields:
    """The fields of one message type."""

    def __init__(self, fields: Sequence[Field], *, is_strict: bool = False) -> None:
        """`is_strict`: an unknown or repeated field raises `NotColumnar`."""
        self._fields = fields
        self._is_strict = is_strict
        self._slots = {tag: slot for slot, field in enumerate(fields) for tag in field.tags}

    def read(self, lanes: Lanes) -> list[pa.Array]:
        """A column per field. Advances the lanes to their ends."""
        begins = lanes.at.copy()
        oneofs = {field.oneof for field in self._fields if field.oneof is not None}
        chosen = {oneof: numpy.full(len(lanes), -1) for oneof in oneofs}
        found: list[list[Part]] = [[] for _ in self._fields]
        for tag, part in steps(lanes):
            slot = self._slots.get(tag)
            if slot is None:
                if self._is_strict:
                    raise NotColumnar
                continue
            found[slot].append(part)
            oneof = self._fields[slot].oneof
            if oneof is not None:
                chosen[oneof][part.rows] = slot  # the last one counts
        if self._is_strict and any(map(_has_twice, found)):
            raise NotColumnar
        columns = []
        for slot, field in enumerate(self._fields):
            all_of_it = Found(lanes.data, begins, found[slot])
            absent = None
            if field.oneof is not None:
                absent = chosen[field.oneof] != slot
            elif field.has_presence:
                absent = all_of_it.absent()
            columns.append(field.take(all_of_it, absent))
        return columns


def _has_twice(parts: Sequence[Part]) -> bool:
    if len(parts) < 2:
        return False
    rows = numpy.concatenate([part.rows for part in parts])
    return len(numpy.unique(rows)) < len(rows)


def steps(lanes: Lanes) -> Iterator[tuple[int, Part]]:
    """Tags and their values, until all lanes are at their ends."""
    every = numpy.arange(len(lanes))
    tags = _tags(lanes)
    for _ in range(STEPS_MAX):
        tag = int(tags.min(initial=END))
        if tag == END:
            return
        rows = numpy.flatnonzero(tags == tag)
        if len(rows) == len(every):
            yield tag, _part(lanes, every, tag & WIRE_MASK)
            tags = _tags(lanes)
        else:
            some = lanes.some(rows)
            yield tag, _part(some, rows, tag & WIRE_MASK)
            tags[rows] = _tags(some)
            lanes.at[rows] = some.at
    raise NotColumnar


def _tags(lanes: Lanes) -> Numbers:
    """The next tag of each lane, which is advanced past it."""
    is_left = lanes.at < lanes.end
    byte = lanes.data[lanes.at]
    lanes.at += is_left
    tags = numpy.where(is_left, byte, numpy.int64(END))
    more = numpy.flatnonzero(is_left & (byte >= 0x80))
    if len(more):
        some = lanes.some(more)
        rest = some.varints()
        if (rest == 0).any() or (rest > TAG_MAX >> 7).any():
            raise NotColumnar  # not the shortest form, or not a tag
        tags[more] += (rest.astype(numpy.int64) << 7) - 0x80
        lanes.at[more] = some.at
    if (tags < 1 << NUMBER_SHIFT).any():
        raise NotColumnar  # there is no field 0
    return tags


def _part(lanes: Lanes, rows: Numbers, wire: int) -> Part:
    if wire == VARINT:
        return Part(rows, lanes.varints())
    if wire in FIXED_BYTES:
        size = FIXED_BYTES[wire]
        begins = lanes.skip(size)
        raw = numpy.ascontiguousarray(lanes.data[begins[:, None] + numpy.arange(size)])
        return Part(rows, raw.view(f"<u{size}").reshape(-1))
    if wire != SIZED:
        raise NotColumnar  # a group, or an unknown wire type
    begins = lanes.at.copy()
    sizes = lanes.varints()
    if (lanes.at - begins > SIZE_BYTES_MAX).any() or (sizes > len(lanes.data)).any():
        raise NotColumnar
    sizes = sizes.astype(numpy.int64)
    return Part(rows, lanes.skip(sizes), sizes)
