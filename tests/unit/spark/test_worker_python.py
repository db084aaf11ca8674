"""Registration checks whether Spark's Python workers find the package, and rejects only certain failures."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest

from penstock.spark import worker_python
from penstock.spark.errors import SparkError
from penstock.spark.worker_python import check_workers


class Jvm:
    class System:
        environment: ClassVar[dict[str, str]] = {}

        @classmethod
        def getenv(cls, name: str) -> str | None:
            return cls.environment.get(name)


@dataclass
class Context:
    """As much of a `SparkContext` as the check needs."""

    pythonExec: str
    master: str = "local[2]"
    environment: dict[str, str] = field(default_factory=dict)
    conf: dict[str, str] = field(default_factory=dict)
    _python_includes: list[str] = field(default_factory=list)
    _jvm: Any = Jvm

    def getConf(self) -> dict[str, str]:
        return self.conf


@pytest.fixture
def other_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A Python that finds only its standard library."""
    return script(tmp_path, f'exec "{sys.executable}" -I -S "$@"')


def script(folder: Path, line: str) -> str:
    python = folder / "python3"
    python.write_text(f"#!/bin/sh\n{line}\n")
    python.chmod(0o755)
    return str(python)


def check(context: Context) -> None:
    check_workers(context)  # type: ignore[arg-type]  # a fake has all that is asked for


def test_workers_of_a_python_without_the_package_are_rejected_on_registration(other_python: str) -> None:
    """A task failed with ModuleNotFoundError: No module named 'penstock'."""
    with pytest.raises(SparkError) as caught:
        check(Context(other_python))

    for message in (other_python, "cannot import penstock", f"PYSPARK_PYTHON={sys.executable}", "pyFiles"):
        assert message in str(caught.value)


def test_the_python_is_found_as_workers_find_it(other_python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Jvm.System, "environment", {"PATH": str(Path(other_python).parent)})

    with pytest.raises(SparkError, match="cannot import penstock"):
        check(Context("python3"))


def test_another_python_that_finds_the_package_is_accepted(tmp_path: Path) -> None:
    source = Path(worker_python.__file__).parents[2]
    python = script(tmp_path, f'exec "{sys.executable}" "$@"')

    check(Context(python, environment={"PYTHONPATH": str(source)}))


@pytest.mark.parametrize(
    "given",
    [
        {"master": "spark://elsewhere:7077"},
        {"master": "yarn"},
        {"_python_includes": ["penstock.zip"]},
        {"conf": {"spark.archives": "packed.tar.gz#packed"}},
    ],
    ids=["a cluster", "yarn", "pyFiles", "archives"],
)
def test_uncertain_cases_are_accepted(other_python: str, given: dict[str, Any]) -> None:
    check(Context(other_python, **given))


@pytest.mark.parametrize("line", ["exit 1", "exit 127", "kill -9 $$"])
def test_a_python_that_fails_for_another_reason_is_left_to_spark(tmp_path: Path, line: str) -> None:
    check(Context(script(tmp_path, line)))
    check(Context(str(tmp_path / "missing")))


def test_workers_of_this_python_need_no_extra_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_python, "is_installed", lambda: True)
    monkeypatch.setattr(worker_python, "_finds_package", lambda *_: pytest.fail("a process was started"))

    check(Context(sys.executable))
