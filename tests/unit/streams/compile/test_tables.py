"""Global tables as a worker process holds them, over a consumer that is a fake."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow
import pytest

from penstock.client.cluster import TopicPartition
from penstock.spark import clients
from penstock.streams import Builder
from penstock.streams.compile.failures import OperatorFailed
from penstock.streams.compile.tables import WorkerTables

ONLY = TopicPartition("prices", 0)


class Consumer:
    """Of a topic with one record."""

    at = 0

    def partitions_for(self, topic: str) -> list[int]:
        return [0]

    def assign(self, partitions: list[TopicPartition]) -> None:
        assert partitions == [ONLY]

    def beginning_offsets(self, partitions: Any) -> dict[TopicPartition, int]:
        return {ONLY: 0}

    def end_offsets(self, partitions: Any) -> dict[TopicPartition, int]:
        return {ONLY: 1}

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.at = offset

    def read(self, ends: dict[TopicPartition, int]) -> Iterator[pyarrow.RecordBatch]:
        if self.at < ends[ONLY]:
            columns = {"topic": ["prices"], "partition": [0], "offset": [0]}
            yield pyarrow.RecordBatch.from_pydict({**columns, "key": [b"tea"], "value": [bytes(7) + b"0"]})


@pytest.fixture(autouse=True)
def topic(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def consumer(settings: Any) -> Iterator[Consumer]:
        yield Consumer()

    monkeypatch.setattr(clients, "consumer", consumer)


def rows(value: Any) -> dict[Any, Any]:
    app = Builder()
    app.global_table("prices", key=str, value=value)
    (node,) = app.topology.global_tables
    return WorkerTables({"bootstrap.servers": "of test_tables"}).rows(node)


def test_two_programs_of_one_session_may_read_a_topic_as_different_types() -> None:
    assert rows(int) == {"tea": 48}
    assert rows(bytes) == {"tea": bytes(7) + b"0"}
    assert rows(int) == {"tea": 48}


def test_a_row_that_cannot_be_read_is_told_by_its_place() -> None:
    with pytest.raises(OperatorFailed, match=r"^prices failed at prices-0 offset 0: "):
        rows(dict)
