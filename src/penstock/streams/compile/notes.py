"""A small file beside an application's checkpoints, on whatever file system Spark keeps them.

The driver's JVM reads and writes it where there is one. Through Spark Connect the checkpoints are the server's, and so
is the file: there Spark itself writes it, as a table of one line.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from penstock.spark.registering import is_connect
from penstock.streams.compile.fingerprint import Fingerprint, changes, following, refusal
from penstock.streams.nouns import TopologyError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "topology.json"


def check_topology(spark: SparkSession, application_id: str, folder: str, fingerprint: Fingerprint) -> None:
    """Refuse a program that its checkpoints do not fit; note what it is otherwise."""
    path = f"{folder.rstrip('/')}/{NAME}"
    connect = is_connect(spark)
    text = _read_by_spark(spark, path) if connect else _read(spark, path)
    if text is not None:
        old = json.loads(text)
        told = changes(old, fingerprint)
        if told:
            raise TopologyError(refusal(application_id, folder, told))
        fingerprint = following(old, fingerprint)
        if fingerprint == old:
            return
    data = json.dumps(fingerprint, sort_keys=True)
    if connect:
        spark.createDataFrame([(data,)], "value string").coalesce(1).write.mode("overwrite").text(path)
    else:
        _write(spark, path, data)


def _read(spark: SparkSession, path: str) -> str | None:
    files, place = _files(spark, path)
    if not files.exists(place):
        return None
    stream = files.open(place)
    try:
        return str(bytes(stream.readAllBytes()).decode())
    finally:
        stream.close()


def _write(spark: SparkSession, path: str, data: str) -> None:
    """Whole or not at all: under another name first."""
    files, place = _files(spark, path)
    _, draft = _files(spark, f"{path}.draft")
    stream = files.create(draft, True)
    try:
        stream.write(bytearray(data.encode()))
    finally:
        stream.close()
    files.delete(place, False)
    if not files.rename(draft, place):
        raise OSError(f"{path} cannot be written")


def _files(spark: SparkSession, path: str) -> tuple[Any, Any]:
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    place = jvm.org.apache.hadoop.fs.Path(path)
    return place.getFileSystem(session.sessionState().newHadoopConf()), place


def _read_by_spark(spark: SparkSession, path: str) -> str | None:
    from pyspark.errors import AnalysisException

    try:
        rows = spark.read.text(path).collect()
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return None
        raise
    return str(rows[0]["value"]) if rows else None
