"""Sessionised clicks: what one user does without a pause of thirty seconds is one visit, written when it is over.

    penstock pipeline run examples/sessions.py

A click may come late by up to ten seconds. A visit is written once, exactly once, after its pause has passed for sure.
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
    # The key of a click is its user, the value the page; its time is the record's.
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
