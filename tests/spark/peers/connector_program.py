"""A program for Spark's own Kafka connector: `connector_program.py JARS BOOTSTRAP TOPIC OUTPUT FOLDER`.

It writes rows to a topic, reads them back as a batch, and copies them to another topic as a stream. It prints what
it has read as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

ROWS = 1_000
HEADERS = "array(named_struct('key', 'number', 'value', cast(cast(id as string) as binary)))"


def main(jars: str, bootstrap: str, topic: str, output: str, folder: str) -> None:
    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = session.config("spark.jars", ",".join(str(jar) for jar in Path(jars).glob("*.jar")))
    session = session.config("spark.driver.host", "127.0.0.1").config("spark.log.level", "ERROR")
    spark = session.config("spark.local.dir", f"{folder}/local").getOrCreate()

    rows = spark.range(ROWS).selectExpr(
        "cast(id % 10 as string) as key", "cast(id as string) as value", f"{HEADERS} as headers"
    )
    rows.write.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("topic", topic).save()

    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "includeHeaders": "true"}
    back = spark.read.format("kafka").options(**options).load()
    read = back.selectExpr(
        "cast(key as string)", "cast(value as string)", "cast(headers[0].value as string) as header"
    ).collect()

    stream = spark.readStream.format("kafka").options(**options, startingOffsets="earliest").load()
    writer = stream.select("key", "value").writeStream.format("kafka").option("topic", output)
    writer = writer.option("kafka.bootstrap.servers", bootstrap)
    query = writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()
    print(json.dumps(sorted(tuple(row) for row in read)))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
