"""Undocumented parts of Spark are used in one module only, and a Spark without them gives a clear error."""

from __future__ import annotations

import ast
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError

import penstock
from penstock.spark import internals
from penstock.spark.errors import UnsupportedSpark

SOURCES = Path(penstock.__file__).parent
INTERNALS = Path(internals.__file__)

# Modules in the documentation of PySpark's API.
PUBLIC_MODULES = {
    "pyspark",
    "pyspark.errors",
    "pyspark.sql",
    "pyspark.sql.datasource",
    "pyspark.sql.functions",
    "pyspark.sql.streaming",
    "pyspark.sql.streaming.datasource",
    "pyspark.sql.streaming.listener",
    "pyspark.sql.streaming.query",
    "pyspark.sql.streaming.readwriter",
    "pyspark.sql.streaming.stateful_processor",
    "pyspark.sql.types",
}
INTERNAL_MODULES = ("cloudpickle", "daemon", "java_gateway", "worker")  # of the package pyspark itself
PRIVATE_ATTRIBUTES = {
    "_active_spark_context", "_gateway", "_jconf", "_jdf", "_jreader", "_jsc", "_jsparkSession", "_jsq", "_jvm",
    "_jwrite", "_python_includes", "_sc",
}  # fmt: skip


def internals_in(source: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            modules = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            modules = [(node.module or "", alias.name) for alias in node.names]
        else:
            modules = []
            name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "value", None)
            if isinstance(name, str) and name in PRIVATE_ATTRIBUTES:  # also in getattr(x, "_jsc")
                found.append(name)
        for module, name in modules:
            is_spark = module.partition(".")[0] == "pyspark"
            is_private = module == "pyspark" and name in INTERNAL_MODULES
            if module.partition(".")[0] == "py4j" or (
                is_spark and (module not in PUBLIC_MODULES or is_private or name.startswith("_"))
            ):
                found.append(f"{module} {name}".strip())
    return found


def test_no_other_module_uses_internals_of_spark() -> None:
    found = {
        str(path.relative_to(SOURCES)): names
        for path in sorted(SOURCES.rglob("*.py"))
        if path != INTERNALS and (names := internals_in(path.read_text()))
    }

    assert found == {}, "move these into penstock.spark.internals"


@pytest.mark.parametrize(
    "source",
    [
        "import py4j.protocol",
        "from pyspark import cloudpickle",
        "from pyspark.java_gateway import launch_gateway",
        "from pyspark.sql.utils import is_remote",
        "spark._jvm.System",
        "getattr(query, '_jsq', None)",
    ],
)
def test_a_use_of_internals_is_found(source: str) -> None:
    assert internals_in(source)


class StoppedContext:
    _jsc = None


def test_a_spark_without_an_internal_is_named_with_the_versions_that_have_it() -> None:
    spark: Any = SimpleNamespace(_jsparkSession=SimpleNamespace())

    with pytest.raises(UnsupportedSpark) as caught:
        internals.stream_execution(spark, "query")

    assert "has no StreamingQueryManager.get(id).streamingQuery()" in str(caught.value)
    assert f"install PySpark {internals.TESTED_VERSIONS[0]}" in str(caught.value)


def test_a_python_internal_that_is_missing_is_named() -> None:
    with pytest.raises(UnsupportedSpark, match=r"has no pyspark\.sql\.renamed\.function"):
        internals._python_internal("pyspark.sql.renamed", "function")


def test_a_stopped_session_is_not_taken_for_an_unsupported_spark() -> None:
    spark: Any = SimpleNamespace(sparkContext=StoppedContext())

    with pytest.raises(AttributeError):
        internals.executor_count(spark)


@pytest.mark.parametrize(
    "message", ["org does not exist in the JVM", "Target Object ID does not exist for this gateway :o12"]
)
def test_a_jvm_that_is_going_down_is_not_taken_for_an_unsupported_spark(message: str) -> None:
    class Gateway:
        @property
        def _jsparkSession(self) -> Any:
            raise Py4JError(message)

    spark: Any = Gateway()
    with pytest.raises(Py4JError, match=message):
        internals.stream_execution(spark, "query")


def test_an_object_that_cannot_be_pickled_is_not_taken_for_an_unsupported_spark() -> None:
    with pytest.raises(TypeError, match="pickle"):
        internals.pickle_by_value(threading.Lock())


def test_the_jvm_is_lost_if_py4j_cannot_reach_it_and_not_if_java_raised() -> None:
    from py4j.protocol import Py4JJavaError, Py4JNetworkError

    def raised(code: str) -> BaseException:
        try:
            exec(code, {"__name__": "py4j.clientserver"})
        except ConnectionError as error:
            return error
        raise AssertionError

    assert internals.is_jvm_lost(Py4JNetworkError("closed"))
    assert internals.is_jvm_lost(raised("raise ConnectionRefusedError"))
    assert not internals.is_jvm_lost(ConnectionRefusedError())  # of a broker
    assert not internals.is_jvm_lost(Py4JJavaError.__new__(Py4JJavaError))
