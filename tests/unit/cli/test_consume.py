"""Where `penstock consume` begins, and how it shows a record. Reading itself is tested with a broker."""

from __future__ import annotations

import json

import pytest

from penstock.cli import consume
from penstock.cli.consume import ConsumeOptions, Start, parse_start
from penstock.cli.failures import Misuse, Refusal
from penstock.cli.records.printers import RecordStyle, make_printer
from penstock.client.cluster import TopicPartition
from penstock.client.errors import NoBrokersAvailable
from penstock.records.consuming import Message

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
def test_the_start_can_be_given_in_many_ways(text: str, start: Start) -> None:
    assert parse_start(text, now_ms=2_000_000) == start


def test_an_invalid_start_is_rejected() -> None:
    with pytest.raises(Misuse, match="--from yesterday: must be earliest, latest, an offset"):
        parse_start("yesterday", now_ms=0)


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        (ConsumeOptions(("t",), group="g", partitions=(1,)), "give --partition or --group"),
        (ConsumeOptions(("t",), group="g", start="5"), "with --group, --from must be"),
        (ConsumeOptions(("t",), start="never"), "--from never"),
    ],
)
def test_contradicting_options_are_rejected(wish: ConsumeOptions, words: str) -> None:
    with pytest.raises(Misuse, match=words):
        wish.check()


def printed(**look: str) -> bytes:
    return make_printer(RecordStyle(**look), {})(MESSAGE)  # type: ignore[arg-type]


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
def test_an_invalid_template_is_rejected_before_anything_is_read(template: str) -> None:
    with pytest.raises(Misuse, match="the names are topic"):
        make_printer(RecordStyle(template=template), {})


SERVERS = {"bootstrap.servers": "localhost:9092"}
COUNTED = Message("counts", 0, 3, 1_700_000_000_123, key=b"alice", value=(42).to_bytes(8, "big"), headers=())


@pytest.mark.parametrize(
    ("look", "expected"),
    [
        (RecordStyle(template="{key}={value}", value_format="long"), b"alice=42\n"),
        (RecordStyle(format="raw", value_format="hex"), b"000000000000002a\n"),
        (
            RecordStyle(format="raw", value_format="org.apache.kafka.common.serialization.LongDeserializer"),
            b"42\n",
        ),
        (RecordStyle(format="key-value", key_separator=": ", value_format="int64"), b"alice: 42\n"),
        (RecordStyle(format="key-value", key_format="base64", value_format="long"), b"YWxpY2U=\t42\n"),
    ],
)
def test_a_number_is_shown_as_a_number(look: RecordStyle, expected: bytes) -> None:
    assert make_printer(look, SERVERS)(COUNTED) == expected


def test_a_number_is_a_number_in_json() -> None:
    line = make_printer(RecordStyle(format="json", value_format="long"), SERVERS)(COUNTED)

    assert json.loads(line)["value"] == 42


def test_a_value_without_the_format_is_one_sentence_and_not_a_traceback() -> None:
    print_record = make_printer(RecordStyle(value_format="integer"), SERVERS)

    with pytest.raises(
        Refusal,
        match=r"counts-0, offset 3: the value is not integer: it has 8 bytes, but integer has 4; choose another --val",
    ):
        print_record(COUNTED)


def test_a_format_that_does_not_exist_is_rejected_before_anything_is_read() -> None:
    with pytest.raises(Misuse, match="--value-format lomg: unknown; choose one of string, json, long"):
        make_printer(RecordStyle(value_format="lomg"), SERVERS)


class AwayConsumer:
    """A consumer whose broker is away: nothing comes, and every question fails."""

    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset({TopicPartition("orders", 0)})

    def positions(self) -> dict[TopicPartition, int]:
        return {TopicPartition("orders", 0): 3}

    def end_offsets(self, partitions: object) -> dict[TopicPartition, int]:
        raise NoBrokersAvailable


@pytest.mark.parametrize("ends", [None, {("orders", 0): 10}], ids=["group", "partitions"])
def test_a_broker_that_goes_away_is_not_taken_for_the_end_of_the_topic(
    ends: dict[tuple[str, int], int] | None,
) -> None:
    wish = ConsumeOptions(topics=("orders",))

    with pytest.raises(NoBrokersAvailable):
        consume._is_at_end(AwayConsumer(), ends, wish, quiet_ms=60_000)  # type: ignore[arg-type]


def test_following_waits_for_the_broker_to_come_back() -> None:
    wish = ConsumeOptions(topics=("orders",), follows=True)

    assert not consume._is_at_end(AwayConsumer(), None, wish, quiet_ms=600_000)  # type: ignore[arg-type]
