"""Which pipelines run on this machine: a file for each, so that other processes see what they do and can stop them.

A running pipeline holds a lock on its file. The lock ends with the process, also when it is killed, so a file that
nobody holds is of one that is gone: whoever finds it removes it. A process id alone could be another's by then.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from penstock.client.errors.base import ClientError
from penstock.config.broker import default_data_directory

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
LOCK_TRIES = 5
LOCK_PAUSE_SECONDS = 0.02


class AlreadyRunning(ClientError):
    """A pipeline of that name runs; two would write the same checkpoint."""


class BadName(ClientError):
    """A name that cannot be one of a file."""


@dataclass(slots=True)
class Entry:
    """What is known of a pipeline that runs."""

    name: str
    pid: int
    file: str
    master: str
    checkpoint: str
    log: str
    started_ms: int
    state: str = "starting"  # then running, then stopping
    updated_ms: int = 0
    queries: list[dict[str, Any]] = field(default_factory=list)


def state_directory(environment: Mapping[str, str] | None = None) -> Path:
    """Where pipelines keep what they need between runs: beside a broker's data, not in it."""
    return Path(default_data_directory(os.environ if environment is None else environment) + "-pipelines")


class Registration:
    """A pipeline's own entry, for as long as it runs."""

    def __init__(self, directory: Path, entry: Entry) -> None:
        check_name(entry.name)
        self.entry = entry
        self._file = directory / f"{entry.name}.json"
        self._lock = directory / f"{entry.name}.lock"
        self._held: int | None = None

    def __enter__(self) -> Self:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._held = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            self._take_lock(self._held)
        except BaseException:
            os.close(self._held)
            raise
        self.write()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.unlink(missing_ok=True)
        if self._held is not None:
            os.close(
                self._held
            )  # the lock's file stays: removing it would let two hold two files of one name
            self._held = None

    def _take_lock(self, lock: int) -> None:
        # Whoever asks what runs holds it for a moment, too (`is_held`).
        for is_last in [False] * LOCK_TRIES + [True]:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError as running:
                if is_last:
                    raise _already_running(self.entry.name) from running
            time.sleep(LOCK_PAUSE_SECONDS)

    def write(self) -> None:
        """Show others what the entry says now; whole, so that nobody reads half of it."""
        self.entry.updated_ms = time.time_ns() // 1_000_000
        draft = self._file.with_suffix(".draft")
        draft.write_text(json.dumps(asdict(self.entry)))
        draft.replace(self._file)


def running(directory: Path) -> list[Entry]:
    """All that run, by name. What the dead left is removed on the way."""
    found: list[Entry] = []
    for file in sorted(directory.glob("*.json")):
        if not is_held(directory, file.stem):
            file.unlink(missing_ok=True)
            continue
        try:
            found.append(Entry(**json.loads(file.read_text())))
        except (OSError, ValueError, TypeError):  # it has just ended, or is of another version
            continue
    return found


def is_held(directory: Path, name: str) -> bool:
    """Whether a process holds the name."""
    try:
        lock = os.open(directory / f"{name}.lock", os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def require_free(directory: Path, name: str) -> None:
    """Refuse a name early that a running pipeline has; `Registration` makes sure of it."""
    check_name(name)
    if is_held(directory, name):
        raise _already_running(name)


def _already_running(name: str) -> AlreadyRunning:
    return AlreadyRunning(
        f"{name} runs already; `penstock pipeline stop {name}` stops it, --name names another"
    )


def check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise BadName(
            f"{name!r} cannot name a pipeline: letters, digits, dots, dashes and underscores, up to 100"
        )
