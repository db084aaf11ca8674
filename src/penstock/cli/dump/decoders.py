"""Decoders of keys and values.

A decoder returns the text of key and value, or None for null. For internal topics the text is JSON as Kafka's own
tools print it; for an unreadable record it is the error.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from struct import Struct
from struct import error as StructError
from typing import Any, NamedTuple, Protocol

from penstock.cli.dump.json_form import PlainMessage, compact_json, to_plain
from penstock.protocol.codec import codec
from penstock.protocol.declare import declaration_of
from penstock.protocol.errors import MalformedMessage
from penstock.records.batch import Record
from penstock.records.control import ControlType, read_control_type, read_end_transaction
from penstock.records.errors import RecordsError

_NUMBER = Struct(">h")
_CONSUMER_PROTOCOL = "consumer"


class Shown(NamedTuple):
    key: str | None
    value: str | None


class Decoder(Protocol):
    def __call__(self, record: Record) -> Shown: ...


# -- anything


def text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def integer(data: bytes) -> str:
    return (
        str(int.from_bytes(data, "big", signed=True)) if len(data) == 4 else f"not an integer: {data.hex()}"
    )


def long(data: bytes) -> str:
    return str(int.from_bytes(data, "big", signed=True)) if len(data) == 8 else f"not a long: {data.hex()}"


# By the class name of Kafka's decoders, without the package.
FORMATS: dict[str, Callable[[bytes], str]] = {
    "StringDecoder": text,
    "IntegerDecoder": integer,
    "LongDecoder": long,
    "DefaultDecoder": bytes.hex,
}


def plain_decoder(
    show_key: Callable[[bytes], str] = text, show_value: Callable[[bytes], str] = text
) -> Decoder:
    def decode(record: Record) -> Shown:
        return Shown(
            None if record.key is None else show_key(bytes(record.key)),
            None if record.value is None else show_value(bytes(record.value)),
        )

    return decode


# -- the internal topics


def offsets_decoder() -> Decoder:
    """Of `__consumer_offsets`."""
    from penstock.coordinator.group.records import TYPES

    return _coordinator_decoder(TYPES, reshape=_open_subscriptions)


def transactions_decoder() -> Decoder:
    """Of `__transaction_state`."""
    from penstock.coordinator.txn.records import TYPES

    return _coordinator_decoder(TYPES)


def metadata_decoder() -> Decoder:
    """Of `__cluster_metadata`."""
    from penstock.metadata.errors import CorruptMetadata
    from penstock.metadata.framing import decode_versioned

    def decode(record: Record) -> Shown:
        value = bytes(record.value or b"")
        try:
            message, version = decode_versioned(value)
        except CorruptMetadata as problem:
            return Shown(None, f"Error at {record.offset}, skipping. {problem}")
        shown = {
            "type": _upper_snake(type(message).__name__),
            "version": version,
            "data": to_plain(message, version),
        }
        return Shown(None, compact_json(shown))

    return decode


def decoder_for(path: str) -> Decoder:
    """By the topic in the path of the file."""
    folder = os.path.basename(os.path.dirname(os.path.abspath(path)))
    topic = folder.rpartition("-")[0]
    made = BY_TOPIC.get(topic)
    return plain_decoder() if made is None else made()


BY_TOPIC: dict[str, Callable[[], Decoder]] = {
    "__consumer_offsets": offsets_decoder,
    "__transaction_state": transactions_decoder,
    "__cluster_metadata": metadata_decoder,
}


def _coordinator_decoder(
    types: tuple[tuple[type[Any], type[Any]], ...],
    reshape: Callable[[Any, PlainMessage], None] = lambda message, plain: None,
) -> Decoder:
    pairs: Mapping[int | None, tuple[type[Any], type[Any]]] = {
        declaration_of(key).key: (key, value) for key, value in types
    }

    def decode(record: Record) -> Shown:
        if record.key is None:
            return Shown("<null>", None)
        try:
            number = _NUMBER.unpack_from(record.key)[0]
            if number not in pairs:
                raise MalformedMessage(f"unknown record type {number}")
            key_type, value_type = pairs[number]
            key, _ = codec(key_type, 0).decode(memoryview(record.key), _NUMBER.size)
            shown_key = compact_json({"type": str(number), "data": to_plain(key, 0)})
            if record.value is None:
                return Shown(shown_key, "<DELETE>")
            version = _NUMBER.unpack_from(record.value)[0]
            if version not in declaration_of(value_type).versions:
                raise MalformedMessage(f"{value_type.__name__} has no version {version}")
            value, _ = codec(value_type, version).decode(memoryview(record.value), _NUMBER.size)
            plain = to_plain(value, version)
            reshape(value, plain)
            return Shown(shown_key, compact_json({"version": str(version), "data": plain}))
        except (MalformedMessage, StructError) as problem:
            return Shown(f"Error at offset {record.offset}, skipping. {problem}", None)

    return decode


def _open_subscriptions(value: Any, plain: PlainMessage) -> None:
    """Decode the subscription and the assignment of the members of a consumer group."""
    from penstock.protocol.messages.consumer_protocol import (
        ConsumerProtocolAssignment,
        ConsumerProtocolSubscription,
    )

    members = plain.get("members")
    if getattr(value, "protocol_type", None) != _CONSUMER_PROTOCOL or not isinstance(members, list):
        return
    for member, shown in zip(value.members, members, strict=True):
        assert isinstance(shown, dict)
        for name, cls in (
            ("subscription", ConsumerProtocolSubscription),
            ("assignment", ConsumerProtocolAssignment),
        ):
            opened = _open(bytes(getattr(member, name) or b""), cls)
            if opened is not None:
                shown[name] = opened


def _open(data: bytes, cls: type[Any]) -> PlainMessage | None:
    try:
        version = _NUMBER.unpack_from(data)[0]
        # A newer version begins like the newest known one.
        known = min(version, declaration_of(cls).last_version)
        message, _ = codec(cls, known).decode(memoryview(data), _NUMBER.size)
        return to_plain(message, known)
    except (MalformedMessage, StructError, ValueError):
        return None


# -- control records


def describe_control(record: Record) -> str:
    """A control record as Kafka's tool prints it."""
    from penstock.protocol.messages.control_records import (
        KRaftVersionRecord,
        LeaderChangeMessage,
        VotersRecord,
    )

    try:
        kind = read_control_type(record)
        if kind in (ControlType.ABORT, ControlType.COMMIT):
            marker = read_end_transaction(record)
            assert marker is not None
            return f"endTxnMarker: {kind.name} coordinatorEpoch: {marker.coordinator_epoch}"
        value = memoryview(record.value or b"")
        match kind:
            case ControlType.LEADER_CHANGE:
                return f"LeaderChange: {_message(LeaderChangeMessage, value)}"
            case ControlType.KRAFT_VERSION:
                return f"KRaftVersion {_message(KRaftVersionRecord, value)}"
            case ControlType.KRAFT_VOTERS:
                return f"KRaftVoters {_message(VotersRecord, value)}"
            case None:
                return "controlType: UNKNOWN(-1)"
            case _:
                return f"controlType: {kind.name}({kind.value})"
    except (RecordsError, MalformedMessage, StructError) as problem:
        return f"Error at offset {record.offset}, skipping. {problem}"


def _message(cls: type[Any], value: memoryview) -> str:
    """The version is the first field of these messages."""
    version = min(_NUMBER.unpack_from(value)[0], declaration_of(cls).last_version)
    message, _ = codec(cls, version).decode(value, 0)
    return compact_json(to_plain(message, version))


def _upper_snake(name: str) -> str:
    """`TopicRecord` as `TOPIC_RECORD`."""
    return "".join(
        f"_{character}" if character.isupper() and index else character
        for index, character in enumerate(name)
    ).upper()
