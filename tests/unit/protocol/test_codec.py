from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from penstock.protocol import interpreter
from penstock.protocol.codec import codec
from penstock.protocol.declare import field, message, struct
from penstock.protocol.errors import MalformedMessage, UnencodableValue, UnsupportedField
from penstock.protocol.plan import plan_message
from penstock.protocol.primitives import SPLICE_BYTES, varint
from penstock.protocol.types import Int8, Int16, Int32, Int64, Records, Uuid


@struct
class Batch:
    partition: Int32
    records: Records | None


@message(versions=(0, 1), flexible=1)
class Load:
    batches: list[Batch]


@struct
class Leader:
    node_id: Int32 = -1


@message(versions=(0, 3), flexible=3)
class Changing:
    text: str | None = field(default="", nullable_since=2)
    number: Int32 = field(since=1, default=-1)
    trifle: Int32 = field(since=1, default=-1, ignorable=True)
    leader: Leader = field(since=1, default=Leader())
    numbers: list[Int64] = field(since=1, default=[])
    id: Uuid = field(since=1, default=Uuid(bytes(16)))
    old: Int8 = field(until=1, default=0)


@message(versions=(0, 0), flexible=0)
class Growing:
    number: Int8
    text: str
    blob: bytes
    numbers: list[Int8]


@message(versions=(0, 0), flexible=0)
class Tagging:
    number: Int8
    numbers: list[Int8]
    tagged: Int16 = field(default=0, tag=0)


class Elsewhere:
    """Records that are not in memory: only their size is known."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size


def both(cls: type[Any], version: int) -> list[Any]:
    """The compiled encoder and the interpreter's."""
    plan = plan_message(cls, version)
    return [
        codec(cls, version).encode_parts,
        lambda message, head=b"": interpreter.encode_parts(plan, message, head),
    ]


def test_a_codec_is_created_once() -> None:
    assert codec(Load, 0) is codec(Load, 0)
    assert codec(Load, 0) is not codec(Load, 1)
    with pytest.raises(ValueError, match="not 2"):
        codec(Load, 2)


def test_decoded_records_are_a_view_of_the_request() -> None:
    data = bytearray(codec(Load, 1).encode(Load(batches=[Batch(partition=1, records=b"abcdef")])))

    load, _ = codec(Load, 1).decode(memoryview(data))
    records = load.batches[0].records
    data[data.index(b"a")] = ord("A")

    assert isinstance(records, memoryview)
    assert records == b"Abcdef"
    assert not records.readonly


def test_a_message_without_sources_is_one_buffer_after_its_head() -> None:
    load = Load(batches=[Batch(partition=1, records=b"abc"), Batch(partition=2, records=None)])
    for encode_parts in both(Load, 1):
        assert encode_parts(load, b"head") == [
            bytes.fromhex("68656164 03 00000001 04 616263 00 00000002 00 00 00")
        ]


def test_records_that_are_not_in_memory_become_a_part_of_their_own() -> None:
    first, second = Elsewhere(5), Elsewhere(70_000)
    load = Load(batches=[Batch(partition=1, records=first), Batch(partition=2, records=second)])
    for encode_parts in both(Load, 0):
        parts = encode_parts(load, b"head")
        assert parts == [
            bytes.fromhex("68656164 00000002 00000001 00000005"),
            first,
            bytes.fromhex("00000002 00011170"),
            second,
        ]
    for encode_parts in both(Load, 1):
        parts = encode_parts(load)
        assert parts == [
            bytes.fromhex("03 00000001 06"),
            first,
            bytes.fromhex("00 00000002 f1a204"),
            second,
            bytes.fromhex("00 00"),
        ]


def test_only_large_records_in_memory_become_a_part_of_their_own() -> None:
    small, large = bytes(SPLICE_BYTES - 1), bytes(SPLICE_BYTES)
    for encode_parts in both(Load, 0):
        assert len(encode_parts(Load(batches=[Batch(partition=1, records=small)]))) == 1
        parts = encode_parts(Load(batches=[Batch(partition=1, records=large)]))
        assert len(parts) == 2
        assert parts[1] is large


def test_an_empty_source_adds_no_part() -> None:
    for encode_parts in both(Load, 0):
        assert encode_parts(Load(batches=[Batch(partition=1, records=Elsewhere(0))])) == [
            bytes.fromhex("00000001 00000001 00000000")
        ]


def test_records_that_are_not_in_memory_cannot_be_encoded_to_bytes() -> None:
    with pytest.raises(UnencodableValue, match="not in memory"):
        codec(Load, 0).encode(Load(batches=[Batch(partition=1, records=Elsewhere(5))]))


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"number": 1}, "number"),
        ({"leader": Leader(node_id=3)}, "leader"),
        ({"numbers": [1]}, "numbers"),
        ({"id": Uuid(b"i" * 16)}, "id"),
    ],
)
def test_a_field_that_the_version_lacks_is_not_dropped_silently(change: Any, name: str) -> None:
    for encode_parts in both(Changing, 0):
        with pytest.raises(UnsupportedField, match=f"Changing version 0 has no {name}"):
            encode_parts(Changing(**change))
    for encode_parts in both(Changing, 2):
        with pytest.raises(UnsupportedField, match="Changing version 2 has no old"):
            encode_parts(Changing(old=1))


def test_an_ignorable_field_is_dropped() -> None:
    for encode_parts in both(Changing, 0):
        assert encode_parts(Changing(text="a", trifle=7)) == [b"\x00\x01a\x00"]


