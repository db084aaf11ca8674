"""Dead letters: records that could not be decoded, stored in a separate topic with the reason in headers.

A dead letter has the key, value, headers and timestamp of the record, followed by Kafka Connect's headers
(`__connect.errors.*`), so that tools for those read these letters too. Letters of one partition go to one partition
of the topic, in order.

Spark may read a range again: after a task or a query failed, or when a batch is used twice. Letters that exist
already are not sent again: the end of the target partition is searched for the same record (topic, partition, offset
and timestamp) of the same query. Two concurrent attempts, or more than `LOOK_BACK` letters in between, may write a
letter twice; its headers show that.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc

from penstock import errors
from penstock.client.cluster import TopicPartition
from penstock.spark import clients
from penstock.spark.decoding.base import Bad
from penstock.spark.errors import PoisonRecord

CONNECT = "__connect.errors."
TIMESTAMP = "__penstock.errors.timestamp"
STAGES = {"key": "KEY_CONVERTER", "value": "VALUE_CONVERTER"}
LOOK_BACK = 10_000  # letters at the end of a partition that are searched before one is sent
IN_FLIGHT_MAX = 10_000  # letters that are sent before the task waits for their delivery
# A letter is slightly larger than its record, and must not be rejected for that.
LETTER_BYTES_MAX = 10 * 1024 * 1024
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

Header = tuple[str, bytes | None]


class RecordPosition(NamedTuple):
    """Where a record is. A recreated topic has the same offsets, but other timestamps."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class Letter(NamedTuple):
    position: RecordPosition
    key: bytes | None
    value: bytes | None
    headers: list[Header]


def letters_of(
    records: Sequence[Mapping[str, Any]], faults: Sequence[Sequence[tuple[str, str, Bad]]]
) -> list[Letter]:
    """The letters of records, each with its faults: the column, the class of its decoder, and the bad row."""
    letters = []
    for record, found in zip(records, faults, strict=True):
        timestamp_ms = (record["timestamp"] - EPOCH) // datetime.timedelta(milliseconds=1)
        position = RecordPosition(record["topic"], record["partition"], record["offset"], timestamp_ms)
        column, decoder, bad = found[-1]  # the value's if both are bad
        reasons = [f"{name}: {each.reason}" for name, _, each in found]
        details = {
            "topic": position.topic,
            "partition": str(position.partition),
            "offset": str(position.offset),
            "stage": STAGES[column],
            "class.name": decoder,
            "exception.class.name": bad.error,
            "exception.message": "; ".join(reasons),
        }
        headers = [(header["key"], header["value"]) for header in record["headers"] or ()]
        headers += [(CONNECT + name, text.encode(errors="replace")) for name, text in details.items()]
        headers.append((TIMESTAMP, str(timestamp_ms).encode()))
        letters.append(Letter(position, record["key"], record["value"], headers))
    return letters


