"""What Spark says while a pipeline runs: a file beside its entry, which stays small, and stays only where it may help.

The JVM and its workers write to the file by themselves, appending, so it can be cut under their hands. A pipeline that
ends in order leaves none; one that fails leaves the last run's, and what that one found there, as `NAME.log.1`.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import TracebackType
from typing import Self

BYTES_MAX = 8 << 20  # a query that stumbles for days over the same stone must not fill a disk

# What a JVM and Spark say of themselves whenever they start.
NOISE = (
    "WARNING: Using incubator modules",
    "Picked up JAVA_TOOL_OPTIONS",
    "Setting default log level to",
    "To adjust logging level use",
    "Setting Spark log level to",
    "Using Spark's default log4j profile",
)


class RunLog:
    """The log of one run. To be made by whoever holds the name."""

    def __init__(self, directory: Path, name: str) -> None:
        self.path = directory / f"{name}.log"
        if has_words(self.path):
            self.path.replace(_older(self.path))  # of a run that failed or was killed: somebody may still ask
        self.path.write_bytes(b"")

    def rename(self, name: str) -> None:
        """What writes to it goes on doing so."""
        renamed = self.path.with_name(f"{name}.log")
        if renamed != self.path:
            if has_words(renamed):
                renamed.replace(_older(renamed))
            self.path.replace(renamed)
            self.path = renamed

    def has_words(self) -> bool:
        return has_words(self.path)

    def keep_small(self) -> None:
        """Set aside what is in it when it has grown large, in place of what was set aside before."""
        if self.path.exists() and self.path.stat().st_size > BYTES_MAX:
            shutil.copyfile(self.path, _older(self.path))
            os.truncate(self.path, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave it to those who want to know why, and nothing where nobody does."""
        is_failed = isinstance(error, Exception)
        if not (is_failed and self.has_words()):
            self.path.unlink(missing_ok=True)
            if not is_failed:
                _older(self.path).unlink(missing_ok=True)


def has_words(log: Path) -> bool:
    """Whether there is more in it than what is said at every start."""
    try:
        with open(log, errors="replace") as lines:
            return any(line.strip() and not line.startswith(NOISE) for line in lines)
    except FileNotFoundError:
        return False


def forget_empty(directory: Path, name: str) -> None:
    """Remove the log of a name that nobody holds, if it tells nothing."""
    log = directory / f"{name}.log"
    if not has_words(log):
        log.unlink(missing_ok=True)


def _older(log: Path) -> Path:
    return log.with_name(f"{log.name}.1")
