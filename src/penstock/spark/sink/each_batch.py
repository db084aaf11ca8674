"""Streams in update mode: Spark lets no Python sink take them, so their batches are written one by one.

    counts.writeStream.outputMode("update").foreachBatch(penstock.spark.to_topics({"topic": "counts", ...}))

`foreachBatch` alone is at-least-once: a batch that is replayed after a crash is written again. Here every batch is
written under the name of its sink and its number by the protocol of `protocol`, as the stream's own sink would do it,
so a replay writes nothing twice.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, TypeGuard

from penstock.spark.errors import BadOption
from penstock.spark.options import Options, Use
from penstock.spark.sink import EXACTLY_ONCE
from penstock.spark.sink.decision import SinkStopped
from penstock.spark.sink.messages import WRITE, is_write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OPTION = "penstock.batch"
QUERY_ID = "sql.streaming.queryId"
RUN_ID = "spark.jobGroup.id"  # of a stream's jobs, the id of the run

_own_run = uuid.uuid4().hex
"""Of queries on Spark Connect, whose batches are written by a process of their own that lives as long as they run."""


_failed: set[tuple[str, str]] = set()
"""Sinks and runs of which a batch has failed. A function that passes over the error would let Spark take the batch for
written, and nobody would look after what was decided of it: such a run has to end, and the next one does."""


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """Which batch of which run of which sink a job writes."""

    sink: str
    run: str
    batch: int

    def pack(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def unpack(cls, text: str) -> StreamBatch:
        return cls(**json.loads(text))


class EachBatch:
    """What `foreachBatch` calls. It can be pickled, and holds nothing but what it was made of."""

    def __init__(self, options: Mapping[str, str], *, name: str | None) -> None:
        self._read = Options.read(options, Use.BATCH_WRITE)
        if self._read.is_set("writeId"):
            raise BadOption("option writeId identifies a batch write; to_topics has a name instead")
        if name is not None and is_write(name):
            raise BadOption(
                f"the name {name!r} begins with {WRITE!r}, which marks batch writes; choose another one"
            )
        guarantee = self._read.get("guarantee") or EXACTLY_ONCE
        # However it was spelt: a batch by itself would be written at least once.
        self._options = {name: said for name, said in options.items() if name.lower() != "guarantee"}
        self._options["guarantee"] = guarantee
        self._is_once = self._read.is_exactly_once(is_stream=True)
        self._name = name

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        writer = batch.write.format("penstock").mode("append").options(**self._options)
        if self._is_once:
            place = self._place(batch, batch_id)
            self._note(batch, place)
            _check_not_failed(place)
            writer = writer.option(OPTION, place.pack())
        try:
            writer.save()
        except BaseException:
            if self._is_once:
                _failed.add((place.sink, place.run))
            raise

    def _note(self, batch: DataFrame, place: StreamBatch) -> None:
        """So that the driver ends what is left open when the query is over. Through Spark Connect this is no driver."""
        from pyspark.sql.utils import is_remote

        if not is_remote():
            from penstock.spark.sink.retiring import CARETAKER, SinkRun, stopped

            run = SinkRun.of(self._read, sink=place.sink, run=place.run)
            CARETAKER.note(run, is_over=stopped(batch.sparkSession.sparkContext))

    def _place(self, batch: DataFrame, batch_id: int) -> StreamBatch:
        from pyspark.sql.utils import is_remote

        if is_remote():
            if self._name is None:
                raise BadOption(
                    "through Spark Connect, to_topics needs a name that stays the same when the query is started again"
                )
            return StreamBatch(self._name, _own_run, batch_id)
        context = batch.sparkSession.sparkContext
        query, run = context.getLocalProperty(QUERY_ID), context.getLocalProperty(RUN_ID)
        if query is None or not _is_run(run):
            raise BadOption(
                "to_topics has to be called in the thread in which Spark calls the function of foreachBatch, and under"
                f" the job group that Spark gave it, which names the run of the query; here it is {run!r}: set another"
                " one afterwards"
            )
        return StreamBatch(self._name or query, run, batch_id)


def _check_not_failed(place: StreamBatch) -> None:
    if (place.sink, place.run) in _failed:
        raise SinkStopped(
            f"a batch of query {place.sink} failed before, and the function of foreachBatch passed over it: let the"
            " error out, and start the query again"
        )


def _is_run(group: str | None) -> TypeGuard[str]:
    """Whether a job group is a run of a query. One that a user gives stays the same when the query is started again,
    and a batch of the run before would seem to be of this one."""
    try:
        return group is not None and str(uuid.UUID(group)) == group
    except ValueError:
        return False


def to_topics(options: Mapping[str, str], *, name: str | None = None) -> EachBatch:
    """For `foreachBatch`, with the options of the sink. `name` stands for the query's id, which is the same after a
    restart from its checkpoint; through Spark Connect it has to be given, because nothing tells the id there."""
    return EachBatch(options, name=name)
