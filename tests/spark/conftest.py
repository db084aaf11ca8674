"""One Spark session for all tests of a process: starting one takes seconds."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.spark.settings import SHORT_LIVED_JAVA

SOURCES = Path(__file__).parents[2] / "src"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """`local[2]`, with the data source registered; tests that change its settings take `spark.newSession()`."""
    import penstock.spark
    from penstock.spark.home import use_installed_python

    directory = tmp_path_factory.mktemp("spark")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([str(SOURCES), str(Path(__file__).parents[1])])
    use_installed_python()
    session = (
        SparkSession.builder.master("local[2]")
        .appName("tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", SHORT_LIVED_JAVA)
        .config("spark.python.daemon.module", "penstock.spark.daemon")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .config("spark.local.dir", str(directory / "local"))
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    penstock.spark.register(session)
    yield session
    session.stop()
