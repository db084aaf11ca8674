"""Everything that Penstock uses of Spark beyond its documented API. No other module may use such names.

`tests/unit/spark/test_internals.py` checks that no other module does; `tests/spark/test_internals.py` calls every
function here on a real session. Each docstring names the internal and says why no public API serves. If Spark
lacks the internal, a function raises `UnsupportedSpark`, unless its docstring names a fallback.

Tasks, the CLI and clients of Spark Connect import this module, so it imports PySpark and py4j only inside functions.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import IO, TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

from penstock.spark.errors import UnsupportedSpark

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructType

TESTED_VERSIONS = ("4.3",)  # of PySpark, which `pyproject.toml` allows

WORKER_MODULE = "pyspark.worker"  # the main module of a Python worker
FILTER_PLANNER_MODULE = "pyspark.sql.worker.data_source_pushdown_filters"

# Local properties that Spark sets for the jobs of a streaming query. Replayed batches have the same query and batch id.
QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
RUN_ID = "spark.jobGroup.id"

logger = logging.getLogger("penstock.spark")

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def _requires(internal: str) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """For functions that call the JVM: if Spark lacks the internal, raise `UnsupportedSpark`."""

    def decorate(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        @functools.wraps(function)
        def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            try:
                return function(*args, **kwargs)
            except Exception as error:
                if _is_missing_name(error):
                    raise _unsupported(internal) from error
                raise

        return call

    return decorate


_MISSING_MEMBER = re.compile(r"\b(Method|Constructor) .* does not exist")


def _is_missing_name(error: Exception) -> bool:
    """Whether a name is unknown to PySpark or to the JVM. py4j takes an unknown class for a package, and raises a plain
    Py4JError for an unknown method. Its other messages with "does not exist" mean that the JVM is going down."""
    if isinstance(error, AttributeError):
        return error.obj is not None  # None: the session was stopped
    if isinstance(error, TypeError):
        return "JavaPackage" in str(error)
    name, message = type(error).__name__, str(error)
    return (
        name == "Py4JError" and _MISSING_MEMBER.search(message) is not None
    ) or "NoSuchFieldException" in message


@functools.cache
def _python_internal(module: str, name: str) -> Any:
    """An undocumented function of PySpark. Raises ModuleNotFoundError if PySpark is not installed."""
    import pyspark  # noqa: F401

    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise _unsupported(f"{module}.{name}") from error


def _unsupported(internal: str) -> UnsupportedSpark:
    import pyspark

    tested = ", ".join(TESTED_VERSIONS)
    return UnsupportedSpark(
        f"PySpark {pyspark.__version__} has no {internal}, which penstock needs; install PySpark {tested}"
    )


# -- sessions and contexts


def is_connect(spark: SparkSession) -> bool:
    """Whether this is a session of Spark Connect, which has no JVM in reach.

    Uses the module of its class, because `pyspark.sql.is_remote` answers for the process and not for a session.
    """
    return type(spark).__module__.startswith("pyspark.sql.connect")


@contextlib.contextmanager
def active_session(spark: SparkSession) -> Iterator[None]:
    """Make a session the JVM's active one inside the block.

    Uses the JVM's `SparkSession.setActiveSession`. Spark registers a data source in the active session, which may be
    another one, and PySpark cannot choose it.
    """
    sessions, before = _set_active_session(spark)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


@_requires("org.apache.spark.sql.classic.SparkSession.setActiveSession")
def _set_active_session(spark: SparkSession) -> tuple[Any, Any]:
    jvm: Any = spark._jvm
    sessions = jvm.org.apache.spark.sql.classic.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    return sessions, before


def is_stopped(context: SparkContext) -> bool:
    """Whether a context was stopped, without a call to the JVM.

    Uses `SparkContext._jsc`, which `stop` sets to None. PySpark has no public question for it. A context without the
    attribute counts as stopped.
    """
    return getattr(context, "_jsc", None) is None


@_requires("SparkContext._active_spark_context")
def has_active_context() -> bool:
    """Whether this process has a context. `SparkContext.getOrCreate`, the public way, would create one."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


@_requires("SparkContext._gateway")
def has_gateway() -> bool:
    """Whether this process is connected to a JVM, which may outlive the context that started it."""
    from pyspark import SparkContext

    return SparkContext._gateway is not None


def is_jvm_child() -> bool:
    """Whether this process started Spark's JVM, so that the JVM ends with it.

    Uses `SparkContext._gateway.proc`. If Spark lacks it, the JVM counts as another program's, and nothing is stopped.
    """
    from pyspark import SparkContext

    return getattr(getattr(SparkContext, "_gateway", None), "proc", None) is not None


