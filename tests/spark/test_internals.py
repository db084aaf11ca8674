"""Every function of `penstock.spark.internals` against the installed PySpark.

These tests hold for the versions in `TESTED_VERSIONS`. When one fails with a new PySpark, an internal has changed.
"""

from __future__ import annotations

import inspect
import os
import pickle
import subprocess
import sys
import threading
import types
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType, TimestampType

from penstock.spark import internals
from penstock.spark.errors import UnsupportedSpark
from penstock.testing import Broker

PATIENCE_SECONDS = 120.0


def test_the_installed_pyspark_is_one_that_these_tests_hold_for() -> None:
    version = ".".join(pyspark.__version__.split(".")[:2])

    assert version in internals.TESTED_VERSIONS, (
        f"PySpark {pyspark.__version__} is installed; run these tests with it, fix what fails in"
        " penstock/spark/internals.py, and add it to TESTED_VERSIONS"
    )


def test_every_internal_is_tested_here() -> None:
    names = [
        name for name, _ in inspect.getmembers(internals, inspect.isfunction) if not name.startswith("_")
    ]
    own = [name for name in names if getattr(internals, name).__module__ == internals.__name__]
    text = Path(__file__).read_text()

    assert [
        name for name in own if f"internals.{name}(" not in text and f"internals.{name})" not in text
    ] == []


def test_a_session_with_a_jvm_is_not_of_connect(spark: SparkSession) -> None:
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    assert not internals.is_connect(spark)
    assert internals.is_connect(ConnectSession.__new__(ConnectSession))


def test_a_session_is_active_in_the_block_alone(spark: SparkSession) -> None:
    before = SparkSession.getActiveSession()
    other = spark.newSession()

    def active_in_jvm() -> object:
        return other._jvm.org.apache.spark.sql.classic.SparkSession.active()  # type: ignore[union-attr]

    with internals.active_session(other):
        assert active_in_jvm() == other._jsparkSession
    assert active_in_jvm() != other._jsparkSession
    assert SparkSession.getActiveSession() == before


