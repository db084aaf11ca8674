"""The result of `Consumer.read`: it reads when it is used, once, in the form that is asked for.

`sync` and `aio` pass the function that runs the read.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.client import errors
from penstock.client.consumer.read import Columns, Make, ReadPlan, frame_of, read_schema, table_of
from penstock.records.consuming import Message

if TYPE_CHECKING:
    import pandas
    import pyarrow

Parts = TypeVar("Parts", bound=Iterator[Any] | AsyncIterator[Any])


class _ReadOnce(Generic[Parts]):
    def __init__(self, run: Callable[[Make], Parts], columns: Columns) -> None:
        self._run: Callable[[Make], Parts] | None = run
        self._columns = columns

    def _begin(self, make: Make) -> Parts:
        run, self._run = self._run, None
        if run is None:
            raise errors.IllegalState("this result was used already; call read() again to continue")
        return run(make)

    def _table(self, batches: list[pyarrow.RecordBatch]) -> pyarrow.Table:
        return table_of(batches, read_schema(self._columns))


class Reading(_ReadOnce[Iterator[Any]]):
    """The result of `Consumer.read`. Use it once: iterate over Arrow batches, or convert the whole."""

    def __iter__(self) -> Iterator[pyarrow.RecordBatch]:
        return self._begin(ReadPlan.columns)

    def to_arrow(self) -> pyarrow.Table:
        """A pyarrow Table with topic, partition, offset, timestamp, key, value and headers; keys and values are
        bytes."""
        return self._table(list(self))

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas DataFrame with the columns of `to_arrow`."""
        return frame_of(self.to_arrow())

    def to_messages(self) -> list[Message]:
        """A list of messages, with keys and values from the deserializers."""
        return [message for messages in self._begin(ReadPlan.messages) for message in messages]


class AsyncReading(_ReadOnce[AsyncIterator[Any]]):
    """The result of `Consumer.read` for asyncio."""

    def __aiter__(self) -> AsyncIterator[pyarrow.RecordBatch]:
        return self._begin(ReadPlan.columns)

    async def to_arrow(self) -> pyarrow.Table:
        """A pyarrow Table with topic, partition, offset, timestamp, key, value and headers; keys and values are
        bytes."""
        return self._table([batch async for batch in self])

    async def to_pandas(self) -> pandas.DataFrame:
        """A pandas DataFrame with the columns of `to_arrow`."""
        return frame_of(await self.to_arrow())

    async def to_messages(self) -> list[Message]:
        """A list of messages, with keys and values from the deserializers."""
        return [message async for messages in self._begin(ReadPlan.messages) for message in messages]
