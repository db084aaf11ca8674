"""Spark on Penstock: the data source `penstock` for reading and writing, in batches and as streams.

spark = penstock.spark.session("orders")        # or penstock.spark.register(any_session)
spark.readStream.format("penstock").option("kafka.bootstrap.servers", "localhost:9092").option("subscribe", "orders")
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.sink.each_batch import EachBatch

__all__ = ["finish_query", "finish_write", "register", "session", "to_topics"]


def register(spark: SparkSession) -> SparkSession:
    """Make the data source `penstock` known to a session, also to one of Spark Connect. Returns the session."""
    from penstock.spark.registering import register

    return register(spark)


def to_topics(options: Mapping[str, str], *, name: str | None = None) -> EachBatch:
    """For `foreachBatch`: streams in update mode, which Spark lets no Python sink take, exactly once all the same."""
    from penstock.spark.sink.each_batch import to_topics

    return to_topics(options, name=name)


def finish_write(options: Mapping[str, str], write_id: str) -> bool:
    """Finish an exactly-once batch write whose driver died: commit it if that was decided, and roll it back otherwise.
    Returns whether it is committed. A job that still runs under this id is stopped."""
    from penstock.spark.sink.finishing import finish_write

    return finish_write(options, write_id)


def finish_query(options: Mapping[str, str], query_id: str) -> int | None:
    """End what an exactly-once stream has left open whose driver died and that nobody starts again: commit its last
    batch if that was decided, and roll back the rest. Returns the number of the last committed batch, None if there is
    none. A query that still runs under this id is stopped; it may be started again later."""
    from penstock.spark.sink.finishing import finish_query

    return finish_query(options, query_id)


def __getattr__(name: str) -> Any:
    if name == "session":
        from penstock.spark.sessions import session

        return session
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