def test_the_state_of_the_context_and_its_jvm(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    context = spark.sparkContext

    assert internals.has_active_context()
    assert internals.has_gateway()
    assert internals.is_jvm_child()
    assert not internals.is_stopped(context)
    assert not internals.has_python_files(context)
    assert internals.jvm_environment_variable(context, "PATH") == os.environ["PATH"]
    assert internals.jvm_environment_variable(context, "PENSTOCK_UNSET") == ""
    assert internals.executor_count(spark) == 0  # local: the driver runs the tasks
    monkeypatch.setattr(context, "_python_includes", ["package.zip"])
    assert internals.has_python_files(context)


STARTING = """
import os
import sys
from pyspark import SparkConf, SparkContext
from penstock.spark import internals
from penstock.spark.errors import UnsupportedSpark
assert not internals.has_active_context() and not internals.has_gateway() and not internals.is_jvm_child()
conf = SparkConf().setMaster("local[1]").setAppName("internals").set("spark.ui.enabled", "false")
with open(sys.argv[1], "wb") as stream:
    gateway = internals.launch_jvm(conf, stderr=stream)
context = SparkContext(conf=conf, gateway=gateway)
assert internals.has_active_context() and internals.is_jvm_child() and not internals.is_stopped(context)
assert os.getpgid(gateway.proc.pid) != os.getpgid(0)
context.stop()
assert internals.is_stopped(context) and not internals.has_active_context() and internals.has_gateway()
"""


def test_a_jvm_starts_in_its_own_process_group_and_a_stopped_context_is_seen(tmp_path: Path) -> None:
    log = tmp_path / "jvm.log"

    ended = subprocess.run(
        [sys.executable, "-c", STARTING, str(log)],
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )

    assert ended.returncode == 0, ended.stderr
    assert log.read_text()  # Spark logs to stderr


def test_a_query_shows_its_options_and_ends_after_its_batch(
    spark: SparkSession, penstock: Broker, tmp_path: Path
) -> None:
    with penstock.admin() as admin:
        for topic in ("in", "out"):
            admin.create_topic(topic, partitions=1)
    with penstock.producer() as producer:
        producer.send("in", "a")
    is_in_batch, may_go_on = threading.Event(), threading.Event()
    jobs: list[internals.StreamJob] = []

    def hold(batch: DataFrame, _: int) -> None:
        jobs.append(internals.stream_job(batch.sparkSession.sparkContext))
        is_in_batch.set()
        assert may_go_on.wait(PATIENCE_SECONDS)

    options = {
        "kafka.bootstrap.servers": penstock.bootstrap_servers,
        "subscribe": "in",
        "startingOffsets": "earliest",
    }
    rows = spark.readStream.format("penstock").options(**options).load()
    query = rows.writeStream.foreachBatch(hold).option("checkpointLocation", str(tmp_path / "held")).start()
    try:
        assert is_in_batch.wait(PATIENCE_SECONDS)
        execution = internals.stream_execution(spark, str(query.id))

        assert internals.has_jvm_query(query)
        assert not internals.has_jvm_query(object())  # as a query of Spark Connect
        assert internals.source_options(spark, str(query.id)) == [options]
        assert internals.sink_options(spark, str(query.id)) is None  # it is not ours
        assert not internals.is_between_batches(execution)
        assert jobs == [(str(query.id), str(query.runId), "0")]
        thread = internals.finish_batch_and_end(query)
        assert thread is not None
        assert thread.isAlive()
    finally:
        may_go_on.set()
    thread.join(round(PATIENCE_SECONDS * 1000))
    assert not thread.isAlive()
    assert internals.is_between_batches(execution)
    query.stop()
    assert internals.stream_execution(spark, str(query.id)) is None
    assert internals.source_options(spark, str(query.id)) == []
    assert internals.finish_batch_and_end(object()) is None


def test_a_query_shows_the_options_of_its_sink(spark: SparkSession, penstock: Broker, tmp_path: Path) -> None:
    with penstock.admin() as admin:
        for topic in ("in", "out"):
            admin.create_topic(topic, partitions=1)
    servers = {"kafka.bootstrap.servers": penstock.bootstrap_servers}
    rows = spark.readStream.format("penstock").options(**servers, subscribe="in").load().select("value")
    sink = servers | {
        "topic": "out",
        "guarantee": "at-least-once",
        "checkpointLocation": str(tmp_path / "sink"),
    }
    query = rows.writeStream.format("penstock").options(**sink).start()
    try:
        assert internals.sink_options(spark, str(query.id)) == sink
    finally:
        query.stop()


def test_tasks_know_query_run_and_batch(spark: SparkSession, tmp_path: Path) -> None:
    def job(batches: object) -> object:
        from pyspark import TaskContext

        for _ in batches:  # type: ignore[attr-defined]
            yield pa.RecordBatch.from_pylist(
                [{"job": ",".join(map(str, internals.stream_job(TaskContext.get())))}]
            )

    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load().coalesce(1)
    seen = rows.mapInArrow(job, "job string")  # type: ignore[arg-type]
    query = (
        seen.writeStream.format("memory")
        .queryName("jobs")
        .option("checkpointLocation", str(tmp_path))
        .start()
    )
    while query.lastProgress is None:
        assert query.isActive, query.exception()
        query.awaitTermination(1)
    query.stop()

    found = [row.job for row in spark.table("jobs").collect()]
    assert found[0] == f"{query.id},{query.runId},0"


def test_files_of_any_file_system(spark: SparkSession, tmp_path: Path) -> None:
    for path in (str(tmp_path / "plain"), f"file://{tmp_path}/by-scheme"):
        assert internals.read_file(spark, path) is None
        internals.replace_file(spark, path, "one")
        internals.replace_file(spark, path, "zwei ü")
        assert internals.read_file(spark, path) == "zwei ü"


def test_the_modules_of_python_processes_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (internals.WORKER_MODULE, internals.FILTER_PLANNER_MODULE):
        assert (Path(pyspark.__path__[0]).parent / f"{module.replace('.', '/')}.py").is_file()
    monkeypatch.delitem(sys.modules, internals.FILTER_PLANNER_MODULE, raising=False)
    assert not internals.is_planning_with_filters()
    monkeypatch.setitem(sys.modules, internals.FILTER_PLANNER_MODULE, types.ModuleType("planner"))
    assert internals.is_planning_with_filters()


def test_spark_calls_the_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The session of all tests runs its workers with it (`conftest`); here only that the function is there."""
    called: list[bool] = []
    import pyspark.daemon

    monkeypatch.setattr(pyspark.daemon, "manager", lambda: called.append(True))
    internals._python_internal.cache_clear()
    internals.run_worker_daemon()
    internals._python_internal.cache_clear()

    assert called == [True]


def test_functions_of_unknown_modules_are_pickled_with_their_code() -> None:
    module = types.ModuleType("penstock_no_such_module")
    sys.modules[module.__name__] = module
    exec("def double(x): return 2 * x", module.__dict__)

    internals.register_pickle_by_value(module)
    data = internals.pickle_by_value(module.double)

    del sys.modules[module.__name__]
    assert pickle.loads(data)(21) == 42


def test_types_in_arrow_and_json() -> None:
    schema = StructType([StructField("at", TimestampType()), StructField("names", ArrayType(StringType()))])

    arrow = internals.arrow_type_of(schema)

    assert arrow.field("at").type == pa.timestamp("us", tz="UTC")
    assert internals.spark_schema_of(pa.schema(list(arrow))) == schema
    assert internals.data_type_of_json(schema.jsonValue()) == schema
    assert internals.data_type_of_json("long") == LongType()


def test_errors_of_spark_and_of_a_lost_jvm(spark: SparkSession) -> None:
    from pyspark.errors import AnalysisException
    from pyspark.sql.functions import col

    with pytest.raises(AnalysisException) as of_spark:
        spark.range(1).select(col("missing")).collect()
    assert internals.is_raised_by_spark(of_spark.value)
    assert not internals.is_jvm_lost(of_spark.value)

    jvm: Any = spark._jvm
    with pytest.raises(Exception, match="For input string") as of_java:
        jvm.Integer.parseInt("x")
    assert not internals.is_jvm_lost(of_java.value)


def test_names_that_the_jvm_lacks_give_an_error_that_names_them(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession

    for lacking in (
        lambda: session.noSuchMethod(),
        lambda: jvm.org.apache.spark.sql.NoSuchClass(),
        lambda: jvm.org.apache.spark.sql.NoSuchClass.create(),
        lambda: session.getClass().getDeclaredField("noSuchField"),
        lambda: spark._noSuchAttribute,  # type: ignore[attr-defined]
    ):
        with pytest.raises(UnsupportedSpark, match="has no internal of this test"):
            internals._requires("internal of this test")(lacking)()
