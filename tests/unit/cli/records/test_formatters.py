"""Records into lines, as Kafka's console consumer prints them."""

from __future__ import annotations

import json
import struct

import pytest

from penstock.cli.failures import Refusal
from penstock.cli.records.deserializers import find, show_double
from penstock.cli.records.formatters import make_formatter
from penstock.records.batch import TimestampType
from penstock.records.consuming import Message

MESSAGE = Message(
    "orders", 2, 7, 1234, key=b"k", value=b"v", headers=(("h", b"1"), ("n", None)), leader_epoch=3
)
BARE = Message("orders", 0, 8)


def formatted(message: Message = MESSAGE, name: str = "DefaultMessageFormatter", **properties: str) -> str:
    properties_by_name = {name.replace("_", "."): value for name, value in properties.items()}
    return make_formatter(name, properties_by_name, key_deserializer=None, value_deserializer=None)(
        message
    ).decode()


def test_the_value_alone_is_the_default() -> None:
    assert formatted() == "v\n"
    assert formatted(BARE) == "null\n"


def test_everything_can_be_printed() -> None:
    names = ("timestamp", "partition", "offset", "epoch", "headers", "key", "value", "delivery")
    wanted = {f"print_{name}": "true" for name in names}

    assert formatted(**wanted) == (
        "CreateTime:1234\tPartition:2\tOffset:7\tDelivery:NOT_PRESENT\tEpoch:3\th:1,n:null\tk\tv\n"
    )
    assert formatted(BARE, **wanted) == (
        "NO_TIMESTAMP\tPartition:0\tOffset:8\tDelivery:NOT_PRESENT\tEpoch:NOT_PRESENT\tNO_HEADERS\tnull\tnull\n"
    )


def test_separators_and_null_can_be_chosen() -> None:
    assert formatted(print_key="true", key_separator=" = ", line_separator="!\n") == "k = v!\n"
    assert formatted(BARE, null_literal="<none>") == "<none>\n"
    assert formatted(print_headers="true", print_value="false", headers_separator=";") == "h:1;n:null\n"
    assert formatted(print_value="false") == ""


def test_the_brokers_time_is_called_so() -> None:
    message = Message("t", 0, 0, 5, TimestampType.LOG_APPEND_TIME, value=b"v")

    assert formatted(message, print_timestamp="true") == "LogAppendTime:5\tv\n"


def test_values_are_read_by_deserializers() -> None:
    format_message = make_formatter(
        "x.DefaultMessageFormatter",
        {"print.key": "true"},
        key_deserializer="org.apache.kafka.common.serialization.StringDeserializer",
        value_deserializer="org.apache.kafka.common.serialization.LongDeserializer",
    )

    assert format_message(Message("t", 0, 0, key=b"count", value=struct.pack(">q", 42))) == b"count\t42\n"


def test_other_formatters() -> None:
    assert formatted(name="LoggingMessageFormatter") == "CreateTime:1234, key:k, value:v\n"
    assert formatted(name="NoOpMessageFormatter") == ""
    with pytest.raises(Refusal, match="unknown formatter MyFormatter"):
        formatted(name="MyFormatter")


def test_committed_offsets_are_shown_as_json() -> None:
    from penstock.coordinator.group.records import TYPES
    from penstock.coordinator.group.records.offsets import OffsetCommitKey, OffsetCommitValue
    from penstock.coordinator.result import CoordinatorRecord
    from penstock.coordinator.serde import RecordSerde

    key, value = RecordSerde(TYPES).encode(
        CoordinatorRecord(
            OffsetCommitKey(group="g", topic="t", partition=1),
            OffsetCommitValue(offset=5, metadata="", commit_timestamp=9),
        )
    )
    message = Message("__consumer_offsets", 0, 0, key=key, value=value)

    shown = json.loads(formatted(message, "OffsetsMessageFormatter"))

    assert shown["key"] == {"type": 1, "data": {"group": "g", "topic": "t", "partition": 1}}
    assert shown["value"]["data"]["offset"] == 5
    assert formatted(message, "GroupMetadataMessageFormatter") == ""
    deleted = Message("__consumer_offsets", 0, 1, key=key)
    assert json.loads(formatted(deleted, "OffsetsMessageFormatter"))["value"] is None


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        ("ShortDeserializer", b"\xff\xff", "-1"),
        ("IntegerDeserializer", b"\x00\x00\x01\x00", "256"),
        ("DoubleDeserializer", struct.pack(">d", 2.5), "2.5"),
        ("BooleanDeserializer", b"\x01", "true"),
        ("UUIDDeserializer", b"00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000001"),
        ("BytesDeserializer", b"a\\\x00", r"a\x5C\x00"),
        ("StringDeserializer", b"\xff", "\ufffd"),
    ],
)
def test_deserializers_print_like_java(name: str, data: bytes, text: str) -> None:
    assert find(f"org.apache.kafka.common.serialization.{name}")(data) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (100.0, "100.0"),
        (1e7, "1.0E7"),
        (1.5e-5, "1.5E-5"),
        (-123456789.0, "-1.23456789E8"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_doubles_are_spelled_as_in_java(number: float, text: str) -> None:
    assert show_double(number) == text


def test_bytes_of_the_wrong_size_are_rejected() -> None:
    with pytest.raises(Refusal, match="has 1 bytes, but a long has 8"):
        find("LongDeserializer")(b"1")
    with pytest.raises(Refusal, match="unknown deserializer My"):
        find("My")