def launch_jvm(conf: SparkConf, *, stderr: IO[bytes] | None) -> Any:
    """Start a JVM in its own process group and return its gateway, for `SparkContext(gateway=...)`.

    Uses `pyspark.java_gateway.launch_gateway`: `SparkContext` starts a JVM too, but offers neither a process group
    nor a file for stderr.
    """
    # A signal to our group, such as timeout's SIGTERM, would stop the JVM in the middle of a batch. The JVM still ends
    # with this process: it reads its stdin once it has reported its port, and exits at the end of it.
    options = {"start_new_session": True, **({"stderr": stderr} if stderr else {})}
    return _python_internal("pyspark.java_gateway", "launch_gateway")(conf, popen_kwargs=options)


@_requires("SparkContext._python_includes")
def has_python_files(context: SparkContext) -> bool:
    """Whether Python packages travel with the job (`spark.submit.pyFiles`, `addPyFile`). No public API lists them."""
    return bool(context._python_includes)


@_requires("SparkContext._jvm")
def jvm_environment_variable(context: SparkContext, name: str) -> str:
    """A variable of the JVM's environment, which workers inherit; empty if unset. No public API reads it."""
    system: Any = context._jvm.System  # type: ignore[union-attr]
    return system.getenv(name) or ""


@_requires("SparkContext._jsc.sc().statusTracker().getExecutorInfos()")
def executor_count(spark: SparkSession) -> int:
    """The executors of a session, without the driver. PySpark's `statusTracker` does not report executors."""
    executors = spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
    return len(executors) - 1


# -- streaming queries


def has_jvm_query(query: Any) -> bool:
    """Whether the JVM of a query is in reach. Uses `StreamingQuery._jsq`, which queries of Spark Connect lack."""
    return getattr(query, "_jsq", None) is not None


@_requires("StreamingQueryManager.get(id).streamingQuery()")
def stream_execution(spark: SparkSession, query_id: str) -> Any | None:
    """The JVM's `StreamExecution` of an active query; None if it is not active. It stays usable after the query."""
    session: Any = spark._jsparkSession
    query = session.streams().get(query_id)
    return None if query is None else query.streamingQuery()


@_requires("StreamExecution.analyzedPlan() with StreamingRelationV2")
def source_options(spark: SparkSession, query_id: str) -> list[dict[str, str]]:
    """The options of each `penstock` source of an active query. PySpark's query knows no plan."""
    execution = stream_execution(spark, query_id)
    if execution is None:
        return []
    leaves = execution.analyzedPlan().collectLeaves()
    found = []
    for index in range(leaves.size()):
        leaf = leaves.apply(index)
        if leaf.getClass().getSimpleName() == "StreamingRelationV2" and leaf.sourceName() == "penstock":
            found.append(dict(leaf.extraOptions().asCaseSensitiveMap()))
    return found


@_requires("StreamExecution.sink() and its field extraOptions")
def sink_options(spark: SparkSession, query_id: str) -> dict[str, str] | None:
    """The options of the sink of an active query if it is `penstock`. PySpark's query knows no sink."""
    execution = stream_execution(spark, query_id)
    if execution is None or execution.sink().getClass().getSimpleName() != "PythonTable":
        return None
    if execution.sink().name() != "penstock":
        return None
    # The plan has the options too, but only after the query has resolved its sources.
    field = execution.getClass().getDeclaredField("extraOptions")
    field.setAccessible(True)
    jvm: Any = spark._jvm
    return dict(jvm.scala.jdk.javaapi.CollectionConverters.asJava(field.get(execution)))


def is_between_batches(execution: Any) -> bool:
    """Whether a query has finished every batch that it started.

    Compares the JVM's `offsetLog` and `commitLog`; `lastProgress` comes too late. False if they cannot be read, for
    example because a temporary checkpoint was deleted with its query.
    """
    try:
        started, finished = (log.getLatestBatchId() for log in (execution.offsetLog(), execution.commitLog()))
        return bool(started.equals(finished))
    except Exception as error:
        logger.debug("cannot tell whether a query stopped in the middle of a batch: %s", error)
        return False


def finish_batch_and_end(query: Any) -> Any | None:
    """Make a query end after its current batch; returns its JVM thread.

    Sets the state of the JVM's `StreamExecution` to TERMINATED, which its thread checks before every batch. The public
    `stop` cancels the running batch. None if the state cannot be set: the caller then stops the query by polling.
    """
    if not has_jvm_query(query):
        return None
    try:
        execution = query._jsq.streamingQuery()
        state = execution.state()
        thread = execution.queryExecutionThread()
        state_class = state.get().getClass()
        terminated = state_class.getClassLoader().loadClass(f"{state_class.getPackageName()}.TERMINATED$")
        state.set(terminated.getField("MODULE$").get(None))
    except Exception as error:
        logger.debug("cannot make a query end after its batch: %s", error)
        return None
    return thread


class StreamJob(NamedTuple):
    """The streaming query that a task or a thread of the driver works for. A part that Spark did not set is None."""

    query_id: str | None
    run_id: str | None
    batch_id: str | None


