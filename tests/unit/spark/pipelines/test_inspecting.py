"""What a program's text shows before it runs."""

from __future__ import annotations

import ast

import pytest

from penstock.spark.pipelines.inspecting import lacking, wants_session


def lack_of(text: str) -> str | None:
    return lacking(ast.parse(text))


@pytest.mark.parametrize(
    "text",
    [
        "def pipeline(spark): ...",
        "pipeline = make()",
        "app: App = App('x')",
        "from orders import pipeline",
        "from orders import flow as app",
        "from orders import *",
        "import app",
        "try:\n    from fast import app\nexcept ImportError:\n    from slow import app",
        "if True:\n    def pipeline(spark): ...",
        "def make():\n    global app\n    app = 1\nmake()",
        "globals()['app'] = 1",
        "for app in apps: pass",
        "with made() as app: pass",
        "app, other = 1, 2",
    ],
)
def test_files_that_may_define_a_program_are_accepted(text: str) -> None:
    assert lack_of(text) is None


@pytest.mark.parametrize(
    "text",
    ["", "x = 1", "def outer():\n    app = 1", "class A:\n    pass", "lambda pipeline: 1", "print('app')"],
)
def test_files_that_define_no_program_are_rejected_with_a_hint(text: str) -> None:
    lack = lack_of(text)

    assert lack is not None
    assert "write `def pipeline(spark):` that returns `df.writeStream...`, or `app = " in lack


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("def main(spark): ...", "should `main(spark)` be `pipeline(spark)`?"),
        ("counts = App('x')", "should `counts` be `app`?"),
        ("counts = streams.App('x')", "should `counts` be `app`?"),
        ("def pipline(session): ...", "should `pipline` be `pipeline`?"),
    ],
)
def test_near_misses_are_suggested(text: str, meant: str) -> None:
    assert meant in (lack_of(text) or "")


SPARKS = "from pyspark.sql import functions as F\nimport penstock.spark\nfrom pyspark.sql.types import StringType\n"


@pytest.mark.parametrize(
    "text",
    [
        "@F.udf('string')\ndef f(x): ...",
        "@F.udf\ndef f(x): ...",
        "key = F.col('key').cast('string')",
        "spark = penstock.spark.session()",
        "class A:\n    column = F.col('x')",
        "def f(column=F.col('x')): ...",
    ],
)
def test_a_file_that_calls_spark_on_load_needs_a_session(text: str) -> None:
    assert wants_session(ast.parse(SPARKS + text))


@pytest.mark.parametrize(
    "text",
    [
        "def pipeline(spark):\n    return spark.readStream.select(F.col('x'))",
        "later = lambda: F.col('x')",
        "kind = StringType()",
        "name = F",
        "if __name__ == '__main__':\n    pipeline(penstock.spark.session())",
        "print('F')",
    ],
)
def test_a_file_that_calls_spark_later_needs_no_session(text: str) -> None:
    assert not wants_session(ast.parse(SPARKS + text))
