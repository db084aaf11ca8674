"""The layout of a message in one version: (class, version) -> shapes in wire order.

A plan resolves everything that depends on the version: which fields there are, which are tagged, which lengths are
compact, what may be null. Interpreter and compiler only follow it, so they cannot disagree about the protocol. A plan
is immutable; this module never touches a message or a buffer.
"""

from __future__ import annotations

import struct
import types
import typing
from dataclasses import dataclass
from typing import Annotated, Any

from penstock.protocol.declare import Declaration, FieldOptions, Kind, declaration_of
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Uuid, WireType

STRING_BYTES_MAX = 0x7FFF
"""Kafka refuses longer strings in every version, even where a compact length allows more."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A number, a flag, an id: fixed size, never null."""

    type: WireType

    @property
    def code(self) -> str:
        """The `struct` code of the value."""
        return "h" if self.type is WireType.ERROR_CODE else self.type.value

    @property
    def minimum_bytes(self) -> int:
        return struct.calcsize(">" + self.code)


@dataclass(frozen=True, slots=True)
class Text:
    """A length (int16 or compact) and UTF-8."""

    compact: bool
    nullable: bool

    @property
    def minimum_bytes(self) -> int:
        return 1 if self.compact else 2


@dataclass(frozen=True, slots=True)
class Blob:
    """A length (int32 or compact) and bytes. Records are never copied."""

    compact: bool
    nullable: bool
    is_records: bool

    @property
    def minimum_bytes(self) -> int:
        return 1 if self.compact else 4


@dataclass(frozen=True, slots=True)
class Array:
    """A count (int32 or compact) and that many elements."""

    compact: bool
    nullable: bool
    element: Shape

    @property
    def minimum_bytes(self) -> int:
        return 1 if self.compact else 4


@dataclass(frozen=True, slots=True)
class Nested:
    """A struct; a nullable one is preceded by a byte that says whether it is null."""

    plan: Plan
    nullable: bool
    null_marker: int = -1
    """The byte for null. In tagged fields Kafka uses 0, as for a compact length."""

    @property
    def minimum_bytes(self) -> int:
        return 1 if self.nullable else self.plan.minimum_bytes


Shape = Fixed | Text | Blob | Array | Nested


@dataclass(frozen=True, slots=True)
class Step:
    """One field of the version."""

    name: str
    shape: Shape
    options: FieldOptions


@dataclass(frozen=True, slots=True)
class Plan:
    """One struct in one version: the steps in order, then, in a flexible version, the tagged section."""

    cls: type[Any]
    version: int
    steps: tuple[Step, ...]
    is_flexible: bool
    tagged: tuple[Step, ...]
    """Sorted by tag, as they are written."""
    absent: dict[str, FieldOptions]
    """Fields that this version does not have: decoding sets their defaults."""

    @property
    def minimum_bytes(self) -> int:
        """The smallest encoded size of this struct, to check a count before allocating."""
        return sum(step.shape.minimum_bytes for step in self.steps) + self.is_flexible


def plan_message(cls: type[Any], version: int) -> Plan:
    """The plan of a message in one of its versions; ValueError for other versions."""
    declaration = declaration_of(cls)
    if declaration.kind is Kind.STRUCT:
        raise TypeError(f"{cls.__qualname__} is a struct: plan the message that contains it")
    if version not in declaration.versions:
        raise ValueError(
            f"{cls.__qualname__} has versions {declaration.first_version} to {declaration.last_version},"
            f" not {version}"
        )
    return _plan(cls, version, declaration.flexible_version)


def _plan(cls: type[Any], version: int, flexible_version: int) -> Plan:
    declaration: Declaration = declaration_of(cls)
    annotations = typing.get_type_hints(cls, include_extras=True)
    steps: list[Step] = []
    tagged: list[Step] = []
    absent: dict[str, FieldOptions] = {}
    for name, options in declaration.fields.items():
        if not options.since <= version <= options.until:
            absent[name] = options
            continue
        try:
            shape = _shape(annotations[name], version, flexible_version, options)
        except TypeError as exc:
            raise TypeError(f"{cls.__qualname__}.{name}: {exc}") from exc
        is_tagged = options.tag is not None and version >= options.tagged_since
        (tagged if is_tagged else steps).append(Step(name, shape, options))
    is_flexible = version >= flexible_version
    if tagged and not is_flexible:
        raise TypeError(f"{cls.__qualname__}: version {version} has tagged fields but is not flexible")
    tagged.sort(key=lambda step: step.options.tag or 0)
    return Plan(cls, version, tuple(steps), is_flexible, tuple(tagged), absent)


def _shape(annotation: Any, version: int, flexible_version: int, options: FieldOptions) -> Shape:
    nullable = False
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        alternatives = [each for each in typing.get_args(annotation) if each is not types.NoneType]
        if len(alternatives) != 1:
            raise TypeError(f"{annotation} has no wire type")
        annotation = alternatives[0]
        nullable = version >= options.nullable_since
    compact_since = flexible_version if options.flexible_since is None else options.flexible_since
    compact = version >= compact_since

    if typing.get_origin(annotation) is list:
        (element,) = typing.get_args(annotation)
        return Array(compact, nullable, _shape(element, version, flexible_version, FieldOptions()))
    if isinstance(annotation, type) and "__declaration__" in annotation.__dict__:
        is_tagged = options.tag is not None and version >= options.tagged_since
        return Nested(_plan(annotation, version, flexible_version), nullable, 0 if is_tagged else -1)
    wire_type = _wire_type(annotation)
    if wire_type is WireType.STRING:
        return Text(compact, nullable)
    if wire_type in (WireType.BYTES, WireType.RECORDS):
        return Blob(compact, nullable, is_records=wire_type is WireType.RECORDS)
    if nullable:
        raise TypeError(f"a value of type {wire_type.name} cannot be null")
    return Fixed(wire_type)


PLAIN_TYPES = {
    str: WireType.STRING,
    bytes: WireType.BYTES,
    bool: WireType.BOOL,
    Uuid: WireType.UUID,
    ErrorCode: WireType.ERROR_CODE,
}


def _wire_type(annotation: Any) -> WireType:
    if typing.get_origin(annotation) is Annotated:
        for remark in annotation.__metadata__:
            if isinstance(remark, WireType):
                return remark
    if annotation in PLAIN_TYPES:
        return PLAIN_TYPES[annotation]
    raise TypeError(f"{annotation} has no wire type")
