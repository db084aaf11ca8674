"""Bytes written by hand from the rules of the protocol, for the interpreter and the compiled codecs."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.protocol import interpreter
from penstock.protocol.codec import codec
from penstock.protocol.declare import NEVER, field, message, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.plan import plan_message
from penstock.protocol.types import Bool, Float64, Int8, Int16, Int32, Int64, Records, UInt16, UInt32, Uuid

# Every message here is flexible from version 1 on.


@message(versions=(0, 1), flexible=1)
class Numbers:
    yes: Bool
    no: bool
    a: Int8
    b: Int16
    c: Int32
    d: Int64
    e: UInt16
    f: UInt32
    g: Float64
    error: ErrorCode
    id: Uuid


NUMBERS = Numbers(
    yes=True,
    no=False,
    a=-1,
    b=-2,
    c=3,
    d=-(2**63),
    e=65535,
    f=2**32 - 1,
    g=1.5,
    error=ErrorCode.UNKNOWN_SERVER_ERROR,
    id=Uuid(bytes(range(16))),
)
NUMBERS_BYTES = (
    "01 00 ff fffe 00000003 8000000000000000 ffff ffffffff 3ff8000000000000 ffff" + bytes(range(16)).hex()
)


@message(versions=(0, 1), flexible=1)
class Sized:
    text: str
    no_text: str | None
    blob: bytes
    no_blob: bytes | None
    records: Records | None
    no_records: Records | None
    stiff: str | None = field(default=None, flexible_since=NEVER)


SIZED = Sized(
    text="ä", no_text=None, blob=b"\x07", no_blob=None, records=b"\x08\x09", no_records=None, stiff="x"
)


@struct
class Pair:
    left: Int16 = 0
    right: Int16 = 0


@message(versions=(0, 1), flexible=1)
class Lists:
    numbers: list[Int32]
    texts: list[str]
    ids: list[Uuid]
    errors: list[ErrorCode]
    pairs: list[Pair]
    nothing: list[Int8] | None


LISTS = Lists(
    numbers=[1, -1],
    texts=["a", ""],
    ids=[Uuid(b"i" * 16)],
    errors=[ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE],
    pairs=[Pair(left=1, right=2)],
    nothing=None,
)


@message(versions=(0, 1), flexible=1)
class Nests:
    pair: Pair
    perhaps: Pair | None
    never: Pair | None


NESTS = Nests(pair=Pair(left=1), perhaps=Pair(right=2), never=None)


@message(versions=(1, 1), flexible=1)
class Tagged:
    first: Int8
    far: Int8 = field(since=1, default=0, tag=200)
    number: Int32 = field(since=1, default=-1, tag=0)
    text: str | None = field(since=1, default="-", tag=1)
    pair: Pair = field(since=1, default=Pair(), tag=2)
    perhaps: Pair | None = field(since=1, default=None, tag=3)


@message(versions=(0, 0))
class Empty:
    pass


CASES: list[tuple[Any, int, str]] = [
    (NUMBERS, 0, NUMBERS_BYTES),
    (NUMBERS, 1, NUMBERS_BYTES + "00"),
    (SIZED, 0, "0002 c3a4  ffff  00000001 07  ffffffff  00000002 0809  ffffffff  0001 78"),
    (SIZED, 1, "03 c3a4  00  02 07  00  03 0809  00  0001 78  00"),
    (
        LISTS,
        0,
        "00000002 00000001 ffffffff  00000002 0001 61 0000  00000001" + "69" * 16 + "00000002 0000 0001"
        "00000001 0001 0002  ffffffff",
    ),
    (
        LISTS,
        1,
        "03 00000001 ffffffff  03 02 61 01  02" + "69" * 16 + "03 0000 0001  02 0001 0002 00  00  00",
    ),
    (NESTS, 0, "0001 0000  01 0000 0002  ff"),
    (NESTS, 1, "0001 0000 00  01 0000 0002 00  ff  00"),
    (Tagged(first=1), 1, "01 00"),
    (Tagged(first=1, number=2), 1, "01  01  00 04 00000002"),
    (
        Tagged(first=1, far=9, text=None, pair=Pair(right=1), perhaps=Pair()),
        1,
        "01  04  01 01 00  02 05 0000 0001 00  03 06 01 0000 0000 00  c801 01 09",
    ),
    (Empty(), 0, ""),
]


@pytest.mark.parametrize(("value", "version", "expected"), CASES)
def test_a_message_has_exactly_these_bytes(value: Any, version: int, expected: str) -> None:
    data = bytes.fromhex(expected)
    plan = plan_message(type(value), version)
    compiled = codec(type(value), version)

    assert interpreter.encode(plan, value).hex(" ") == data.hex(" ")
    assert compiled.encode(value).hex(" ") == data.hex(" ")
    assert interpreter.decode(plan, data) == (value, len(data))
    assert compiled.decode(data) == (value, len(data))


def test_decoding_starts_and_ends_anywhere() -> None:
    data = b"before" + bytes.fromhex("0001 0000  ff  ff") + b"behind"

    for decode in (lambda d, p: interpreter.decode(plan_message(Nests, 0), d, p), codec(Nests, 0).decode):
        assert decode(data, 6) == (Nests(pair=Pair(left=1), perhaps=None, never=None), 12)


def test_unknown_tags_are_skipped_and_the_last_of_two_equal_tags_counts() -> None:
    data = bytes.fromhex("01  04  00 04 00000002  63 02 abcd  00 04 00000003  e807 00")

    for decode in (lambda d: interpreter.decode(plan_message(Tagged, 1), d), codec(Tagged, 1).decode):
        assert decode(data) == (Tagged(first=1, number=3), len(data))


def test_an_unknown_error_code_is_an_unknown_server_error() -> None:
    data = bytes.fromhex("00000000 00000000 00000000 00000001 7fff 00000000 ffffffff")

    for decode in (lambda d: interpreter.decode(plan_message(Lists, 0), d), codec(Lists, 0).decode):
        message, _ = decode(data)
        assert message.errors == [ErrorCode.UNKNOWN_SERVER_ERROR]
