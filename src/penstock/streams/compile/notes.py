"""A small file next to an application's checkpoints, on the same file system.

The driver's JVM reads and writes it if there is one. With Spark Connect the checkpoints and the file are on the
server: there Spark writes it as a table of one line.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from penstock.spark import internals
from penstock.streams.compile.fingerprint import Fingerprint, changes, following, refusal
from penstock.streams.nouns import TopologyError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "topology.json"


def check_topology(spark: SparkSession, application_id: str, folder: str, fingerprint: Fingerprint) -> None:
    """Reject a program that does not fit its checkpoints; otherwise store its fingerprint."""
    path = f"{folder.rstrip('/')}/{NAME}"
    connect = internals.is_connect(spark)
    text = _read_by_spark(spark, path) if connect else internals.read_file(spark, path)
    if text is not None:
        old = json.loads(text)
        differences = changes(old, fingerprint)
        if differences:
            raise TopologyError(refusal(application_id, folder, differences))
        fingerprint = following(old, fingerprint)
        if fingerprint == old:
            return
    data = json.dumps(fingerprint, sort_keys=True)
    if connect:
        spark.createDataFrame([(data,)], "value string").coalesce(1).write.mode("overwrite").text(path)
    else:
        internals.replace_file(spark, path, data)


def _read_by_spark(spark: SparkSession, path: str) -> str | None:
    from pyspark.errors import AnalysisException

    try:
        rows = spark.read.text(path).collect()
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return None
        raise
    return str(rows[0]["value"]) if rows else None
