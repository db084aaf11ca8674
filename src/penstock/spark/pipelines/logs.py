"""The log of a pipeline's Spark: a file next to its registry entry, limited in size, and kept only if it may help.

The JVM and its workers append to the file by themselves, so it can be truncated while they write. A pipeline that
ends normally leaves no log. One that fails leaves its own, and that of the run before as `NAME.log.1`.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import TracebackType
from typing import Self

BYTES_MAX = 8 << 20  # a query that fails in the same way for days must not fill a disk

# Lines that the JVM and Spark print at every start.
NOISE = (
    "WARNING: Using incubator modules",
    "Picked up JAVA_TOOL_OPTIONS",
    "Setting default log level to",
    "To adjust logging level use",
    "Setting Spark log level to",
    "Using Spark's default log4j profile",
)


class RunLog:
    """The log of one run, created by the process that holds the pipeline's name."""

    def __init__(self, directory: Path, name: str) -> None:
        self.path = directory / f"{name}.log"
        if has_content(self.path):
            self.path.replace(_older(self.path))  # of a failed or killed run: it may still be needed
        self.path.write_bytes(b"")

    def rename(self, name: str) -> None:
        """Rename the file; processes continue to write to it."""
        renamed = self.path.with_name(f"{name}.log")
        if renamed != self.path:
            if has_content(renamed):
                renamed.replace(_older(renamed))
            self.path.replace(renamed)
            self.path = renamed

    def has_content(self) -> bool:
        return has_content(self.path)

    def keep_small(self) -> None:
        """If the file has grown too large, move its content to the older log."""
        if self.path.exists() and self.path.stat().st_size > BYTES_MAX:
            shutil.copyfile(self.path, _older(self.path))
            os.truncate(self.path, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Keep it after a failure; otherwise delete it."""
        is_failed = isinstance(error, Exception)
        if not (is_failed and self.has_content()):
            self.path.unlink(missing_ok=True)
            if not is_failed:
                _older(self.path).unlink(missing_ok=True)


def has_content(log: Path) -> bool:
    """Whether it has more than the usual lines at the start."""
    try:
        with open(log, errors="replace") as lines:
            return any(line.strip() and not line.startswith(NOISE) for line in lines)
    except FileNotFoundError:
        return False


def forget_empty(directory: Path, name: str) -> None:
    """Delete the log of a name that no process holds, if it has no content."""
    log = directory / f"{name}.log"
    if not has_content(log):
        log.unlink(missing_ok=True)


def _older(log: Path) -> Path:
    return log.with_name(f"{log.name}.1")
