"""Kafka's message definitions from its jars, and a neutral form for comparing our plans with them.

A `WireField` is one field of one version of a message. `kafka_fields` derives them from Kafka's JSON, `our_fields`
from a plan; the two share no code.
"""

from __future__ import annotations

import functools
import json
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.protocol.plan import Array, Blob, Fixed, Nested, Plan, Shape, Step, Text
from penstock.protocol.types import WireType

Json = dict[str, Any]

EVERY_VERSION = range(1 << 15)

TYPES_WITH_LENGTH = ("string", "bytes", "records")


@dataclass(frozen=True, slots=True)
class WireField:
    name: str
    type: str
    """Kafka's type name, with `struct` for every struct."""
    nullable: bool
    compact: bool
    tag: int | None
    fields: tuple[WireField, ...] = ()
    """Of a struct, or of the structs in an array."""


@functools.cache
def definitions(jar: Path, folder: str) -> dict[str, Json]:
    """The definitions in a folder of a jar, by name, without those that have no version left."""
    found = {}
    with zipfile.ZipFile(jar) as archive:
        for entry in archive.namelist():
            if entry.startswith(folder + "/") and entry.endswith(".json"):
                definition = json.loads(_without_comments(archive.read(entry).decode()))
                if definition["validVersions"] != "none":
                    found[definition["name"]] = definition
    return found


def _without_comments(text: str) -> str:
    return re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)


def versions_in(text: str | None) -> range:
    """Kafka's version ranges: `3`, `0-4`, `2+`, `none`."""
    if text is None or text == "none":
        return range(0)
    if text.endswith("+"):
        return range(int(text[:-1]), EVERY_VERSION.stop)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


SERVED_ALTHOUGH_UNSTABLE = {"InitProducerIdRequest"}
"""Its unstable version has two-phase commit (KIP-939), which nothing else offers."""


def stable_versions(kafka: dict[str, Json], name: str) -> range:
    """The stable versions of a message; none if this Kafka does not have it."""
    if name not in kafka:
        return range(0)
    versions = versions_in(kafka[name]["validVersions"])
    # Kafka marks only requests, but means their responses too.
    request = name.removesuffix("Response") + "Request" if name.endswith("Response") else name
    is_unstable = (
        kafka.get(request, {}).get("latestVersionUnstable") and request not in SERVED_ALTHOUGH_UNSTABLE
    )
    return versions[:-1] if is_unstable else versions


def snake_case(name: str) -> str:
    name = name.replace("KRaft", "K_raft").replace("2Pc", "_2pc")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def struct_fields(definition: Json, field: Json) -> list[Json]:
    """The fields of a struct, which are declared with the field or, if several fields share them, separately."""
    if "fields" in field:
        return list(field["fields"])
    name = field["type"].removeprefix("[]")
    for struct in definition.get("commonStructs", ()):
        if struct["name"] == name:
            return list(struct["fields"])
    return []


def kafka_fields(definition: Json, version: int) -> tuple[WireField, ...]:
    """Kafka's fields of a version in wire order; tagged fields last, by tag."""
    flexible = versions_in(definition["flexibleVersions"])
    return tuple(_kafka_fields(definition, definition["fields"], version, flexible))


def _kafka_fields(definition: Json, fields: list[Json], version: int, flexible: range) -> list[WireField]:
    plain, tagged = [], []
    for field in fields:
        # A field without versions is in every version, as in StreamsGroupMetadataValue, or in those in which it is
        # tagged, as in TransactionLogValue.
        if version not in versions_in(field.get("versions", field.get("taggedVersions", "0+"))):
            continue
        inner = struct_fields(definition, field)
        array, name = field["type"].startswith("[]"), field["type"].removeprefix("[]")
        compact_in = versions_in(field["flexibleVersions"]) if "flexibleVersions" in field else flexible
        is_tagged = version in versions_in(field.get("taggedVersions"))
        found = WireField(
            name=snake_case(field["name"]),
            type=("[]" if array else "") + ("struct" if inner else name),
            nullable=version in versions_in(field.get("nullableVersions")),
            compact=(array or name in TYPES_WITH_LENGTH) and version in compact_in,
            tag=int(field["tag"]) if is_tagged else None,
            fields=tuple(_kafka_fields(definition, inner, version, flexible)),
        )
        (tagged if is_tagged else plain).append(found)
    return plain + sorted(tagged, key=lambda field: field.tag or 0)


def our_fields(plan: Plan) -> tuple[WireField, ...]:
    """A plan's fields in wire order; tagged fields last, by tag."""
    plain = [_our_field(step, None) for step in plan.steps]
    tagged = [_our_field(step, step.options.tag) for step in plan.tagged]
    return tuple(plain + tagged)


def _our_field(step: Step, tag: int | None) -> WireField:
    match step.shape:
        case Fixed():
            return WireField(step.name, _type_name(step.shape), nullable=False, compact=False, tag=tag)
        case Text() | Blob() as shape:
            return WireField(step.name, _type_name(shape), shape.nullable, shape.compact, tag)
        case Nested() as shape:
            return WireField(
                step.name, "struct", shape.nullable, compact=False, tag=tag, fields=our_fields(shape.plan)
            )
        case Array() as shape:
            inner = our_fields(shape.element.plan) if isinstance(shape.element, Nested) else ()
            return WireField(step.name, _type_name(shape), shape.nullable, shape.compact, tag, inner)


def _type_name(shape: Shape) -> str:
    match shape:
        case Fixed(type=WireType.ERROR_CODE):
            return "int16"
        case Fixed():
            return shape.type.name.lower()
        case Text():
            return "string"
        case Blob():
            return "records" if shape.is_records else "bytes"
        case Array():
            return "[]" + _type_name(shape.element)
        case Nested():
            return "struct"


def every_field(definition: Json) -> Iterator[tuple[str, Json]]:
    """All fields of all versions, with their path in snake case."""

    def walk(fields: list[Json], path: str) -> Iterator[tuple[str, Json]]:
        for field in fields:
            here = f"{path}.{snake_case(field['name'])}".lstrip(".")
            yield here, field
            yield from walk(struct_fields(definition, field), here)

    yield from walk(definition["fields"], "")
