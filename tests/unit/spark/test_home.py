"""A Spark home without the zip of Python sources."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.spark import home


def test_the_home_links_sparks_folders_except_its_python_sources(tmp_path: Path) -> None:
    installed, made = tmp_path / "pyspark", tmp_path / "home"
    for folder in ("bin", "jars", "python/lib", "sql"):
        (installed / folder).mkdir(parents=True)
    (installed / "sql" / "__init__.py").touch()
    (installed / "jars" / "spark.jar").touch()
    made.mkdir()

    home.link_home(installed, made)

    assert sorted(each.name for each in made.iterdir()) == ["bin", "jars"]
    assert (made / "jars" / "spark.jar").exists()


def test_a_users_spark_home_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    home.use_installed_python()
    assert os.environ["SPARK_HOME"] == "/opt/spark"
    monkeypatch.delenv("SPARK_HOME")
    monkeypatch.setenv("PYSPARK_PYTHON", "/another/python")
    home.use_installed_python()
    assert "SPARK_HOME" not in os.environ


def test_pips_pyspark_gets_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "x")  # so that monkeypatch restores it
    monkeypatch.delenv("SPARK_HOME")
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)

    home.use_installed_python()

    made = Path(os.environ["SPARK_HOME"])
    assert (made / "bin" / "spark-submit").exists()
    assert list((made / "jars").glob("spark-core*.jar"))
    assert not (made / "python").exists()
