"""How bad rows are handled, and what a dead letter contains."""

from __future__ import annotations

import datetime
import pickle
from typing import Any

import pyarrow as pa
import pytest

from penstock.spark.columns import ARROW_TYPES
from penstock.spark.decoding.base import Bad
from penstock.spark.decoding.dead_letters import CONNECT, RecordPosition, letters_of, positions_in
from penstock.spark.decoding.poison import Decoding, decoders_of
from penstock.spark.errors import BadOption, PoisonRecord
from penstock.spark.options import Options, Use

AT = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
AT_MS = 1_704_067_200_000


def options(**said: str) -> Options:
    return Options.read({"kafka.bootstrap.servers": "x:1", "subscribe": "orders", **said}, Use.BATCH_READ)


def batch(*values: bytes | None, keys: list[bytes] | None = None) -> pa.RecordBatch:
    rows = len(values)
    columns: dict[str, list[Any]] = {
        "key": keys or [None] * rows,
        "value": list(values),
        "topic": ["orders"] * rows,
        "partition": [3] * rows,
        "offset": list(range(70, 70 + rows)),
        "timestamp": [AT] * rows,
        "headers": [[{"key": "trace", "value": b"1"}]] * rows,
    }
    return pa.RecordBatch.from_pydict(
        {name: pa.array(each, ARROW_TYPES[name]) for name, each in columns.items()}
    )


def decode(
    given: pa.RecordBatch, names: tuple[str, ...] = ("value", "offset"), **said: str
) -> pa.RecordBatch:
    read = options(**said)
    decoding = pickle.loads(pickle.dumps(Decoding(read, names, decoders_of(read))))
    assert set(decoding.needs) >= {*names, "topic", "partition", "offset"}
    (decoded,) = decoding(iter([given.select(decoding.needs)]))
    return decoded  # type: ignore[no-any-return]


def test_a_bad_row_fails_the_query_with_its_position_and_reason() -> None:
    with pytest.raises(PoisonRecord) as stopped:
        decode(batch(b"a", b"\xff", b"\xfe"), valueFormat="string")

    message = str(stopped.value)
    assert "cannot decode the value at offset 71 of orders-3" in message
    assert "invalid start byte" in message
    assert "1 more" in message


def test_a_bad_row_is_null_or_dropped() -> None:
    given = batch(b"a", b"\xff", None)

    assert decode(given, valueFormat="string", poison="null").to_pylist() == [
        {"value": "a", "offset": 70},
        {"value": None, "offset": 71},
        {"value": None, "offset": 72},
    ]
    assert decode(given, valueFormat="string", poison="drop").column("offset").to_pylist() == [70, 72]


def test_a_row_with_a_bad_key_and_a_bad_value_is_dropped_once() -> None:
    given = batch(b"\xff", b"b", keys=[b"\xff", b"k"])

    decoded = decode(given, ("key", "value"), keyFormat="string", valueFormat="string", poison="drop")

    assert decoded.to_pylist() == [{"key": "k", "value": "b"}]


def test_an_unselected_column_is_not_decoded() -> None:
    read = options(valueFormat="string")
    decoding = Decoding(read, ("offset",), decoders_of(read))

    assert decoding.needs == ("offset",)
    (decoded,) = decoding(iter([batch(b"\xff").select(["offset"])]))
    assert decoded.to_pylist() == [{"offset": 70}]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"poison": "deadLetter", "valueFormat": "string"}, "needs deadLetterTopic"),
        (
            {"poison": "drop", "deadLetterTopic": "dead", "valueFormat": "string"},
            "contradicts deadLetterTopic",
        ),
        ({"deadLetterTopic": "orders", "valueFormat": "string"}, "its own dead letters"),
        ({"deadLetterTopic": "dead"}, "needs a format"),
        ({"poison": "drop"}, "needs a format"),
    ],
)
def test_contradictory_options_are_rejected(said: dict[str, str], message: str) -> None:
    with pytest.raises(BadOption) as caught:
        decoders_of(options(**said))

    assert message in str(caught.value)


@pytest.mark.parametrize(
    "said", [{"subscribePattern": "orders.*"}, {"assign": '{"orders": [0], "orders-dead": [0]}'}]
)
def test_a_query_that_would_read_its_own_dead_letters_is_rejected(said: dict[str, str]) -> None:
    more = {"deadLetterTopic": "orders-dead", "valueFormat": "string"}
    read = Options.read({"kafka.bootstrap.servers": "x:1", **said, **more}, Use.BATCH_READ)

    with pytest.raises(BadOption, match="its own dead letters"):
        decoders_of(read)


def test_a_dead_letter_has_the_whole_record_and_the_reason_in_headers() -> None:
    faults = [[("key", "a.Key", Bad(0, "no key", "KeyError")), ("value", "a.Value", Bad(0, "no value"))]]

    (letter,) = letters_of(batch(b"v", keys=[b"k"]).to_pylist(), faults)

    assert letter.position == RecordPosition("orders", 3, 70, AT_MS)
    assert (letter.key, letter.value) == (b"k", b"v")
    assert letter.headers[0] == ("trace", b"1")
    reported = {name.removeprefix(CONNECT): value for name, value in letter.headers[1:]}
    assert reported == {
        "topic": b"orders",
        "partition": b"3",
        "offset": b"70",
        "stage": b"VALUE_CONVERTER",
        "class.name": b"a.Value",
        "exception.class.name": b"ValueError",
        "exception.message": b"key: no key; value: no value",
        "__penstock.errors.timestamp": str(AT_MS).encode(),
    }


def test_letters_of_the_same_query_are_recognized() -> None:
    (letter,) = letters_of(batch(b"v").to_pylist(), [[("value", "a.Value", Bad(0, "x"))]])

    def written(*headers: list[tuple[str, bytes | None]]) -> pa.RecordBatch:
        lists = [[{"key": key, "value": value} for key, value in each] for each in headers]
        return pa.RecordBatch.from_pydict({"headers": pa.array(lists, ARROW_TYPES["headers"])})

    ours, theirs = (CONNECT + "connector.name", b"query"), (CONNECT + "connector.name", b"other")
    damaged = [(CONNECT + "offset", b"many"), ours]

    found = positions_in(written([*letter.headers, theirs], [], damaged, [*letter.headers, ours]), "query")

    assert found == {letter.position}
    assert positions_in(written([*letter.headers, ours]), "another") == set()
