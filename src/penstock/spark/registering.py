"""Makes the data source known to a session.

What Spark pickles by name it finds again where it runs; what a session alone knows (how many tasks it runs at a time)
travels in a class that is made here, and is therefore pickled by value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> SparkSession:
    from penstock.spark.source import PenstockDataSource

    parallelism = _parallelism(spark)

    class Registered(PenstockDataSource):
        cores = parallelism

    spark.dataSource.register(Registered)
    return spark


def _parallelism(spark: SparkSession) -> int | None:
    """None for Spark Connect, which does not tell."""
    from pyspark.sql.utils import is_remote

    if is_remote():
        return None
    return spark.sparkContext.defaultParallelism
