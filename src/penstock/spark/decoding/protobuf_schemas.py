"""Protobuf schemas that can be pickled: serialized files, in an order in which each follows its imports.

`reason_against` compares the writer's message with the query's. Protobuf itself would treat a field whose type has
changed as unknown and return its default: wrong numbers instead of an error.
"""

from __future__ import annotations

import base64
import binascii
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from penstock.client.serializers.libraries import need
from penstock.client.serializers.protobuf import WELL_KNOWN
from penstock.spark.decoding.protobuf_types import ENUM, GROUP, MESSAGE, is_map, is_repeated
from penstock.spark.errors import BadOption

CLASSES_MAX = 256  # cached message classes per process

DOUBLE, FLOAT, INT64, UINT64, INT32, BOOL, STRING, BYTES, UINT32, SINT32, SINT64 = (
    1,
    2,
    3,
    4,
    5,
    8,
    9,
    12,
    13,
    17,
    18,
)
# Types that can be read as another type without loss.
READABLE_AS: Final[dict[int, tuple[int, ...]]] = {
    INT32: (INT64, ENUM),
    UINT32: (UINT64, INT64),
    BOOL: (INT32, INT64, UINT32, UINT64),
    ENUM: (INT32, INT64),
    SINT32: (SINT64,),
    STRING: (BYTES,),
    BYTES: (STRING,),
}


class Files(NamedTuple):
    """A message, and the files that declare it."""

    files: tuple[bytes, ...]
    message: str


def files_of(descriptor: Any) -> Files:
    """The files of a message that this process knows."""
    found: dict[str, bytes] = {}

    def add(file: Any) -> None:
        for imported in file.dependencies:
            add(imported)
        found.setdefault(file.name, file.serialized_pb)

    add(descriptor.file)
    return Files(tuple(found.values()), descriptor.full_name)


def files_in(given: str, message: str | None) -> Files:
    """A FileDescriptorSet, as base64 or by the path of a file, and the chosen message in it."""
    data = _read(given)
    descriptors = need("google.protobuf.descriptor_pb2", extra="serializers")
    try:
        files = list(descriptors.FileDescriptorSet.FromString(data).file)
    except Exception as error:  # its class depends on the implementation
        raise BadOption(f"the schema is not a FileDescriptorSet: {error}") from error
    if not files:
        raise BadOption("the FileDescriptorSet of the schema is empty")
    names = {file.name for file in files}
    imported = {name for file in files for name in file.dependency} - names
    known = [_well_known(name) for name in sorted(imported)]
    if message is None:
        candidates = [_full(file.package, each.name) for file in files[-1:] for each in file.message_type]
        if len(candidates) != 1:
            raise BadOption(f"name the message, one of: {', '.join(candidates) or 'none in the last file'}")
        message = candidates[0]
    found = Files((*known, *(file.SerializeToString() for file in files)), message)
    message_class(found)
    return found


@lru_cache(CLASSES_MAX)
def message_class(wanted: Files) -> Any:
    """The class of the message, from a descriptor pool of its own."""
    pools = need("google.protobuf.descriptor_pool", extra="serializers")
    factory = need("google.protobuf.message_factory", extra="serializers")
    pool = pools.DescriptorPool()
    try:
        for file in wanted.files:
            pool.AddSerializedFile(file)
    except TypeError as error:
        raise BadOption(
            f"the schema lacks an imported file ({error}): create it with protoc --include_imports"
        ) from error
    try:
        return factory.GetMessageClass(pool.FindMessageTypeByName(wanted.message))
    except KeyError:
        raise BadOption(f"the schema has no message {wanted.message}") from None


def reason_against(reader: Any, writer: Any, place: str = "") -> str | None:
    """Why values of the writer's message cannot be read as the reader's; None if they can."""
    written = writer.fields_by_number
    for number, field in reader.fields_by_number.items():
        if number not in written:
            continue
        other, where = written[number], place + field.name
        if is_repeated(field) != is_repeated(other) or is_map(field) != is_map(other):
            return f"field {number} ({where}) became repeated, or is no longer repeated"
        if field.type in (MESSAGE, GROUP) and other.type == field.type:
            if field.message_type.full_name.startswith("google.protobuf."):
                continue  # these never change, and some are recursive
            inner = reason_against(field.message_type, other.message_type, f"{where}.")
            if inner is not None:
                return inner
        elif other.type != field.type and field.type not in READABLE_AS.get(other.type, ()):
            return f"field {number} ({where}) changed its type, and the old type cannot hold the new one"
    return None


def _read(given: str) -> bytes:
    stripped = given.strip()
    try:
        return base64.b64decode(stripped, validate=True)
    except (binascii.Error, ValueError):
        pass
    try:
        return Path(stripped.removeprefix("file://")).read_bytes()
    except OSError as error:
        shown = stripped if len(stripped) < 200 else f"{stripped[:200]}..."
        raise BadOption(
            f"{shown!r} is neither base64 nor a readable file ({error.strerror or error}): create it with protoc"
            " --include_imports --descriptor_set_out"
        ) from error


def _well_known(name: str) -> bytes:
    if not WELL_KNOWN.fullmatch(name):
        raise BadOption(f"the schema lacks the imported {name}: create it with protoc --include_imports")
    need(name.removesuffix(".proto").replace("/", ".") + "_pb2", extra="serializers")
    pools = need("google.protobuf.descriptor_pool", extra="serializers")
    data: bytes = pools.Default().FindFileByName(name).serialized_pb
    return data


def _full(package: str, name: str) -> str:
    return f"{package}.{name}" if package else name
