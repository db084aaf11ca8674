"""The header of a value: the schema's id, and the place of a message in its schema."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.serializers.framing import INDEXES_MAX, head, read_head, read_indexes, write_indexes


def test_a_header_is_a_zero_and_the_id() -> None:
    assert head(258) == b"\0\0\0\1\2"
    assert read_head(b"\0\0\0\1\2rest") == 258


@pytest.mark.parametrize("data", [b"", b"\0\0\0\1", b"\1\0\0\0\1", b'{"a":1}'])
def test_other_bytes_are_rejected(data: bytes) -> None:
    with pytest.raises(ValueError):
        read_head(data)


@pytest.mark.parametrize(
    ("path", "data"),
    [([0], b"\0"), ([1], b"\2\2"), ([1, 0], b"\4\2\0"), ([0, 0], b"\4\0\0"), ([100], b"\2\xc8\1")],
)
def test_a_path_is_zigzag_varints_and_the_first_message_one_byte(path: list[int], data: bytes) -> None:
    assert write_indexes(path) == data
    assert read_indexes(b"head" + data + b"tail", 4) == (path, 4 + len(data))


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=INDEXES_MAX))
def test_every_path_round_trips(path: list[int]) -> None:
    data = write_indexes(path)

    assert read_indexes(data, 0) == (path, len(data))


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 6, b"\4\2", b"\1", b"\xfe\xff\xff\xff\x0f"])
def test_an_invalid_path_is_rejected(data: bytes) -> None:
    with pytest.raises(ValueError):
        read_indexes(data, 0)
