"""What stays of what Spark said."""

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


def fail(folder: Path, words: str) -> None:
    """A run in which this was said."""
    with suppress(ZeroDivisionError), RunLog(folder, "orders") as log:
        log.path.write_text(words)
        raise ZeroDivisionError


def test_one_that_ends_in_order_leaves_none(tmp_path: Path) -> None:
    (tmp_path / "orders.log").write_text(WORDS)
    with RunLog(tmp_path, "orders") as log:
        log.path.write_text(WORDS)

    assert names(tmp_path) == set()


def test_one_that_fails_leaves_it_and_that_of_the_failure_before(tmp_path: Path) -> None:
    for words in ("first", "second", "third"):
        fail(tmp_path, words)

    assert (tmp_path / "orders.log").read_text() == "third"
    assert (tmp_path / "orders.log.1").read_text() == "second"


def test_what_is_said_at_every_start_is_not_kept(tmp_path: Path) -> None:
    fail(tmp_path, NOISE)

    assert names(tmp_path) == set()


def test_it_stays_small_while_others_append_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_it_goes_along_when_its_pipeline_gets_another_name(tmp_path: Path) -> None:
    (tmp_path / "counts.log").write_text(WORDS)
    log = RunLog(tmp_path, "word-count")
    with open(log.path, "ab", buffering=0) as jvm:
        log.rename("counts")
        jvm.write(b"more")

    assert log.path.read_bytes() == b"more"
    assert names(tmp_path) == {"counts.log", "counts.log.1"}
