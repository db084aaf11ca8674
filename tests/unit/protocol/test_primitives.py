from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.protocol.errors import MalformedMessage, UnencodableValue
from penstock.protocol.primitives import ONE_BYTE_VARINTS, join_parts, read_varint, skip_tagged, varint


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (16383, "ff7f"), (2**32 - 1, "ffffffff0f")],
)
def test_a_varint_has_seven_bits_a_byte_low_bits_first(value: int, encoded: str) -> None:
    assert varint(value).hex() == encoded
    assert read_varint(memoryview(bytes.fromhex("ff" + encoded)), 1) == (value, 1 + len(encoded) // 2)


@given(st.integers(0, 2**32 - 1))
def test_a_varint_is_read_back(value: int) -> None:
    encoded = varint(value)
    assert read_varint(memoryview(encoded), 0) == (value, len(encoded))


@pytest.mark.parametrize("encoded", ["ffffffffff01", "8080808080", "ffffffff10", "ffffffff7f"])
def test_a_varint_beyond_32_bits_is_malformed(encoded: str) -> None:
    with pytest.raises(MalformedMessage, match="does not fit in 32 bits"):
        read_varint(memoryview(bytes.fromhex(encoded)), 0)


@pytest.mark.parametrize("value", [-1, 2**32])
def test_a_varint_takes_only_32_bits(value: int) -> None:
    with pytest.raises(UnencodableValue):
        varint(value)


def test_the_table_agrees_with_the_encoder() -> None:
    assert [varint(value) for value in range(128)] == ONE_BYTE_VARINTS


def test_unknown_tagged_fields_are_skipped() -> None:
    section = bytes.fromhex("020503aabbcc810100")  # tags 5 and 129

    assert skip_tagged(memoryview(section + b"rest"), 0) == len(section)
    with pytest.raises(MalformedMessage, match="3 bytes does not fit"):
        skip_tagged(memoryview(section[:5]), 0)


def test_parts_in_memory_are_joined_and_others_are_not() -> None:
    class Elsewhere:
        def __len__(self) -> int:
            return 5

    assert join_parts([b"a", bytearray(b"b"), memoryview(b"c")]) == b"abc"
    with pytest.raises(UnencodableValue, match="not in memory"):
        join_parts([b"a", Elsewhere()])  # type: ignore[list-item]
