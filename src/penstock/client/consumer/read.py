"""A bounded read of topics: up to the end, to given offsets or to a time, into Arrow, pandas or a list.

`ReadPlan` decides, without I/O, what belongs to the read, and makes columns of fetched data. For columns no Python runs
per record: the kernel copies a response's bytes into Arrow buffers, and the columns `topic` and `partition` are made
once for all responses of a partition.

Invariant: exactly the returned rows count as consumed: after a read that ended early, the consumer continues with the
first message that was not returned.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from penstock.client import errors
from penstock.client.cluster import TopicPartition
from penstock.client.consumer.arguments import partition_of, timestamp_of
from penstock.client.consumer.fetch_plan import Fetched
from penstock.client.consumer.positions import Positions
from penstock.client.serializers.libraries import need
from penstock.records.columns import HeaderColumn, column_builder, column_schema, record_batch
from penstock.records.consuming import Message

if TYPE_CHECKING:
    import pyarrow

Until = Literal["end"] | Mapping[TopicPartition, int] | int | datetime.datetime
"""The present end of the log, offsets (exclusive) by partition, or a time: only older messages are read."""

ROWS_MAX = 1 << 20  # of one batch of columns
# How much is fetched of a partition at a time by default: bench "consume into Arrow".
PARTITION_BYTES = 4 * 1024 * 1024


class Bounds(NamedTuple):
    """The parsed `until` argument."""

    offsets: dict[TopicPartition, int] | None = None
    timestamp: int | None = None


def bounds_of(until: object) -> Bounds:
    if isinstance(until, str):
        if until == "end":
            return Bounds()
    elif isinstance(until, Mapping):
        offsets = {}
        for partition, offset in until.items():
            if not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
                raise errors.BadArgument(f"{offset!r} is not an offset", about=partition)
            offsets[partition_of(partition)] = offset
        return Bounds(offsets=offsets)
    elif isinstance(until, int | datetime.datetime):
        return Bounds(timestamp=timestamp_of(until))
    raise errors.BadArgument(f"until must be 'end', offsets by partition, or a time, not {until!r}")


class Columns(NamedTuple):
    """The optional columns of a read."""

    headers: bool = True
    timestamp_types: bool = False

    @property
    def header_format(self) -> HeaderColumn:
        return HeaderColumn.LIST if self.headers else HeaderColumn.NONE


USUAL = Columns()


class ReadPlan:
    """One read: its partitions with their end offsets, and how many rows are left."""

    def __init__(
        self,
        positions: Positions,
        ends: Mapping[TopicPartition, int],
        *,
        limit: int | None = None,
        columns: Columns = USUAL,
    ) -> None:
        self._positions = positions
        self._ends = dict(ends)
        self._left = limit
        self._columns = columns
        self._topics = sorted({partition.topic for partition in ends})
        self._dictionary: Any = None
        self._places: dict[TopicPartition, tuple[Any, Any]] = {}
        """The columns `topic` and `partition`, which are the same for all rows: each batch has a slice of the
        longest."""
        self.rewind: tuple[TopicPartition, int] | None = None
        """Where to seek, because more was decoded than the limit allows."""
        self._unread = dict.fromkeys(ends)
        """Partitions that have not reached their end yet. Each portion checks only the first: checking all would be
        quadratic in the number of partitions."""
        self._apply()

    def _apply(self) -> None:
        """Let only the partitions and offsets of the read be fetched and returned."""
        for state in self._positions:
            end = self._ends.get(state.partition)
            state.stop_offset = end
            state.is_parked = end is None or (state.has_position and state.offset >= end)

    def release(self) -> None:
        for state in self._positions:
            state.stop_offset = None
            state.is_parked = False

    @property
    def is_done(self) -> bool:
        """Whether everything was returned. Revoked partitions do not count."""
        if self._left == 0:
            return True
        while self._unread:
            partition = next(iter(self._unread))
            if not self._is_at_end(partition):
                return False
            del self._unread[partition]
        return True

    def note_progress(self, partition: TopicPartition) -> None:
        """A portion of this partition was read, and its position has moved."""
        if partition in self._unread and self._is_at_end(partition):
            del self._unread[partition]

    def _is_at_end(self, partition: TopicPartition) -> bool:
        state = self._positions.get(partition)
        if state is None:
            return True
        is_at_end = state.has_position and state.offset >= self._ends[partition]
        state.is_parked |= is_at_end
        return is_at_end

    def columns(self, fetched: Fetched) -> pyarrow.RecordBatch | None:
        """The rows of this source as one batch; None if there are none."""
        partition = fetched.state.partition
        end = self._ends.get(partition, 0)
        builder = column_builder(self._columns.header_format)
        rows_max = ROWS_MAX if self._left is None else min(self._left, ROWS_MAX)
        fetched.records.fill(builder, end_offset=end, rows_max=rows_max)
        if not builder.row_count:
            return None
        extra = self._columns
        batch = record_batch(builder.take(), extra.header_format, timestamp_types=extra.timestamp_types)
        if self._left is not None:
            if batch.num_rows > self._left:
                self.rewind = partition, batch.column("offset")[self._left].as_py()
                batch = batch.slice(0, self._left)
            self._left -= batch.num_rows
        return self._with_place(batch, partition)

    def messages(self, fetched: Fetched) -> list[Message]:
        """The rows of this source as messages."""
        end = self._ends.get(fetched.state.partition, 0)
        taken: list[Message] = []
        count_max = ROWS_MAX if self._left is None else self._left
        # At most as many as there are offsets below the end; compaction may have left fewer.
        while len(taken) < count_max and fetched.records.next_offset < end:
            room = min(count_max - len(taken), end - fetched.records.next_offset)
            more = fetched.records.take(room)
            taken += more
            if len(more) < room:
                break
        while taken and taken[-1].offset >= end:  # gaps in the offsets led past the end
            message = taken.pop()
            self.rewind = fetched.state.partition, message.offset
        if self._left is not None:
            self._left -= len(taken)
        return taken

    @property
    def schema(self) -> pyarrow.Schema:
        return read_schema(self._columns)

    def _with_place(self, batch: pyarrow.RecordBatch, partition: TopicPartition) -> pyarrow.RecordBatch:
        import pyarrow as pa

        rows = batch.num_rows
        columns = self._places.get(partition)
        if columns is None or len(columns[0]) < rows:
            if self._dictionary is None:
                self._dictionary = pa.array(self._topics, pa.string())
            index = pa.scalar(self._topics.index(partition.topic), pa.int32())
            topic = pa.DictionaryArray.from_arrays(pa.repeat(index, rows), self._dictionary)
            number = pa.repeat(pa.scalar(partition.partition, pa.int32()), rows)
            columns = self._places[partition] = (topic, number)
        place = [column.slice(0, rows) for column in columns]
        return pa.RecordBatch.from_arrays([*place, *batch.columns], schema=self.schema)


@cache
def read_schema(columns: Columns = USUAL) -> pyarrow.Schema:
    """The columns of a read: topic, partition, offset, timestamp, key, value; headers and timestamp_type if wanted."""
    pa = need("pyarrow", extra="arrow")
    place = [
        pa.field("topic", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
    ]
    own = column_schema(columns.header_format, timestamp_types=columns.timestamp_types)
    return pa.schema([*place, *own])


def table_of(batches: list[pyarrow.RecordBatch], schema: pyarrow.Schema) -> pyarrow.Table:
    pa = need("pyarrow", extra="arrow")
    return pa.Table.from_batches(batches, schema=schema)


def frame_of(table: pyarrow.Table) -> Any:
    """A pandas DataFrame."""
    need("pandas", extra="pandas")
    return table.to_pandas()


Make = Callable[[ReadPlan, Fetched], Any]
"""`ReadPlan.columns` or `ReadPlan.messages`."""
