"""One call of `send_arrow`: appends the rows to batches, and makes the receipt of all rows.

`RowSending` says what to wait for (metadata of a topic, buffer space); the sync and the async producer do the waiting.
Every row is checked before the first is appended, so that after an error nothing was sent. If interceptors need every
record, or the application has its own partitioner, rows are sent one by one; otherwise the kernel takes them.

Serializers are not used: keys and values are the bytes of the columns.
"""

from __future__ import annotations

import asyncio
import copy
import time
from array import array
from collections.abc import Container, Generator, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.client import errors
from penstock.client.cluster import TopicPartition
from penstock.client.deadlines import seconds
from penstock.client.producer.arrow_rows import TopicRows, batches_of, rows_of
from penstock.client.producer.interceptors import OutgoingRecord
from penstock.records.delivery import resolve
from penstock.records.producing import ProducerBatch, RowAppender, place_of
from penstock.records.table_rows import Fault, iterate_rows

if TYPE_CHECKING:
    from penstock.client.producer.core import ProducerCore


class Place(NamedTuple):
    """Consecutive rows in a batch."""

    batch: ProducerBatch
    first: int
    row_count: int


class Portion(NamedTuple):
    """The part of the table in one batch of columns: places, and for each row the number of its place."""

    first_row: int
    places: list[Place]
    place_of_row: array[int]


class RowsReceipt:
    """The receipt of `send_arrow`: the outcome of all its rows."""

    def __init__(self, count: int) -> None:
        self.count = count
        """The number of rows."""
        self._portions: list[Portion] = []
        self._asked: set[tuple[int, int, int]] = set()

    def done(self) -> bool:
        """Whether every row has an outcome."""
        return all(part.batch.is_done for _, _, part in self._parts())

    def result(self, timeout: float | None = None) -> dict[TopicPartition, int]:
        """The number of rows written to each partition. Waits for it; raises the error of the first row that failed,
        with its number. `timeout` is in seconds."""
        self._wait(timeout)
        return self._outcome()

    def exception(self, timeout: float | None = None) -> Exception | None:
        """The error of the first row that failed, or None; waits like `result`."""
        self._wait(timeout)
        return self._failure()

    def __await__(self) -> Generator[Any, None, dict[TopicPartition, int]]:
        loop = asyncio.get_running_loop()
        while (batch := self._unfinished()) is not None:
            future: asyncio.Future[None] = loop.create_future()
            batch.watch(lambda _, future=future: resolve(future, loop))  # type: ignore[misc]
            yield from future.__await__()
        return self._outcome()

    def __repr__(self) -> str:
        state = "pending" if not self.done() else "written" if self._failure() is None else "failed"
        return f"<RowsReceipt of {self.count} rows, {state}>"

    def add(self, portion: Portion) -> None:
        self._portions.append(portion)

    def _wait(self, timeout: float | None) -> None:
        until = None if timeout is None else time.monotonic() + seconds(timeout)
        while (batch := self._unfinished()) is not None:
            left_s = None if until is None else max(0.0, until - time.monotonic())
            assert batch.waiting is not None, "a batch that can be waited for has a wait function"
            batch.waiting.wait_for(batch, left_s)

    def _unfinished(self) -> ProducerBatch | None:
        """A batch without an outcome. All receipts count as used, so that `flush` does not report them too."""
        unfinished = None
        for _, _, part in self._parts():
            asked = (id(part.batch), part.first, part.row_count)
            if asked not in self._asked:
                self._asked.add(asked)
                part.batch.mark_awaited(part.row_count)
            if unfinished is None and not part.batch.is_done:
                unfinished = part.batch
        return unfinished

    def _outcome(self) -> dict[TopicPartition, int]:
        failure = self._failure()
        if failure is not None:
            raise failure
        counts: dict[TopicPartition, int] = {}
        for _, _, part in self._parts():
            partition = TopicPartition(part.batch.topic, part.batch.partition)
            counts[partition] = counts.get(partition, 0) + part.row_count
        return counts

    def _failure(self) -> Exception | None:
        """The error of the first row that has one, with its number."""
        failed: dict[int, dict[tuple[int, int], tuple[ProducerBatch, int]]] = {}
        for portion, (number, rank), part in self._parts():
            batch = part.batch
            if batch.error is None:
                continue
            # If a bad record caused its whole batch to be rejected, that record's error is reported.
            bad = [index for index in batch.odd_records if 0 <= index - part.first < part.row_count]
            index = bad[0] if bad else part.first
            failed.setdefault(portion.first_row, {})[number, rank + index - part.first] = batch, index
        for portion in self._portions:
            if portion.first_row in failed:
                of_portion = failed[portion.first_row]
                row, place = _first_row(portion, of_portion)
                batch, index = of_portion[place]
                error = batch.error_of(index)
                assert error is not None
                return _of_row(error, row, batch)
        return None

    def _parts(self) -> Iterator[tuple[Portion, tuple[int, int], Place]]:
        """Every place as it is now, after batches were split; with its number, and how many rows of that number come
        before."""
        for portion in self._portions:
            for number, place in enumerate(portion.places):
                rank = 0
                for part in place.batch.parts_of(place.first, place.row_count):
                    yield portion, (number, rank), Place(*part)
                    rank += part[2]


