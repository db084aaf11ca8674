"""Spark on Penstock: the data source `penstock` for reading and writing, in batches and as streams.

spark = penstock.spark.session("orders")        # or penstock.spark.register(any_session)
spark.readStream.format("penstock").option("kafka.bootstrap.servers", "localhost:9092").option("subscribe", "orders")
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.sink.foreach_batch import ForeachBatchWriter

__all__ = ["finish_query", "finish_write", "register", "session", "to_topics"]


def register(spark: SparkSession) -> SparkSession:
    """Register the data source `penstock` with a session, classic or Spark Connect. Returns the session."""
    from penstock.spark.registering import register

    return register(spark)


def to_topics(options: Mapping[str, str], *, name: str | None = None) -> ForeachBatchWriter:
    """A function for `foreachBatch` that writes each batch exactly once. It serves streams in update mode, which Spark
    does not offer to Python sinks."""
    from penstock.spark.sink.foreach_batch import to_topics

    return to_topics(options, name=name)


def finish_write(options: Mapping[str, str], write_id: str) -> bool:
    """Finish an exactly-once batch write whose driver died: commit it if the commit was decided, otherwise abort it.
    Returns whether it is committed. A job that still runs under this id is stopped."""
    from penstock.spark.sink.finishing import finish_write

    return finish_write(options, write_id)


def finish_query(options: Mapping[str, str], query_id: str) -> int | None:
    """End the open transactions of an exactly-once stream whose driver died and that will not be restarted: commit the
    last batch if that was decided, and abort the rest. Returns the id of the last committed batch, or None. A query
    that still runs under this id is stopped; it can be started again later."""
    from penstock.spark.sink.finishing import finish_query

    return finish_query(options, query_id)


def __getattr__(name: str) -> Any:
    if name == "session":
        from penstock.spark.sessions import session

        return session
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
