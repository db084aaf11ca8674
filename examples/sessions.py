"""Sessions of clicks: the clicks of a user without a pause of thirty seconds are one visit, written when it ends.

    penstock pipeline run examples/sessions.py

A click may be up to ten seconds late. Each visit is written exactly once, when no more clicks can belong to it.
"""

from __future__ import annotations

import os

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter

BROKERS = {"kafka.bootstrap.servers": os.environ.get("PENSTOCK_BOOTSTRAP_SERVERS", "localhost:9092")}
PAUSE = "30 seconds"
LATENESS = "10 seconds"


def pipeline(spark: SparkSession) -> DataStreamWriter:
    # The key of a click is the user, the value the page; the record's timestamp is the time of the click.
    clicks = (
        spark.readStream.format("penstock")
        .options(subscribe="clicks", startingOffsets="earliest", groupId="sessions", **BROKERS)
        .load()
        .select("timestamp", "key", F.decode("value", "utf-8").alias("page"))
    )
    visits = (
        clicks.withWatermark("timestamp", LATENESS)
        .groupBy("key", F.session_window("timestamp", PAUSE).alias("visit"))
        .agg(
            F.count("*").alias("clicks"),
            F.min_by("page", "timestamp").alias("entered"),
            F.max_by("page", "timestamp").alias("left"),
            F.max("timestamp").alias("last"),
        )
    )
    seconds = F.unix_timestamp("last") - F.unix_timestamp("visit.start")
    value = F.struct("clicks", "entered", "left", seconds.alias("seconds"))
    rows = visits.select("key", F.to_json(value).alias("value"))
    return rows.writeStream.format("penstock").options(topic="visits", **BROKERS)
