"""kio, another Python implementation of the protocol, reads what we write, and the other way round.

Values are compared by field name, so swapped fields are detected. kio has the versions of Kafka 4; `test_against_java`
covers the older ones too.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import io
import uuid
from pkgutil import resolve_name
from typing import Any

import pytest
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer

from oracle.catalogue import declared_messages
from oracle.samples import sample
from penstock.protocol.codec import codec
from penstock.protocol.declare import declaration_of
from penstock.protocol.types import ZERO_UUID

SEEDS = range(3)

TIMESTAMP_MAX = 2**40  # kio reads timestamps as datetimes, which end with the year 9999

MESSAGES = declared_messages()

UTC_START = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def _paths_in_kio() -> dict[tuple[str, int], str]:
    """Messages and versions that kio has."""
    paths = [
        (version, path)
        for versions in schema_name_map.values()
        for version, kinds in versions.items()
        for path in kinds.values()
    ]
    return {(path.rpartition(":")[2], version): path for version, path in paths}


KIO = _paths_in_kio()


def test_kio_has_most_of_our_messages() -> None:
    ours = {(cls.__name__, version) for cls in MESSAGES.values() for version in declaration_of(cls).versions}

    assert len(ours & set(KIO)) > 550


@pytest.mark.parametrize("name", sorted({name for name, _ in KIO} & set(MESSAGES)))
def test_kio_and_we_agree(name: str) -> None:
    cls = MESSAGES[name]
    for version in declaration_of(cls).versions:
        if (name, version) not in KIO:
            continue
        theirs = resolve_name(KIO[name, version])
        for seed in SEEDS:
            message = sample(cls, version, seed, least=0, greatest=TIMESTAMP_MAX)
            said = f"sample({name}, {version}, {seed})"

            data = codec(cls, version).encode(message)
            read, size = entity_reader(theirs)(data, 0)
            assert size == len(data), said
            _compare(message, read, said)

            written = io.BytesIO()
            entity_writer(theirs)(written, read)
            assert written.getvalue() == data, said
            assert codec(cls, version).decode(written.getvalue()) == (message, len(data)), said


def _compare(ours: Any, theirs: Any, path: str) -> None:
    if dataclasses.is_dataclass(theirs):
        for field in dataclasses.fields(theirs):
            name = _our_name(field.name, ours)
            _compare(getattr(ours, name), getattr(theirs, field.name), f"{path}.{name}")
    elif isinstance(theirs, tuple):
        assert len(ours) == len(theirs), path
        for index, (our, their) in enumerate(zip(ours, theirs, strict=True)):
            _compare(our, their, f"{path}[{index}]")
    else:
        assert ours == _plain(theirs, ours), path


def _our_name(name: str, ours: Any) -> str:
    """kio has its own type for durations and drops the unit from their names; it renames `type` and `id`."""
    name = name.replace("enable2_pc", "enable_2pc").removesuffix("_")
    return name if name in declaration_of(type(ours)).fields else f"{name}_ms"


def _plain(value: Any, ours: Any) -> Any:
    match value:
        case datetime.timedelta():
            return value // datetime.timedelta(milliseconds=1)
        case datetime.datetime():
            return (value - UTC_START) // datetime.timedelta(milliseconds=1)
        case uuid.UUID():
            return value.bytes
        case enum.IntEnum():
            return int(value)
        case None if ours == ZERO_UUID:
            return ZERO_UUID
        case _:
            return value
