"""Serdes: Kafka's bytes for plain types, JSON for the rest, and the same for whole columns."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any, TypedDict

import msgspec
import pyarrow
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.errors import DeserializationFailed, SerializationFailed
from penstock.streams import Windowed, serde, session, sliding, tumbling
from penstock.streams.nouns import TopologyError
from penstock.streams.serdes import SessionWindowed, TimeWindowed, natural_bytes, serde_of, windowed_serde


@dataclass
class Point:
    x: int
    y: int = 0


class Named(TypedDict):
    name: str


class Struct(msgspec.Struct):
    name: str


class Model(pydantic.BaseModel):
    name: str


class Backwards:
    """A client serializer that depends on the topic."""

    def for_topic(self, topic: str, /, *, is_key: bool) -> Any:
        return lambda value: f"{topic} {value}".encode() if isinstance(value, str) else value.decode()


PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(st.characters(exclude_categories=["Cs"])),
    bytes: st.binary(),
    int: st.integers(-(2**63), 2**63 - 1),
    float: st.floats(allow_nan=False),
    bool: st.booleans(),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "float32": st.floats(width=32, allow_nan=False),
}
RICH: dict[Any, Any] = {
    dict: {"a": [1, None]},
    list: [1, "b"],
    tuple: (1, 2),
    Point: Point(1, 2),
    Named: {"name": "ada"},
    Struct: Struct("ada"),
    Model: Model(name="ada"),
    list[Point]: [Point(1), Point(2)],
    dict[str, Any]: {"a": {"b": 1}},
    dict[str, int]: {"a": 1},
}


@settings(deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("kind", PLAIN)
def test_a_value_survives_a_round_trip(kind: Any, data: st.DataObject) -> None:
    value = data.draw(PLAIN[kind])

    assert serde_of(kind).decode(serde_of(kind).encode(value)) == value


@pytest.mark.parametrize("kind", RICH, ids=str)
def test_structured_types_are_json(kind: Any) -> None:
    data = serde_of(kind).encode(RICH[kind])

    assert data is not None
    assert data[:1] in (b"{", b"[")
    assert serde_of(kind).decode(data) == RICH[kind]


def test_none_is_a_record_without_value_in_every_serde() -> None:
    for kind in (*PLAIN, *RICH):
        assert serde_of(kind).encode(None) is None
        assert serde_of(kind).decode(None) is None


def test_a_type_that_may_be_none_is_that_type() -> None:
    assert serde_of(str | None) == serde_of(str)


@settings(deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("kind", PLAIN)
def test_columns_equal_values(kind: Any, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | PLAIN[kind], max_size=8))
    known = serde_of(kind)
    expected = pyarrow.array([known.encode(value) for value in values], pyarrow.binary())

    assert known.encode_column(values).equals(expected)
    assert known.encode_column(pyarrow.array(values, known.arrow_type)).equals(expected)
    read = known.decode_column(expected)
    assert isinstance(read, pyarrow.Array)
    assert read.type == known.arrow_type
    assert read.to_pylist() == values
    assert known.decode_column(expected.slice(1)) == read.slice(1)  # type: ignore[comparison-overlap]


def test_columns_without_an_arrow_type_are_lists_of_objects() -> None:
    points = [Point(1), None, Point(2, 3)]

    column = serde_of(Point).encode_column(points)

    assert serde_of(Point).arrow_type is None
    assert serde_of(Point).decode_column(column) == points


def test_an_error_shows_the_bad_value_of_a_column() -> None:
    with pytest.raises(DeserializationFailed, match="short"):
        serde_of(int).decode_column(pyarrow.array([b"\0" * 8, b"short"]))
    with pytest.raises(DeserializationFailed, match="xff"):
        serde_of(str).decode_column(pyarrow.array([b"fine", b"\xff"], pyarrow.binary()))


def test_an_encoding_error_names_the_topic() -> None:
    numbers = serde_of(int).for_topic("orders", is_key=True)

    with pytest.raises(SerializationFailed, match=r"orders.*'five'"):
        numbers.encode("five")
    with pytest.raises(DeserializationFailed, match="orders"):
        numbers.decode(b"five!")


@pytest.mark.parametrize("spec", ["no-such-name", object, set, 5], ids=str)
def test_something_other_than_a_type_is_rejected(spec: Any) -> None:
    with pytest.raises(TopologyError):
        serde_of(spec)


def test_two_names_of_a_serde_write_the_same_bytes() -> None:
    assert serde_of(str).writes_like(serde_of("string"))
    assert serde_of(int).writes_like(serde_of("long"))
    assert serde_of(bytes).writes_like(serde_of("bytes"))
    assert not serde_of(int).writes_like(serde_of("int32"))
    assert not serde_of(bytes).writes_like(serde_of(str))


def test_a_client_serializer_gets_the_topic() -> None:
    both = serde(Backwards(), Backwards())

    assert both.for_topic("orders", is_key=False).encode("five") == b"orders five"
    assert both.for_topic("orders", is_key=False).decode(b"five") == "five"


@pytest.mark.parametrize("kind", [*PLAIN, *RICH], ids=str)
def test_serdes_can_be_pickled(kind: Any) -> None:
    there = pickle.loads(pickle.dumps(serde_of(kind).for_topic("orders", is_key=True)))

    assert there == serde_of(kind)
    assert pickle.loads(pickle.dumps(TimeWindowed(serde_of(str), 5))).decode(b"a" + b"\0" * 8).end_ms == 5
    assert pickle.loads(pickle.dumps(SessionWindowed(serde_of(str)))).decode(b"a" + b"\0" * 16).key == "a"


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(0, 2**40), st.integers(0, 2**20))
def test_windowed_keys_survive_a_round_trip(key: str, start_ms: int, length_ms: int) -> None:
    of_size = TimeWindowed(serde_of(str), length_ms)
    sessions = SessionWindowed(serde_of(str))
    window = Windowed(key, start_ms, start_ms + length_ms)

    assert of_size.decode(of_size.encode(window)) == window
    assert sessions.decode(sessions.encode(window)) == window


def test_windowed_keys_are_those_of_kafka_streams() -> None:
    assert TimeWindowed(serde_of(str), 10).encode(Windowed("a", 1, 11)) == b"a" + b"\0" * 7 + b"\1"
    assert (
        SessionWindowed(serde_of(str)).encode(Windowed("a", 1, 2))
        == b"a" + b"\0" * 7 + b"\2" + b"\0" * 7 + b"\1"
    )


def test_the_key_of_a_table_fits_its_windows() -> None:
    text = serde_of(str)

    assert isinstance(windowed_serde(text, tumbling(1)), TimeWindowed)
    assert isinstance(windowed_serde(text, sliding(1)), TimeWindowed)
    assert isinstance(windowed_serde(text, session(1)), SessionWindowed)


def test_a_value_of_an_undeclared_type_is_written_by_its_python_type() -> None:
    assert natural_bytes("a") == b"a"
    assert natural_bytes(b"a") == b"a"
    assert natural_bytes(1) == b"\0" * 7 + b"\1"
    assert natural_bytes({"a": 1}) == b'{"a":1}'
    assert natural_bytes(None) is None
    with pytest.raises(TopologyError, match="pass key="):
        natural_bytes(Windowed("a", 1, 2))
