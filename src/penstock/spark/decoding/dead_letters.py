"""Dead letters: records that could not be decoded, kept in a topic of their own with the reason in their headers.

A letter has the key, value, headers and time of the record, and behind its headers those that Kafka Connect gives
(`__connect.errors.*`), so that tools which know them read these letters too. Letters of one partition stand in one
partition of the topic, in their order.

Spark may read a range again: when a task or a query failed, or when a batch is used twice. Letters that are there
already are not sent again: the end of the letters' partition is looked through for the same record (topic, partition,
offset and time) of the same query. Two attempts that run at the same time, or more than `LOOK_BACK` letters in
between, may leave a letter twice; its headers tell.
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
LOOK_BACK = 10_000  # letters at the end of a partition that are looked through before one is sent
UNDERWAY_MAX = 10_000  # letters, before their delivery is waited for
# A letter is a little larger than its record, and must not fail by that.
LETTER_BYTES_MAX = 10 * 1024 * 1024
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

Header = tuple[str, bytes | None]


class Place(NamedTuple):
    """Where a record stands. A topic that was made anew has the same offsets, but other times."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class Letter(NamedTuple):
    place: Place
    key: bytes | None
    value: bytes | None
    headers: list[Header]


def letters_of(
    records: Sequence[Mapping[str, Any]], faults: Sequence[Sequence[tuple[str, str, Bad]]]
) -> list[Letter]:
    """The letters of records, each with its faults: the column, the class of its decoder, and what is bad."""
    letters = []
    for record, found in zip(records, faults, strict=True):
        timestamp_ms = (record["timestamp"] - EPOCH) // datetime.timedelta(milliseconds=1)
        place = Place(record["topic"], record["partition"], record["offset"], timestamp_ms)
        column, decoder, bad = found[-1]  # the value's, where both are bad
        reasons = [f"{name}: {each.reason}" for name, _, each in found]
        told = {
            "topic": place.topic,
            "partition": str(place.partition),
            "offset": str(place.offset),
            "stage": STAGES[column],
            "class.name": decoder,
            "exception.class.name": bad.error,
            "exception.message": "; ".join(reasons),
        }
        headers = [(header["key"], header["value"]) for header in record["headers"] or ()]
        headers += [(CONNECT + name, text.encode(errors="replace")) for name, text in told.items()]
        headers.append((TIMESTAMP, str(timestamp_ms).encode()))
        letters.append(Letter(place, record["key"], record["value"], headers))
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
        self._known: dict[TopicPartition, set[Place]] = {}
        self._underway: list[tuple[Place, Any]] = []

    def send(self, letters: list[Letter]) -> None:
        if self._producer is None:
            self._open()
        of_query = (CONNECT + "connector.name", self._query.encode())
        of_task = (CONNECT + "task.id", self._task.encode())
        for letter in letters:
            target = TopicPartition(self._topic, letter.place.partition % self._partitions)
            known = self._known.get(target)
            if known is None:
                known = self._known[target] = self._look_back(target)
            if letter.place not in known:
                known.add(letter.place)
                with self._named(letter.place):
                    receipt = self._producer.send(
                        self._topic,
                        letter.value,
                        key=letter.key,
                        headers=[*letter.headers, of_query, of_task],
                        partition=target.partition,
                        timestamp_ms=max(letter.place.timestamp_ms, 0),
                    )
                self._underway.append((letter.place, receipt))
        if len(self._underway) > UNDERWAY_MAX:
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
        """Wait until all that is under way has arrived."""
        for place, receipt in self._underway:
            with self._named(place):
                receipt.result()
        self._underway.clear()

    @contextmanager
    def _named(self, place: Place) -> Iterator[None]:
        """An error of the cluster tells which letter it befell."""
        try:
            yield
        except errors.PenstockError as error:
            raise PoisonRecord(
                f"offset {place.offset} of {TopicPartition(place.topic, place.partition)} cannot be decoded, and"
                f" its dead letter cannot be sent to {self._topic}: {error}"
            ) from error

    def _open(self) -> None:
        try:
            with clients.admin(self._settings) as admin:
                admin.create_topic(self._topic, config={"max.message.bytes": LETTER_BYTES_MAX})
        except (errors.TopicAlreadyExists, errors.AuthorizationError):
            pass  # whoever may not make it may find it made
        self._lent = clients.producer({"max.request.size": str(LETTER_BYTES_MAX), **self._settings})
        self._producer = self._lent.__enter__()
        self._partitions = len(self._producer.partitions_for(self._topic))

    def _look_back(self, target: TopicPartition) -> set[Place]:
        """The places of letters of this query at the end of the partition."""
        with clients.consumer(self._settings) as consumer:
            end = consumer.end_offsets(target)[target]
            begin = max(consumer.beginning_offsets(target)[target], end - LOOK_BACK)
            if begin >= end:
                return set()
            consumer.assign([target])
            consumer.seek(target, begin)
            found: set[Place] = set()
            for batch in consumer.read({target: end}, headers=True):
                found |= places_in(batch, self._query)
            # Or the client, which is kept, would wait for more letters on behalf of nobody.
            consumer.assign([])
            return found


def places_in(batch: pa.RecordBatch, query: str) -> set[Place]:
    """The places of the records whose letters these are, of those that the query sent."""
    headers = batch.column("headers")
    if not len(headers):
        return set()
    keys, values = headers.flatten().flatten()
    rows = pc.list_parent_indices(headers)
    wanted = [CONNECT + name for name in ("topic", "partition", "offset", "connector.name")] + [TIMESTAMP]
    mask = pc.is_in(keys, pa.array(wanted, keys.type))
    told: dict[int, dict[str, bytes]] = {}
    for row, key, value in zip(
        rows.filter(mask).to_pylist(),
        keys.filter(mask).to_pylist(),
        values.filter(mask).to_pylist(),
        strict=True,
    ):
        told.setdefault(row, {})[key] = value or b""
    places = set()
    for each in told.values():
        if len(each) == len(wanted) and each[wanted[3]] == query.encode():
            numbers = [each[name] for name in (*wanted[1:3], TIMESTAMP)]
            if all(number.lstrip(b"-").isdigit() for number in numbers):
                places.add(Place(each[wanted[0]].decode(errors="replace"), *map(int, numbers)))
    return places


def _about_task(query: str | None) -> tuple[str, str]:
    """What a letter is to tell of its sender: the query's name or id, and the task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return query or "batch", "0"
    return query or context.getLocalProperty("sql.streaming.queryId") or "batch", str(context.partitionId())
