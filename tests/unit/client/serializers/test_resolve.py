"""The forms in which a serializer may be given."""

from __future__ import annotations

import dataclasses
import datetime
import json
import pickle
from typing import Any
from uuid import UUID

import msgspec
import pydantic
import pytest

from penstock.client.errors import BadConfiguration, DeserializationFailed, SerializationFailed
from penstock.client.serializers import (
    Context,
    deserialization_failed,
    deserializer_of,
    serialization_failed,
    serializer_of,
)
from penstock.client.serializers.resolve import FORMATS
from penstock.client.setting_values import JAVA_NAMES


@dataclasses.dataclass
class Line:
    article: str
    count: int = 1


@dataclasses.dataclass
class Order:
    id: int
    day: datetime.date
    lines: list[Line] = dataclasses.field(default_factory=list)


class Model(pydantic.BaseModel):
    id: int
    day: datetime.date


@pydantic.dataclasses.dataclass
class Checked:
    id: int


class Struct(msgspec.Struct):
    id: int
    tags: list[str] = []


class Shouting:
    """A serializer that knows its topic."""

    def for_topic(self, topic: str, /, *, is_key: bool) -> Any:
        return lambda value: f"{topic}{'?' if is_key else '!'}{value}".encode()


def write(spec: object, value: Any, *, topic: str = "orders", is_key: bool = False) -> Any:
    serializer = serializer_of(spec)
    assert serializer is not None
    return serializer.for_topic(topic, is_key=is_key)(value)


def read(spec: object, data: bytes) -> Any:
    deserializer = deserializer_of(spec)
    assert deserializer is not None
    return deserializer.for_topic("orders", is_key=False)(data)


@pytest.mark.parametrize(
    "spec", [None, "bytes", bytes, "org.apache.kafka.common.serialization.ByteArraySerializer"]
)
def test_bytes_pass_without_a_call(spec: object) -> None:
    assert serializer_of(spec) is None
    assert deserializer_of(spec) is None


def test_every_java_class_of_kafka_has_a_serializer_here() -> None:
    names = {name for java, name in JAVA_NAMES.items() if ".serialization." in java}

    assert names - set(FORMATS) == {"bytes"}


@pytest.mark.parametrize(
    ("kind", "value"),
    [(str, "a"), (int, 5), (float, 2.5), (bool, True), (UUID, UUID(int=5)), (dict, {"a": 1})],
)
def test_a_python_type_means_its_format(kind: type, value: Any) -> None:
    assert read(kind, write(kind, value)) == value


@pytest.mark.parametrize(
    "value",
    [
        Order(1, datetime.date(2026, 1, 2), [Line("tea", 2)]),
        Model(id=1, day=datetime.date(2026, 1, 2)),
        Checked(id=1),
        Struct(id=1, tags=["a"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_model_round_trips_as_json(value: Any) -> None:
    data = write(type(value), value)

    assert json.loads(data)["id"] == 1
    assert read(type(value), data) == value


@pytest.mark.parametrize("kind", [Order, Model, Struct])
def test_a_value_of_another_type_than_the_model_is_rejected(kind: type) -> None:
    with pytest.raises(TypeError, match=f"must be of type {kind.__name__}"):
        write(kind, {"id": 1})


@pytest.mark.parametrize("kind", [Order, Model, Struct])
def test_json_that_does_not_match_the_model_is_rejected(kind: type) -> None:
    with pytest.raises(Exception):  # noqa: B017  each library has its own
        read(kind, b'{"id":"x"}')


def test_any_function_of_one_value_works() -> None:
    assert write(lambda value: value.upper().encode(), "tea") == b"TEA"
    assert write(json.dumps, [1]) == "[1]"
    assert read(len, b"abc") == 3


def test_a_function_with_a_context_gets_topic_and_field() -> None:
    reported: list[Context] = []

    def serialize(value: bytes, ctx: Any = None) -> bytes:
        reported.append(ctx)
        return value

    write(serialize, b"x", topic="orders", is_key=True)

    assert (reported[0].topic, reported[0].field) == ("orders", "key")


def test_for_topic_is_called_once_for_each_topic() -> None:
    assert write(Shouting(), 1, topic="orders") == b"orders!1"
    assert write(Shouting, 1, topic="orders", is_key=True) == b"orders?1"


@pytest.mark.parametrize("place", ["json:dumps", "json.dumps"])
def test_anything_importable_is_found_by_its_path(place: str) -> None:
    assert write(place, [1]) == "[1]"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("jsn", "unknown serializer jsn; known are bytes, string"),
        ("no.such.module", "the serializer no.such.module cannot be imported"),
        ("json:no_such", "cannot be imported"),
        (5, "or a function, not 5"),
        (complex, "complex is not a serializer"),
        ("avro", "set schema.registry.url"),
        ("protobuf", "needs a message class"),
    ],
)
def test_invalid_specs_are_rejected(spec: object, message: str) -> None:
    with pytest.raises(BadConfiguration) as refusal:
        serializer_of(spec)

    assert message in str(refusal.value)


class TestFailures:
    def test_a_failure_names_topic_field_and_value(self) -> None:
        cause = ValueError("no")

        failure = serialization_failed(cause, "orders", {"id": 1}, is_key=True)

        assert isinstance(failure, SerializationFailed)
        assert str(failure) == "orders: the key {'id': 1} of type dict cannot be serialized: ValueError: no"
        assert failure.__cause__ is cause

    def test_a_failed_read_has_its_place_and_bytes(self) -> None:
        failure = deserialization_failed(
            ValueError("no"), "orders", b"\xff", is_key=False, partition=3, offset=7
        )

        assert isinstance(failure, DeserializationFailed)
        assert (
            str(failure) == r"orders-3 at offset 7: the value b'\xff' cannot be deserialized: ValueError: no"
        )
        assert (failure.topic, failure.partition, failure.offset, failure.data) == ("orders", 3, 7, b"\xff")
        assert pickle.loads(pickle.dumps(failure)).offset == 7

    def test_a_failure_without_a_topic_has_no_stray_colon(self) -> None:
        written = serialization_failed(ValueError("no"), "", "x", is_key=False)
        read = deserialization_failed(ValueError("no"), "", b"x", is_key=False)

        assert str(written).startswith("the value 'x' of type str cannot be serialized")
        assert str(read).startswith("the value b'x' cannot be deserialized")

    def test_a_long_value_is_shortened(self) -> None:
        assert len(str(serialization_failed(ValueError("no"), "t", "x" * 10_000, is_key=False))) < 200

    def test_a_value_with_a_failing_repr_does_not_hide_the_failure(self) -> None:
        class Broken:
            def __repr__(self) -> str:
                raise RuntimeError("broken")

        assert "(RuntimeError in its repr)" in str(
            serialization_failed(ValueError("no"), "t", Broken(), is_key=False)
        )
