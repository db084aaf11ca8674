"""Global tables in a worker process, with a fake consumer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, make_dataclass
from typing import Any

import pyarrow
import pytest

from penstock.client.cluster import TopicPartition
from penstock.client.errors import SerializationFailed
from penstock.spark import clients
from penstock.streams import Builder
from penstock.streams.compile import tables
from penstock.streams.compile.failures import OperatorFailed
from penstock.streams.compile.tables import Rows, WorkerTables

ONLY = TopicPartition("prices", 0)


@dataclass
class Place:
    shop: str
    shelf: int


class Topic:
    """With one partition."""

    def __init__(self) -> None:
        self.id = "first"
        self.id_when_read: str | None = None
        self.records: list[tuple[bytes, bytes | None]] = [(b"tea", bytes(7) + b"0")]


class Consumer:
    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self.at = 0

    def topic_id(self, topic: str) -> str:
        return self._topic.id

    def partitions_for(self, topic: str) -> list[int]:
        return [0]

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        assert list(partitions) == [ONLY]

    def beginning_offsets(self, partitions: Any) -> dict[TopicPartition, int]:
        return {ONLY: 0}

    def end_offsets(self, partitions: Any) -> dict[TopicPartition, int]:
        return {ONLY: len(self._topic.records)}

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.at = offset

    def read(self, ends: dict[TopicPartition, int]) -> Iterator[pyarrow.RecordBatch]:
        self._topic.id = self._topic.id_when_read or self._topic.id
        for offset in range(self.at, ends[ONLY]):
            key, value = self._topic.records[offset]
            columns = {"topic": ["prices"], "partition": [0], "offset": [offset]}
            yield pyarrow.RecordBatch.from_pydict({**columns, "key": [key], "value": [value]})


@pytest.fixture(autouse=True)
def topic(monkeypatch: pytest.MonkeyPatch) -> Topic:
    topic = Topic()

    @contextmanager
    def consumer(settings: Any) -> Iterator[Consumer]:
        yield Consumer(topic)

    monkeypatch.setattr(clients, "consumer", consumer)
    monkeypatch.setattr(tables, "_HELD", {})
    return topic


def rows(value: Any, key: Any = str) -> Rows:
    app = Builder()
    app.global_table("prices", key=key, value=value)
    (node,) = app.topology.global_tables
    return WorkerTables({"bootstrap.servers": "of test_tables"}).rows(node)


def test_two_programs_of_one_session_may_use_different_types_for_a_topic() -> None:
    assert rows(int).get("tea") == 48
    assert rows(bytes).get("tea") == bytes(7) + b"0"
    assert rows(int).get("tea") == 48


def test_a_row_that_cannot_be_decoded_is_named_by_its_offset() -> None:
    with pytest.raises(OperatorFailed, match=r"^prices failed at prices-0 offset 0: "):
        rows(dict)


def test_a_key_need_not_be_hashable(topic: Topic) -> None:
    topic.records = [(b'["a", 1]', b"one"), (b'["a",2]', b"two"), (b'["a",2]', None)]
    assert [rows(str, list).get(["a", shelf]) for shelf in (1, 2)] == ["one", None]
    topic.records = [(b'{"shop":"a","shelf":1}', b"one")]
    assert rows(str, dict).get({"shop": "a", "shelf": 1}) == "one"
    assert rows(str, Place).get(Place("a", 1)) == "one"


def test_an_impossible_key_is_an_error_as_in_a_topology_test(topic: Topic) -> None:
    assert rows(int).get("coffee") is None
    with pytest.raises(SerializationFailed):
        rows(int).get(7)
    topic.records = [(bytes(8), bytes(8))]
    assert rows(int, int).get(0) == 0
    with pytest.raises(SerializationFailed):
        rows(int, int).get(1 << 64)


def test_a_joiner_that_changes_a_value_changes_no_row(topic: Topic) -> None:
    topic.records = [(b"tea", b'{"shop":"a","shelf":1}')]
    found = rows(dict)
    found.get("tea").clear()
    assert found.get("tea") == {"shop": "a", "shelf": 1}
    places = rows(Place)
    places.get("tea").shelf = 2
    assert places.get("tea") == Place("a", 1)


def test_a_recreated_topic_has_no_old_rows(topic: Topic) -> None:
    topic.records = [(b"tea", bytes(8)), (b"coffee", bytes(8))]
    rows(int)
    topic.id, topic.records = "second", [(b"tea", bytes(7) + b"1")]
    assert (rows(int).get("tea"), rows(int).get("coffee")) == (49, None)


def test_a_recreated_topic_may_be_noticed_late(topic: Topic) -> None:
    topic.records = [(b"tea", bytes(8)), (b"coffee", bytes(8))]
    rows(int)
    topic.records = [(b"tea", bytes(7) + b"1")]
    assert (rows(int).get("tea"), rows(int).get("coffee")) == (49, None)
    topic.id_when_read, topic.records = "second", [(b"milk", bytes(8)), (b"cream", bytes(8))]
    assert [rows(int).get(name) for name in ("tea", "milk", "cream")] == [None, 0, 0]


def test_values_are_decoded_as_the_redefined_class(topic: Topic) -> None:
    topic.records = [(b"tea", b'{"shop":"a","shelf":1}')]
    assert rows(Place).get("tea") == Place("a", 1)
    again = make_dataclass("Place", [("shop", str), ("shelf", float)])
    assert rows(again).get("tea") == again("a", 1.0)
