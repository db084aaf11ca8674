"""Exactly-once writes from `foreachBatch`, for streams in update mode, which Spark does not offer to Python sinks.

    counts.writeStream.outputMode("update").foreachBatch(penstock.spark.to_topics({"topic": "counts", ...}))

`foreachBatch` alone is at-least-once: a batch that is replayed after a crash is written again. Here every batch is
written under the name of its sink and its batch id with the steps of `protocol`, as by the stream's own sink, so a
replay writes nothing twice.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeGuard

from penstock.spark.errors import BadOption
from penstock.spark.internals import is_connect, is_stopped, stream_job
from penstock.spark.options import Options, Use
from penstock.spark.sink import EXACTLY_ONCE
from penstock.spark.sink.decision import SinkStopped
from penstock.spark.sink.messages import WRITE, is_write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OPTION = "penstock.batch"

_own_run = uuid.uuid4().hex
"""The run of queries on Spark Connect, whose batches are written by a separate process that lives as long as the
query."""


_failed: set[tuple[str, str]] = set()
"""Sinks and runs with a failed batch. If the user's function ignores the error, Spark counts the batch as written,
and its decision might never be completed. Such a run has to end; the next one completes it."""


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """The batch of a run of a sink that a job writes."""

    sink: str
    run: str
    batch: int

    def pack(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def unpack(cls, text: str) -> StreamBatch:
        return cls(**json.loads(text))


class ForeachBatchWriter:
    """The function for `foreachBatch`. It can be pickled, and holds only its arguments."""

    def __init__(self, options: Mapping[str, str], *, name: str | None) -> None:
        self._read = Options.read(options, Use.BATCH_WRITE)
        if self._read.is_set("writeId"):
            raise BadOption("option writeId is for batch writes; give to_topics a name instead")
        if name is not None and is_write(name):
            raise BadOption(
                f"the name {name!r} starts with {WRITE!r}, which is reserved for batch writes; choose another one"
            )
        guarantee = self._read.get("guarantee") or EXACTLY_ONCE
        # In any case: without this option, a batch would be written at least once.
        self._options = {name: value for name, value in options.items() if name.lower() != "guarantee"}
        self._options["guarantee"] = guarantee
        self._is_once = self._read.is_exactly_once(is_stream=True)
        self._name = name

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        writer = batch.write.format("penstock").mode("append").options(**self._options)
        if self._is_once:
            stream_batch = self._stream_batch(batch, batch_id)
            self._watch(batch, stream_batch)
            _check_not_failed(stream_batch)
            writer = writer.option(OPTION, stream_batch.pack())
        try:
            writer.save()
        except BaseException:
            if self._is_once:
                _failed.add((stream_batch.sink, stream_batch.run))
            raise

    def _watch(self, batch: DataFrame, stream_batch: StreamBatch) -> None:
        """Make the driver end open transactions when the query terminates. Through Spark Connect this process is no
        driver."""
        if not is_connect(batch.sparkSession):
            from penstock.spark.sink.cleanup import CLEANUP, SinkRun

            run = SinkRun.of(self._read, sink=stream_batch.sink, run=stream_batch.run)
            CLEANUP.add(run, is_over=partial(is_stopped, batch.sparkSession.sparkContext))

    def _stream_batch(self, batch: DataFrame, batch_id: int) -> StreamBatch:
        if is_connect(batch.sparkSession):
            if self._name is None:
                raise BadOption(
                    "through Spark Connect, to_topics needs a name that stays the same when the query is restarted"
                )
            return StreamBatch(self._name, _own_run, batch_id)
        query, run, _ = stream_job(batch.sparkSession.sparkContext)
        if query is None or not _is_run(run):
            raise BadOption(
                "call to_topics in the thread in which Spark calls the function of foreachBatch, with the job group"
                f" that Spark has set to the run of the query; it is {run!r}: set another job group only afterwards"
            )
        return StreamBatch(self._name or query, run, batch_id)


def _check_not_failed(stream_batch: StreamBatch) -> None:
    if (stream_batch.sink, stream_batch.run) in _failed:
        raise SinkStopped(
            f"an earlier batch of query {stream_batch.sink} failed, and the function of foreachBatch ignored the error:"
            " let it raise, and start the query again"
        )


def _is_run(group: str | None) -> TypeGuard[str]:
    """Whether a job group is the run id of a query. A user's job group stays the same when the query is restarted,
    so a batch of the previous run would seem to belong to this one."""
    try:
        return group is not None and str(uuid.UUID(group)) == group
    except ValueError:
        return False


def to_topics(options: Mapping[str, str], *, name: str | None = None) -> ForeachBatchWriter:
    """For `foreachBatch`, with the options of the sink. `name` replaces the query id, which stays the same after a
    restart from the checkpoint. Through Spark Connect the id is unknown, so a name is required."""
    return ForeachBatchWriter(options, name=name)
