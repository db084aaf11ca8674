"""Log analytics to Parquet: lines of a web server's log become columns in files that any tool can read.

    penstock pipeline run examples/access_logs.py
    python -c "import pandas; print(pandas.read_parquet('access-logs').groupby('status').size())"

There is one folder per hour. Lines that do not match the log format are kept with empty columns and their text in
`line`.
"""

from __future__ import annotations

import os

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter

BROKERS = {"kafka.bootstrap.servers": os.environ.get("PENSTOCK_BOOTSTRAP_SERVERS", "localhost:9092")}
FOLDER = os.environ.get("ACCESS_LOGS", "access-logs")

# 203.0.113.7 - - [15/Nov/2026:20:18:07 +0000] "GET /orders/17 HTTP/1.1" 200 5120
LINE = r'^(\S+) \S+ \S+ \[([^\]]+)\] "(\S+) (\S+)[^"]*" (\d{3}) (\d+)'
TIME = "dd/MMM/yyyy:HH:mm:ss Z"


def pipeline(spark: SparkSession) -> DataStreamWriter:
    lines = (
        spark.readStream.format("penstock")
        .options(subscribe="access-log", startingOffsets="earliest", groupId="access-logs", **BROKERS)
        .load()
        .select(F.decode("value", "utf-8").alias("line"), "timestamp")
    )

    def part(number: int) -> F.Column:
        found = F.regexp_extract("line", LINE, number)
        return F.when(found != "", found)

    requests = lines.select(
        part(1).alias("address"),
        F.to_timestamp(part(2), TIME).alias("time"),
        part(3).alias("method"),
        part(4).alias("path"),
        part(5).cast("int").alias("status"),
        part(6).cast("long").alias("bytes"),
        "line",
        F.date_format("timestamp", "yyyy-MM-dd-HH").alias("hour"),
    )
    return requests.writeStream.format("parquet").partitionBy("hour").option("path", FOLDER)
