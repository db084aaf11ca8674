"""One stateless and one stateful query; the program does not know where Spark runs."""

from __future__ import annotations

import os

from marking import marked
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter

from penstock.spark import to_topics

BROKERS = {"kafka.bootstrap.servers": os.environ["PENSTOCK_BOOTSTRAP_SERVERS"]}


@F.udf("string")
def shout(word):  # without type hints, which Spark would interpret
    return marked(bytes(word).decode().upper())  # only workers with the program have this


def pipeline(spark: SparkSession) -> dict[str, DataStreamWriter]:
    words = spark.readStream.format("penstock").options(
        subscribe="words", startingOffsets="earliest", **BROKERS
    )
    return {"shouts": shouts(words.load()), "counts": counts(words.load())}


def shouts(words: DataFrame) -> DataStreamWriter:
    shouted = words.select(shout("value").alias("value"))
    return shouted.writeStream.format("penstock").options(topic="shouts", **BROKERS)


def counts(words: DataFrame) -> DataStreamWriter:
    counted = words.groupBy(F.col("value").alias("key")).count()
    rows = counted.select("key", F.col("count").cast("string").alias("value"))
    sink = to_topics({"topic": "counts", **BROKERS}, name="counts")
    return rows.writeStream.outputMode("update").foreachBatch(sink)
