"""Which logs of Spark are kept."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from penstock.spark.pipelines import logs
from penstock.spark.pipelines.logs import RunLog

WORDS = "12:00:00 ERROR MicroBatchExecution: no room\n"
NOISE = 'WARNING: Using incubator modules: jdk.incubator.vector\nSetting default log level to "WARN".\n'


def names(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


def fail(folder: Path, message: str) -> None:
    """A failing run that logs this text."""
    with suppress(ZeroDivisionError), RunLog(folder, "orders") as log:
        log.path.write_text(message)
        raise ZeroDivisionError


def test_a_successful_run_leaves_no_log(tmp_path: Path) -> None:
    (tmp_path / "orders.log").write_text(WORDS)
    with RunLog(tmp_path, "orders") as log:
        log.path.write_text(WORDS)

    assert names(tmp_path) == set()


def test_a_failed_run_leaves_its_log_and_the_one_before(tmp_path: Path) -> None:
    for message in ("first", "second", "third"):
        fail(tmp_path, message)

    assert (tmp_path / "orders.log").read_text() == "third"
    assert (tmp_path / "orders.log.1").read_text() == "second"


def test_a_log_with_only_the_usual_lines_is_not_kept(tmp_path: Path) -> None:
    fail(tmp_path, NOISE)

    assert names(tmp_path) == set()


def test_it_stays_small_while_other_processes_append(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "BYTES_MAX", 10)
    log = RunLog(tmp_path, "orders")
    with open(log.path, "ab", buffering=0) as jvm:
        jvm.write(b"0123456789")
        log.keep_small()
        assert os.path.getsize(log.path) == 10
        jvm.write(b"x")
        log.keep_small()
        jvm.write(b"new")

    assert log.path.read_bytes() == b"new"
    assert (tmp_path / "orders.log.1").read_bytes() == b"0123456789x"


def test_it_is_renamed_with_its_pipeline(tmp_path: Path) -> None:
    (tmp_path / "counts.log").write_text(WORDS)
    log = RunLog(tmp_path, "word-count")
    with open(log.path, "ab", buffering=0) as jvm:
        log.rename("counts")
        jvm.write(b"more")

    assert log.path.read_bytes() == b"more"
    assert names(tmp_path) == {"counts.log", "counts.log.1"}
