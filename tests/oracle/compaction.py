"""Compacts logs with Apache Kafka's own cleaner, in one short Java process."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from oracle import jars
from oracle.java import RUN_SECONDS_MAX

PROGRAM = Path(__file__).with_name("Compaction.java")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    folder: Path
    """Of the log, which is changed in place."""
    first_dirty_offset: int
    end_offset: int
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    index_interval_bytes: int

    def line(self) -> str:
        """The words that Compaction.java reads."""
        return (
            f"{self.folder} {self.first_dirty_offset} {self.end_offset} {self.now_ms} {self.delete_retention_ms}"
            f" {self.segment_bytes} {self.index_interval_bytes}"
        )


def compact(cases: Sequence[Case]) -> list[int]:
    """Where the clean part of each log ends then."""
    finished = subprocess.run(
        [
            "java",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            f"{jars.libs()}{os.sep}*",
            str(PROGRAM),
        ],
        input="".join(case.line() + "\n" for case in cases),
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    answers = [int(line) for line in finished.stdout.splitlines() if line.isdigit()]
    assert len(answers) == len(cases), finished.stderr
    return answers
