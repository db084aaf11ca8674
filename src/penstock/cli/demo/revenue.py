"""The pipeline of the demo: orders by country in windows of five seconds, written exactly once.

`penstock pipeline run` could run it. It is a normal Structured Streaming program with the format `penstock` instead of
`kafka`. Its output topic is a table: the latest record of a key holds the window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.cli.demo.orders import CUSTOMERS_TOPIC, ORDERS_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

REVENUE_TOPIC = "revenue"
WINDOW = "5 seconds"
LATENESS = "1 minute"


def revenue(spark: SparkSession, brokers: str) -> DataStreamWriter:
    from pyspark.sql import functions as F

    from penstock.spark import to_topics

    orders = (
        spark.readStream.format("penstock")
        .option("kafka.bootstrap.servers", brokers)
        .option("subscribe", ORDERS_TOPIC)
        .option("startingOffsets", "earliest")
        .option("groupId", "revenue")
        .load()
        .select("timestamp", "key", F.from_json(F.decode("value", "utf-8"), "cents long").alias("order"))
    )
    by_country = (
        orders.withWatermark("timestamp", LATENESS)
        .join(customers(spark, brokers), "key", "left")
        .groupBy(F.window("timestamp", WINDOW), F.coalesce("country", F.lit("??")).alias("country"))
        .agg(F.count("*").alias("orders"), F.sum("order.cents").alias("cents"))
    )
    begin = F.date_format("window.start", "HH:mm:ss")
    rows = by_country.select(
        F.concat_ws(" ", begin, "country").alias("key"),
        F.to_json(F.struct(begin.alias("from"), "country", "orders", "cents")).alias("value"),
    )
    sink = to_topics({"kafka.bootstrap.servers": brokers, "topic": REVENUE_TOPIC}, name="revenue")
    return rows.writeStream.outputMode("update").foreachBatch(sink).trigger(processingTime="1 second")


def customers(spark: SparkSession, brokers: str) -> DataFrame:
    """The current table: the latest record of each key. Every micro-batch reads it again."""
    from pyspark.sql import functions as F

    records = (
        spark.read.format("penstock")
        .option("kafka.bootstrap.servers", brokers)
        .option("subscribe", CUSTOMERS_TOPIC)
        .load()
    )
    latest = records.groupBy("key").agg(F.max_by("value", "offset").alias("value"))
    return latest.select("key", F.get_json_object(F.decode("value", "utf-8"), "$.country").alias("country"))
