"""A query whose function raises for a malformed record."""

from __future__ import annotations

import os

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter

BROKERS = {"kafka.bootstrap.servers": os.environ["PENSTOCK_BOOTSTRAP_SERVERS"]}


@F.udf("string")
def price(item):
    if bytes(item) == b"bad":
        raise ValueError("no price for it")
    return "17"


def pipeline(spark: SparkSession) -> DataStreamWriter:
    items = spark.readStream.format("penstock").options(
        subscribe="items", startingOffsets="earliest", **BROKERS
    )
    prices = items.load().select("key", price("value").alias("value"))
    return prices.writeStream.format("penstock").options(topic="prices", **BROKERS)
