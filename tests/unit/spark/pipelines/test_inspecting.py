"""What is seen of a program in its text alone."""

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
def test_what_defines_a_program_or_may_define_one_is_let_through(text: str) -> None:
    assert lack_of(text) is None


@pytest.mark.parametrize(
    "text",
    ["", "x = 1", "def outer():\n    app = 1", "class A:\n    pass", "lambda pipeline: 1", "print('app')"],
)
def test_what_defines_none_is_told_what_to_write(text: str) -> None:
    lack = lack_of(text)

    assert lack is not None
    assert "write `def pipeline(spark):` that returns `df.writeStream...`, or `app = " in lack


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("def main(spark): ...", "is `main(spark)` meant to be `pipeline(spark)`?"),
        ("counts = App('x')", "is `counts` meant to be `app`?"),
        ("counts = streams.App('x')", "is `counts` meant to be `app`?"),
        ("def pipline(session): ...", "is `pipline` meant to be `pipeline`?"),
    ],
)
def test_what_comes_near_is_named(text: str, meant: str) -> None:
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
def test_a_file_that_calls_spark_when_it_is_loaded_wants_a_session(text: str) -> None:
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
def test_a_file_that_calls_it_later_does_not(text: str) -> None:
    assert not wants_session(ast.parse(SPARKS + text))
