"""Where `penstock consume` begins, and how it shows a record. Reading itself is tested with a broker."""

from __future__ import annotations

import json

import pytest

from penstock.cli.consume import Start, Wish, make_printer, parse_start
from penstock.cli.failures import Misuse
from penstock.records.kernel import Message

MESSAGE = Message("orders", 2, 7, 1_700_000_000_123, key=b"k\x1b", value=b"v\xff", headers=(("h", b"1"),))


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", Start()),
        ("latest", Start(is_latest=True)),
        ("12", Start(offset=12)),
        ("-12", Start(before_end=12)),
        ("15m", Start(time_ms=2_000_000 - 900_000)),
        ("1970-01-01T00:00:01", Start(time_ms=1000)),
        ("1970-01-01T01:00:01+01:00", Start(time_ms=1000)),
    ],
)
def test_where_to_begin_can_be_said_in_many_ways(text: str, start: Start) -> None:
    assert parse_start(text, now_ms=2_000_000) == start


def test_what_is_no_place_to_begin_is_refused() -> None:
    with pytest.raises(Misuse, match="--from yesterday: must be earliest, latest, an offset"):
        parse_start("yesterday", now_ms=0)


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        (Wish(("t",), group="g", partitions=(1,)), "leave out --partition or --group"),
        (Wish(("t",), group="g", start="5"), "a group goes on where it is"),
        (Wish(("t",), start="never"), "--from never"),
    ],
)
def test_wishes_that_contradict_themselves_are_refused(wish: Wish, words: str) -> None:
    with pytest.raises(Misuse, match=words):
        wish.check()


def printed(**wish: str) -> bytes:
    return make_printer(Wish(("orders",), **wish))(MESSAGE)  # type: ignore[arg-type]


def test_a_row_cannot_move_the_cursor() -> None:
    assert printed() == (
        b"orders                    2           7  2023-11-14T22:13:20.123Z  k\\x1b"
        b"             v\\xff  [h=1]\n"
    )


def test_json_keeps_every_byte() -> None:
    assert json.loads(printed(format="json")) == {
        "topic": "orders",
        "partition": 2,
        "offset": 7,
        "timestamp": 1_700_000_000_123,
        "key": "k\x1b",
        "value": {"base64": "dv8="},
        "headers": [["h", "1"]],
    }


def test_raw_is_the_value_alone() -> None:
    assert printed(format="raw") == b"v\xff\n"
    assert printed(format="raw", separator="") == b"v\xff"
    assert printed(format="key-value") == b"k\x1b\tv\xff\n"


def test_a_template_is_filled() -> None:
    assert printed(template=r"{topic}-{partition}@{offset}\t{value}") == b"orders-2@7\tv\\xff\n"


@pytest.mark.parametrize("template", ["{nothing}", "{", "{0}"])
def test_a_template_that_cannot_be_filled_is_refused_before_anything_is_read(template: str) -> None:
    with pytest.raises(Misuse, match="braces may hold topic"):
        make_printer(Wish(("t",), template=template))
