"""One call of `send_arrow`: its rows on their way into batches, and the receipt of all of them.

`RowSending` says what stands in the way (a topic to be learnt, a buffer to get room) and the two faces wait for it,
each in its own manner. Every row is looked at before the first is taken in, so that what cannot be sent is told with
nothing sent. Where interceptors want to see every record, or a partitioner of the application's own chooses, rows go
one by one the way of a record; everywhere else the kernel takes them.

Serializers have no part in it: keys and values are the bytes that the columns have.
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
    """Rows that stand behind one another in a batch."""

    batch: ProducerBatch
    first: int
    row_count: int


class Portion(NamedTuple):
    """What became of one batch of the table: places, and for each row the number of its place."""

    first_row: int
    places: list[Place]
    place_of_row: array[int]


class RowsReceipt:
    """What `send_arrow` gives: a promise that tells what becomes of all its rows."""

    def __init__(self, count: int) -> None:
        self.count = count
        """How many rows there are."""
        self._portions: list[Portion] = []
        self._asked: set[tuple[int, int, int]] = set()

    def done(self) -> bool:
        """Whether it is known what became of every row."""
        return all(part.batch.is_done for _, _, part in self._parts())

    def result(self, timeout: float | None = None) -> dict[TopicPartition, int]:
        """How many rows were written to which partition; waits for that, and raises the error of the first row that was
        not, which it names. `timeout` is in seconds."""
        self._wait(timeout)
        return self._outcome()

    def exception(self, timeout: float | None = None) -> Exception | None:
        """Why not all rows were written, or None where they were; waits like `result`."""
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
            assert batch.waiting is not None, "whoever makes a batch that is waited for says how"
            batch.waiting.wait_for(batch, left_s)

    def _unfinished(self) -> ProducerBatch | None:
        """A batch whose outcome is not known; all count as asked about, so that `flush` does not tell of them too."""
        unfinished = None
        for _, _, part in self._parts():
            asked = (id(part.batch), part.first, part.row_count)
            if asked not in self._asked:
                self._asked.add(asked)
                part.batch.ask(part.row_count)
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
        """The error of the first row that has one, with the row named."""
        failed: dict[int, dict[tuple[int, int], tuple[ProducerBatch, int]]] = {}
        for portion, (number, rank), part in self._parts():
            batch = part.batch
            if batch.error is None:
                continue
            # A record that is bad itself has all of its batch refused; it is the one to be told of.
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
        """Every place as it is now, after batches were split; with the number that it has, and how many rows of that
        number come before."""
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
            raise errors.BadArgument(f"a topic is text, and {topic!r} is {type(topic).__name__}")
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
        """Those that have to be learnt before anything else."""
        wanted = dict.fromkeys(name for each in self._batches for name in each.topics)
        return [name for name in wanted if name not in self._core.intake.topics]

    def advance(self) -> int | None:
        """Take in what there is room for. None: all is in; else the bytes of room that the next row waits for, or 0
        where others only want a turn."""
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
        """Send row by row, yielding the bytes of room that are wanted while there is none."""
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
    """The first row that is one of those: by the number of its place, and how many rows of that come before."""
    ranks = [0] * len(portion.places)
    for row, number in enumerate(portion.place_of_row):
        if (number, ranks[number]) in wanted:
            return portion.first_row + row, (number, ranks[number])
        ranks[number] += 1
    raise AssertionError("every row has a place")


def _of_row(error: Exception, row: int, batch: ProducerBatch) -> Exception:
    told = copy.copy(error)
    if isinstance(told, errors.PenstockError):
        told.about = f"row {row}, {batch.topic}-{batch.partition}"
    return told


def _refusal(why: Fault, row: int, size: int, record_bytes_max: int) -> errors.PenstockError:
    about = f"row {row}"
    if why is Fault.TOO_LARGE:
        words = f"a record of {size} bytes with its overhead is larger than max.request.size or buffer.memory allow"
        return errors.RecordTooLarge(f"{words}, which is {record_bytes_max}", about=about)
    words = {
        Fault.NO_TOPIC: "its topic is null",
        Fault.NO_SUCH_PARTITION: "its topic has no such partition",
        Fault.TOO_EARLY: "its timestamp is before 1970",
        Fault.NAMELESS_HEADER: "one of its headers has no name",
    }[why]
    return errors.BadArgument(words, about=about)
