"""Makes the data source known to a session.

What Spark pickles by name it finds again where it runs; what a session alone knows (how many tasks it runs at a time)
travels in a class that is made here, and is therefore pickled by value.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Sessions that have a listener already. A session that is made anew is another.
_LISTENING: weakref.WeakSet[SparkSession] = weakref.WeakSet()


def register(spark: SparkSession) -> SparkSession:
    from penstock.spark.source import PenstockDataSource
    from penstock.spark.worker_python import check_workers

    parallelism = None if is_connect(spark) else spark.sparkContext.defaultParallelism

    class Registered(PenstockDataSource):
        cores = parallelism

    if is_connect(spark):
        spark.dataSource.register(Registered)
        return spark
    check_workers(spark.sparkContext)
    with active(spark):
        spark.dataSource.register(Registered)
    if spark not in _LISTENING:
        from penstock.spark.listener import ProgressListener

        spark.streams.addListener(ProgressListener(spark))
        _LISTENING.add(spark)
    return spark


@contextlib.contextmanager
def active(spark: SparkSession) -> Iterator[None]:
    """Spark looks whether the name is taken in the session that is active, which may be another one, that knows us."""
    jvm: Any = spark._jvm
    sessions = jvm.org.apache.spark.sql.classic.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def is_connect(spark: SparkSession) -> bool:
    """A session of Spark Connect has no JVM at hand: neither its cores nor its plans can be seen."""
    return type(spark).__module__.startswith("pyspark.sql.connect")
