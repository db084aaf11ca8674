"""Registers the data source with a session.

Spark pickles classes of importable modules by name. The session's parallelism travels in a class that is defined here
at run time, and is therefore pickled by value.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from penstock.spark.internals import active_session, is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Sessions that already have a listener.
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
    with active_session(spark):
        spark.dataSource.register(Registered)
    if spark not in _LISTENING:
        from penstock.spark.listener import ProgressListener

        spark.streams.addListener(ProgressListener(spark))
        _LISTENING.add(spark)
    return spark
