"""The reference's variable-length integers, at the limits of their ranges; the kernel is compared with it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.records.varint import append_varint, read_varint, read_varlong, wrap_int64
from penstock.records.errors import InvalidBatch


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1))
def test_numbers_are_read_back(small: int, large: int) -> None:
    out = bytearray()
    append_varint(out, small)
    append_varint(out, large)

    value, at = read_varint(out, 0, len(out))
    assert value == small
    assert read_varlong(out, at, len(out)) == (large, len(out))


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (64, "8001"), (-64, "7f"), (2**31 - 1, "feffffff0f")],
)
def test_numbers_are_written_as_kafka_writes_them(value: int, encoded: str) -> None:
    out = bytearray()
    append_varint(out, value)

    assert out.hex() == encoded


def test_a_number_is_not_read_past_the_end() -> None:
    with pytest.raises(InvalidBatch, match="cut off"):
        read_varint(b"\x80\x01", 0, 1)


@pytest.mark.parametrize(("read", "size"), [(read_varint, 5), (read_varlong, 10)])
def test_an_unterminated_number_is_refused(read: object, size: int) -> None:
    assert callable(read)
    with pytest.raises(InvalidBatch, match="too long"):
        read(b"\x80" * 20, 0, 20)
    assert read(b"\x80" * (size - 1) + b"\x00", 0, 20) == (0, size)


def test_sums_wrap_as_they_do_in_64_bits() -> None:
    assert wrap_int64(2**63) == -(2**63)
    assert wrap_int64(-(2**63) - 1) == 2**63 - 1
    assert wrap_int64(-5) == -5