class DeadLetters:
    """Sends the letters of one task. Its end waits until all are delivered."""

    def __init__(self, topic: str, settings: Mapping[str, str], query: str | None) -> None:
        self._topic = topic
        self._settings = settings
        self._query, self._task = _about_task(query)
        self._lent: Any = None
        self._producer: Any = None
        self._partitions = 0
        self._known: dict[TopicPartition, set[RecordPosition]] = {}
        self._in_flight: list[tuple[RecordPosition, Any]] = []

    def send(self, letters: list[Letter]) -> None:
        if self._producer is None:
            self._open()
        of_query = (CONNECT + "connector.name", self._query.encode())
        of_task = (CONNECT + "task.id", self._task.encode())
        for letter in letters:
            target = TopicPartition(self._topic, letter.position.partition % self._partitions)
            known = self._known.get(target)
            if known is None:
                known = self._known[target] = self._look_back(target)
            if letter.position not in known:
                known.add(letter.position)
                with self._named(letter.position):
                    receipt = self._producer.send(
                        self._topic,
                        letter.value,
                        key=letter.key,
                        headers=[*letter.headers, of_query, of_task],
                        partition=target.partition,
                        timestamp_ms=max(letter.position.timestamp_ms, 0),
                    )
                self._in_flight.append((letter.position, receipt))
        if len(self._in_flight) > IN_FLIGHT_MAX:
            self._deliver()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._producer is None:
            return
        if kind is None:
            try:
                self._deliver()
            except BaseException as failed:
                self._lent.__exit__(type(failed), failed, failed.__traceback__)
                raise
        self._lent.__exit__(kind, error, traceback)

    def _deliver(self) -> None:
        """Wait until all letters in flight are acknowledged."""
        for position, receipt in self._in_flight:
            with self._named(position):
                receipt.result()
        self._in_flight.clear()

    @contextmanager
    def _named(self, position: RecordPosition) -> Iterator[None]:
        """Add the record to an error of the cluster."""
        try:
            yield
        except errors.PenstockError as error:
            raise PoisonRecord(
                f"cannot decode offset {position.offset} of {TopicPartition(position.topic, position.partition)}, and"
                f" cannot send its dead letter to {self._topic}: {error}"
            ) from error

    def _open(self) -> None:
        try:
            with clients.admin(self._settings) as admin:
                admin.create_topic(self._topic, config={"max.message.bytes": LETTER_BYTES_MAX})
        except (errors.TopicAlreadyExists, errors.AuthorizationError):
            pass  # without the right to create it, it may still exist
        self._lent = clients.producer({"max.request.size": str(LETTER_BYTES_MAX), **self._settings})
        self._producer = self._lent.__enter__()
        self._partitions = len(self._producer.partitions_for(self._topic))

    def _look_back(self, target: TopicPartition) -> set[RecordPosition]:
        """The positions of this query's letters at the end of the partition."""
        with clients.consumer(self._settings) as consumer:
            end = consumer.end_offsets(target)[target]
            begin = max(consumer.beginning_offsets(target)[target], end - LOOK_BACK)
            if begin >= end:
                return set()
            consumer.assign([target])
            consumer.seek(target, begin)
            found: set[RecordPosition] = set()
            for batch in consumer.read({target: end}, headers=True):
                found |= positions_in(batch, self._query)
            # Otherwise the pooled client would keep fetching letters for no reader.
            consumer.assign([])
            return found


def positions_in(batch: pa.RecordBatch, query: str) -> set[RecordPosition]:
    """The positions of the records of these letters, for letters that the query sent."""
    headers = batch.column("headers")
    if not len(headers):
        return set()
    keys, values = headers.flatten().flatten()
    rows = pc.list_parent_indices(headers)
    wanted = [CONNECT + name for name in ("topic", "partition", "offset", "connector.name")] + [TIMESTAMP]
    mask = pc.is_in(keys, pa.array(wanted, keys.type))
    by_row: dict[int, dict[str, bytes]] = {}
    for row, key, value in zip(
        rows.filter(mask).to_pylist(),
        keys.filter(mask).to_pylist(),
        values.filter(mask).to_pylist(),
        strict=True,
    ):
        by_row.setdefault(row, {})[key] = value or b""
    positions = set()
    for each in by_row.values():
        if len(each) == len(wanted) and each[wanted[3]] == query.encode():
            numbers = [each[name] for name in (*wanted[1:3], TIMESTAMP)]
            if all(number.lstrip(b"-").isdigit() for number in numbers):
                positions.add(RecordPosition(each[wanted[0]].decode(errors="replace"), *map(int, numbers)))
    return positions


def _about_task(query: str | None) -> tuple[str, str]:
    """The sender in the headers of a letter: the query's name or id, and the task."""
    from pyspark import TaskContext

    from penstock.spark.internals import stream_job

    context = TaskContext.get()
    if context is None:
        return query or "batch", "0"
    return query or stream_job(context).query_id or "batch", str(context.partitionId())