class RowSending:
    def __init__(
        self, core: ProducerCore, table: Any, topic: str | None, *, stops_when_filled: bool = False
    ) -> None:
        if topic is not None and not isinstance(topic, str):
            raise errors.BadArgument(f"topic must be a string, not {topic!r} of type {type(topic).__name__}")
        self._core = core
        self._is_each_seen = not core.takes_rows
        self._stops_when_filled = stops_when_filled
        batches = [rows_of(batch, topic) for batch in batches_of(table) if batch.num_rows]
        self._batches = batches
        self._appenders: list[RowAppender] = []
        self._seen: Iterator[int] | None = None
        self._at = 0
        self.receipt = RowsReceipt(sum(each.rows.row_count for each in batches))

    def unknown_topics(self) -> list[str]:
        """Topics whose metadata must be loaded first."""
        wanted = dict.fromkeys(name for each in self._batches for name in each.topics)
        return [name for name in wanted if name not in self._core.intake.topics]

    def advance(self) -> int | None:
        """Append rows while there is space. None: all are appended; else the bytes that the next row needs, or 0 to
        yield to other tasks."""
        if not self._appenders:
            self._begin()
        if self._is_each_seen:
            self._seen = self._seen or self._send_each()
            return next(self._seen, None)
        while self._at < len(self._appenders):
            appender = self._appenders[self._at]
            if not appender.append():
                self._core.check_send()
                return appender.wanted_bytes
            self._finish(appender)
            self._at += 1
        return None

    def _begin(self) -> None:
        core = self._core
        first_row = 0
        for each in self._batches:
            topics = [core.intake.topics[name] for name in each.topics]
            appender = RowAppender(
                core.intake,
                topics,
                each.rows,
                record_bytes_max=core.record_bytes_max,
                stops_when_filled=self._stops_when_filled,
            )
            fault = appender.fault()
            if fault is not None:
                row, why = fault
                raise _refusal(why, first_row + row, appender.size_of(row), core.record_bytes_max)
            self._appenders.append(appender)
            first_row += each.rows.row_count

    def _finish(self, appender: RowAppender) -> None:
        places = [Place(span.batch, span.first, span.count) for span in appender.spans]
        first_row = sum(each.rows.row_count for each in self._batches[: self._at])
        self.receipt.add(Portion(first_row, places, appender.span_of_row))

    def _send_each(self) -> Iterator[int]:
        """Send row by row, yielding the bytes that are needed while the buffer is full."""
        core = self._core
        first_row = 0
        for each in self._batches:
            places: list[Place] = []
            place_of_row = array("i", bytes(4 * each.rows.row_count))
            for row, record in enumerate(_records(each)):
                prepared = core.prepare(core.intercept(record), is_serialized=True)
                if prepared is None:
                    raise errors.BadArgument(
                        f"an interceptor sent row {first_row + row} to another topic, {record.topic!r}"
                    )
                while (receipt := core.append(prepared)) is None:
                    yield prepared.size_bytes_max
                    core.check_send()
                batch, index = place_of(receipt)
                places.append(Place(batch, index, 1))
                place_of_row[row] = row
            self.receipt.add(Portion(first_row, places, place_of_row))
            first_row += each.rows.row_count


def _records(taken: TopicRows) -> Iterator[OutgoingRecord]:
    """The rows as an interceptor sees them."""
    for row in iterate_rows(taken.rows):
        headers = None if row.headers is None else [(name or "", content) for name, content in row.headers]
        yield OutgoingRecord(
            taken.topics[row.topic or 0], row.value, row.key, headers, row.partition, row.timestamp_ms
        )


def _first_row(portion: Portion, wanted: Container[tuple[int, int]]) -> tuple[int, tuple[int, int]]:
    """The first of these rows: by the number of its place, and how many rows of that place come before."""
    ranks = [0] * len(portion.places)
    for row, number in enumerate(portion.place_of_row):
        if (number, ranks[number]) in wanted:
            return portion.first_row + row, (number, ranks[number])
        ranks[number] += 1
    raise AssertionError("every row has a place")


def _of_row(error: Exception, row: int, batch: ProducerBatch) -> Exception:
    result = copy.copy(error)
    if isinstance(result, errors.PenstockError):
        result.about = f"row {row}, {batch.topic}-{batch.partition}"
    return result


def _refusal(why: Fault, row: int, size: int, record_bytes_max: int) -> errors.PenstockError:
    about = f"row {row}"
    if why is Fault.TOO_LARGE:
        message = f"a record of {size} bytes with its overhead exceeds max.request.size or buffer.memory"
        return errors.RecordTooLarge(f"{message}, which is {record_bytes_max}", about=about)
    message = {
        Fault.NO_TOPIC: "its topic is null",
        Fault.NO_SUCH_PARTITION: "its topic has no such partition",
        Fault.TOO_EARLY: "its timestamp is before 1970",
        Fault.NAMELESS_HEADER: "one of its headers has no name",
    }[why]
    return errors.BadArgument(message, about=about)