def stream_job(context: Any) -> StreamJob:
    """What a `TaskContext` or `SparkContext` knows of its streaming query.

    Uses the names of local properties, which are undocumented. `getLocalProperty` itself is public; callers check for
    None. No public API gives a task of a sink its query, run and batch.
    """
    return StreamJob(*map(context.getLocalProperty, (QUERY_ID, RUN_ID, BATCH_ID)))


# -- files


@_requires("org.apache.hadoop.fs.FileSystem through SparkSession._jvm")
def read_file(spark: SparkSession, path: str) -> str | None:
    """The text of a file on any file system that Spark can reach; None if it does not exist.

    Uses Hadoop's `FileSystem` in the JVM: PySpark reads files only as DataFrames, in a job.
    """
    files, location = _file_system(spark, path)
    if not files.exists(location):
        return None
    stream = files.open(location)
    try:
        return str(bytes(stream.readAllBytes()).decode())
    finally:
        stream.close()


@_requires("org.apache.hadoop.fs.FileSystem through SparkSession._jvm")
def replace_file(spark: SparkSession, path: str, text: str) -> None:
    """Write a file under another name and rename it, so that readers see all of it or nothing; see `read_file`."""
    files, location = _file_system(spark, path)
    _, draft = _file_system(spark, f"{path}.draft")
    stream = files.create(draft, True)
    try:
        stream.write(bytearray(text.encode()))
    finally:
        stream.close()
    files.delete(location, False)
    if not files.rename(draft, location):
        raise OSError(f"cannot write {path}")


def _file_system(spark: SparkSession, path: str) -> tuple[Any, Any]:
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    location = jvm.org.apache.hadoop.fs.Path(path)
    return location.getFileSystem(session.sessionState().newHadoopConf()), location


# -- Python processes


def is_planning_with_filters() -> bool:
    """Whether this process plans a read whose filters Spark will push down.

    Spark does so if `spark.sql.python.filterPushdown.enabled` is on, and rejects a reader with `pushFilters` if it is
    off; a data source cannot see the setting. Planning with filters has its own worker module. If Spark renames it,
    the answer is False, and reads are not narrowed.
    """
    started = getattr(sys.modules["__main__"], "__spec__", None)  # of a process that Spark did not fork
    return FILTER_PLANNER_MODULE in sys.modules or (
        started is not None and started.name == FILTER_PLANNER_MODULE
    )


def run_worker_daemon() -> None:
    """Fork Python workers until Spark ends this process.

    Uses `pyspark.daemon.manager`: the setting `spark.python.daemon.module` is meant for a module that calls it, but
    both are undocumented.
    """
    _python_internal("pyspark.daemon", "manager")()


def pickle_by_value(value: object) -> bytes:
    """Pickle with the code of functions and classes that workers cannot import.

    Uses `pyspark.cloudpickle`, the copy with which Spark itself pickles user functions.
    """
    pickled: bytes = _python_internal("pyspark.cloudpickle", "dumps")(value)
    return pickled


def register_pickle_by_value(module: ModuleType) -> None:
    """Let Spark send the functions of a module with their code, for modules that workers cannot import."""
    _python_internal("pyspark.cloudpickle", "register_pickle_by_value")(module)


# -- types


def arrow_type_of(data_type: DataType) -> pa.DataType:
    """The Arrow type that Spark expects from a data source for a column; a difference fails the task."""
    return _python_internal("pyspark.sql.pandas.types", "to_arrow_type")(data_type, timezone="UTC")


def spark_schema_of(schema: pa.Schema) -> StructType:
    """The Spark schema of Arrow columns; the public way is to make a DataFrame, which takes a session."""
    found: StructType = _python_internal("pyspark.sql.pandas.types", "from_arrow_schema")(schema)
    return found


def data_type_of_json(value: Any) -> DataType:
    """The Spark type of `DataType.jsonValue()`. Only `StructType` has a public `fromJson`."""
    found: DataType = _python_internal("pyspark.sql.types", "_parse_datatype_json_value")(value)
    return found


# -- errors


def is_jvm_lost(error: BaseException) -> bool:
    """Whether an error means that the JVM does not answer, rather than that it threw an exception.

    By the names of py4j's modules: PySpark translates Java's exceptions but not py4j's, and clients of Spark Connect
    may not have py4j. If py4j renames them, the error is shown as it is.
    """
    if isinstance(error, ConnectionError):  # of a socket of py4j, and not of one to a broker
        frames = traceback.walk_tb(error.__traceback__)
        return any(str(frame.f_globals.get("__name__")).startswith("py4j.") for frame, _ in frames)
    kind = type(error)
    return kind.__module__ == "py4j.protocol" and kind.__name__ != "Py4JJavaError"


def is_raised_by_spark(error: BaseException) -> bool:
    """Whether PySpark or py4j raised an error, as PySpark's functions do when there is no session."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(frames) and str(frames[-1].f_globals.get("__name__")).partition(".")[0] in ("pyspark", "py4j")