def test_null_is_refused_by_versions_without_it() -> None:
    for encode_parts in both(Changing, 1):
        with pytest.raises(UnsupportedField, match=r"Changing\.text cannot be null in version 1"):
            encode_parts(Changing(text=None))
    with pytest.raises(MalformedMessage, match="text"):
        codec(Changing, 1).decode(b"\xff\xff" + bytes(64))


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    "change",
    [
        {"number": 2**31},
        {"number": None},
        {"number": "1"},
        {"text": "x" * 32768},
        {"text": "\ud800"},
        {"text": 5},
        {"numbers": [2**63]},
        {"numbers": 7},
        {"leader": 7},
        {"id": Uuid(b"short")},
    ],
)
def test_a_value_that_does_not_fit_is_named(change: Any, version: int) -> None:
    for encode_parts in both(Changing, version):
        with pytest.raises((UnencodableValue, UnsupportedField)):
            encode_parts(Changing(**change))


def test_the_longest_string_is_that_of_kafka() -> None:
    longest = Changing(text="x" * 32767)
    for version in (2, 3):
        data = codec(Changing, version).encode(longest)
        assert codec(Changing, version).decode(data) == (longest, len(data))
    too_long = b"\x81\x80\x02" + b"x" * 32768 + bytes(64)
    with pytest.raises(MalformedMessage, match="too long"):
        codec(Changing, 3).decode(too_long)


@pytest.mark.parametrize("size", [0, 126, 127, 128, 16382, 16383, 16384])
def test_compact_lengths_grow_by_a_byte_at_every_seven_bits(size: int) -> None:
    growing = Growing(number=1, text="x" * size, blob=b"y" * size, numbers=[1] * size)
    length = varint(size + 1)
    expected = b"\x01" + length + b"x" * size + length + b"y" * size + length + b"\x01" * size + b"\x00"

    for encode_parts in both(Growing, 0):
        assert encode_parts(growing) == [expected]
    assert codec(Growing, 0).decode(expected) == (growing, len(expected))


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ("01 02 01  01  05 03 0000", "a tagged field"),  # an unknown tag, longer than the message
        ("01 02 01  01  00 03 0000", "a tagged field"),
        ("01 02 01  01  00 04 00000000", "tagged"),  # a known tag, longer than its value
        ("01 02 01  01  00 01 0000", "tagged"),
    ],
)
def test_the_size_of_a_tagged_field_must_be_correct(data: str, complaint: str) -> None:
    padded = bytes.fromhex(data)
    with pytest.raises(MalformedMessage, match=complaint):
        codec(Tagging, 0).decode(padded)
    with pytest.raises(MalformedMessage):
        interpreter.decode(plan_message(Tagging, 0), padded)


def test_a_count_is_refused_before_its_first_element_is_read() -> None:
    one_too_many = bytes.fromhex("00000003") + bytes(8) * 2

    with pytest.raises(MalformedMessage, match="the size of batches does not fit"):
        codec(Load, 0).decode(one_too_many)


@pytest.mark.parametrize(
    ("version", "data"),
    [
        (0, "7fffffff"),
        (0, "00000002 00000001 ffffffff"),
        (0, "ffffffff"),
        (0, "00000001 00000001 7fffffff"),
        (0, "00000001 00000001 00000002 00"),
        (1, "ffffffff0f"),
        (1, "ffffffffff0f"),
        (1, "00"),
        (1, "02 00000001 ffffffff0f"),
        (1, "02 00000001 00 01 00"),
        (1, "02 00000001 00 00 ffffffff0f"),
        (1, "02 00000001 00 01 05 ffffffff0f"),
        (1, ""),
    ],
)
def test_wrong_lengths_are_malformed(version: int, data: str) -> None:
    for decode in (
        codec(Load, version).decode,
        lambda data: interpreter.decode(plan_message(Load, version), data),
    ):
        with pytest.raises(MalformedMessage):
            decode(bytes.fromhex(data))


def test_no_memory_is_allocated_for_an_impossible_count() -> None:
    data = bytes.fromhex("7fffffff") + bytes(1000)
    decode = codec(Load, 0).decode
    tracemalloc.start()
    with pytest.raises(MalformedMessage):
        decode(data)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak_bytes < 100_000


def test_text_that_is_not_utf_8_is_malformed() -> None:
    with pytest.raises(MalformedMessage, match="utf-8"):
        codec(Changing, 0).decode(b"\x00\x01\xff\x00")


def test_a_null_struct_among_tagged_fields_is_read_by_kafka() -> None:
    """Kafka writes 0 for it and not -1 as elsewhere; its tools could not read group members in our logs."""
    from penstock.coordinator.group.records.consumer import (
        ClassicMemberMetadata,
        ConsumerGroupMemberMetadataValue,
    )

    member = ConsumerGroupMemberMetadataValue(
        instance_id=None,
        rack_id=None,
        client_id="c",
        client_host="/h",
        subscribed_topic_names=["t"],
        subscribed_topic_regex="",
        rebalance_timeout_ms=1,
        server_assignor=None,
        classic_member_metadata=None,
    )
    member_codec = codec(ConsumerGroupMemberMetadataValue, 0)
    # As Apache Kafka 4.3.1 wrote it: one tagged field, tag 0, one byte, null.
    from_kafka = bytes.fromhex("00 00 02 63 03 2f 68 02 02 74 01 00 00 00 01 00 01 00 01 00")
    of_old = from_kafka[:-1] + b"\xff"

    assert member_codec.encode(member) == from_kafka
    assert member_codec.decode(memoryview(from_kafka))[0] == member
    assert member_codec.decode(memoryview(of_old))[0] == member, (
        "logs that were written with -1 can be read still"
    )
    member.classic_member_metadata = ClassicMemberMetadata(session_timeout_ms=5, supported_protocols=[])
    assert member_codec.decode(memoryview(member_codec.encode(member)))[0] == member
