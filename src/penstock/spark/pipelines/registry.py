"""Which pipelines run on this machine: a file for each, so that other processes see what they do and can stop them.

A running pipeline holds a lock on a file of its name, from before Spark starts until it has ended. The lock ends with
the process, also when it is killed, so what nobody holds is of one that is gone: whoever finds it removes it. A process
id alone could be another's by then.

    NAME.lock    held by the process          NAME.json    what it does          both gone when it has ended
    NAME.log     what Spark said (`logs`)     NAME/        its checkpoints, which stay

Invariant: files of a name are written and removed only by whoever holds its lock.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from penstock.client.errors.base import ClientError
from penstock.config.broker import default_data_directory
from penstock.spark.pipelines.logs import forget_empty

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
        self._directory = directory
        self._lock: Lock | None = None

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        self._lock = _patiently(self._directory, self.entry.name)
        self.write()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock is not None:
            self._lock.forget()
            self._lock = None

    def rename(self, name: str) -> None:
        """Go on under another name, which turned out to be the program's own; the old one is free then."""
        check_name(name)
        if name == self.entry.name:
            return
        assert self._lock is not None, "it is entered"
        old, self._lock = self._lock, _patiently(self._directory, name)
        self.entry.name = name
        self.write()
        old.forget()

    def write(self) -> None:
        """Show others what the entry says now; whole, so that nobody reads half of it."""
        self.entry.updated_ms = time.time_ns() // 1_000_000
        file = self._directory / f"{self.entry.name}.json"
        draft = file.with_name(f"{file.name}.draft")
        draft.write_text(json.dumps(asdict(self.entry)))
        draft.replace(file)


class Lock:
    """A name that this process holds. Only its holder removes the name's files, the lock's own among them."""

    def __init__(self, directory: Path, name: str, held: int) -> None:
        self._directory = directory
        self._name = name
        self._held = held

    @classmethod
    def take(cls, directory: Path, name: str) -> Lock | None:
        """None where another process has it."""
        path = directory / f"{name}.lock"
        while True:
            held = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_file(held, path):
                    return cls(directory, name, held)
            except BlockingIOError:
                os.close(held)
                return None
            except BaseException:
                os.close(held)
                raise
            os.close(held)  # its last holder has removed it meanwhile: the file of that name is another

    def forget(self) -> None:
        """Remove what the name has left, and free it."""
        for ending in ("json.draft", "json", "lock"):
            (self._directory / f"{self._name}.{ending}").unlink(missing_ok=True)
        os.close(self._held)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.forget()


def running(directory: Path) -> list[Entry]:
    """All that run, by name. What the dead left is removed on the way."""
    found: list[Entry] = []
    for name in sorted({file.stem for ending in ("json", "lock") for file in directory.glob(f"*.{ending}")}):
        if not is_held(directory, name):
            if lock := Lock.take(directory, name):
                lock.forget()
                forget_empty(directory, name)
            continue
        if entry := read(directory, name):
            found.append(entry)
    return found


def read(directory: Path, name: str) -> Entry | None:
    """The entry of a name; None where it has none, or one of another version."""
    try:
        return Entry(**json.loads((directory / f"{name}.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None


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


def tell(directory: Path, entry: Entry, number: signal.Signals) -> bool:
    """Send a signal to the process of an entry, and to no other that has its number by now; whether it still ran."""
    if not hasattr(os, "pidfd_open"):  # elsewhere than on Linux
        if is_held(directory, entry.name):
            os.kill(entry.pid, number)
            return True
        return False
    try:
        process = os.pidfd_open(entry.pid)
    except ProcessLookupError:
        return False
    try:
        # What this names will not change from here on: so if the entry is still held, it is the one that holds it.
        now = read(directory, entry.name) if is_held(directory, entry.name) else None
        if now is None or now.pid != entry.pid:
            return False
        signal.pidfd_send_signal(process, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(process)
    return True


def _patiently(directory: Path, name: str) -> Lock:
    # Whoever asks what runs holds it for a moment, too (`is_held`).
    for is_last in [False] * LOCK_TRIES + [True]:
        if lock := Lock.take(directory, name):
            return lock
        if not is_last:
            time.sleep(LOCK_PAUSE_SECONDS)
    raise _already_running(name)


def _is_file(descriptor: int, path: Path) -> bool:
    """Whether an open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _already_running(name: str) -> AlreadyRunning:
    return AlreadyRunning(
        f"{name} runs already; `penstock pipeline stop {name}` stops it, --name names another"
    )


def check_name(name: str) -> None:
    if not NAME.fullmatch(name) or name.endswith((".json", ".lock", ".log")):  # which are files of others
        raise BadName(
            f"{name!r} cannot name a pipeline: letters, digits, dots, dashes and underscores, up to 100"
        )
