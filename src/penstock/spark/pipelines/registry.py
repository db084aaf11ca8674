"""The registry of pipelines on this machine: a file for each, so that other processes can see and stop them.

A running pipeline holds a lock on a file of its name, from before Spark starts until it has ended. The lock ends
with the process, even if it is killed, so an entry without a lock belongs to a dead process, and every reader
removes it. A process id alone could have been reused.

    NAME.lock    held by the process          NAME.json    its figures          both deleted when it ends
    NAME.log     Spark's output (`logs`)      NAME/        its checkpoints, which stay

Invariant: only the holder of a name's lock writes or deletes its files.
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
    """A pipeline of that name is running; two would write the same checkpoint."""


class BadName(ClientError):
    """A name that cannot be a file name."""


@dataclass(slots=True)
class Entry:
    """What is known of a running pipeline."""

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
    """Where pipelines keep state between runs: next to a broker's data directory."""
    return Path(default_data_directory(os.environ if environment is None else environment) + "-pipelines")


class Registration:
    """A pipeline's own entry, while it runs."""

    def __init__(self, directory: Path, entry: Entry) -> None:
        check_name(entry.name)
        self.entry = entry
        self._directory = directory
        self._lock: Lock | None = None

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(self._directory, self.entry.name)
        self.write()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def rename(self, name: str) -> None:
        """Continue under the program's own name, which is known only now; frees the old one."""
        check_name(name)
        if name == self.entry.name:
            return
        assert self._lock is not None, "rename() is called inside the block"
        old, self._lock = self._lock, _lock(self._directory, name)
        self.entry.name = name
        self.write()
        old.release()

    def write(self) -> None:
        """Publish the entry; atomically, so that no reader sees half of it."""
        self.entry.updated_ms = time.time_ns() // 1_000_000
        file = self._directory / f"{self.entry.name}.json"
        draft = file.with_name(f"{file.name}.draft")
        draft.write_text(json.dumps(asdict(self.entry)))
        draft.replace(file)


class Lock:
    """A name that this process holds. Only the holder deletes the name's files, including the lock's own."""

    def __init__(self, directory: Path, name: str, held: int) -> None:
        self._directory = directory
        self._name = name
        self._held = held

    @classmethod
    def take(cls, directory: Path, name: str) -> Lock | None:
        """None if another process holds it."""
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
            os.close(held)  # the last holder deleted it meanwhile, so the name is another file now

    def release(self) -> None:
        """Delete the files of the name, and free it."""
        for ending in ("json.draft", "json", "lock"):
            (self._directory / f"{self._name}.{ending}").unlink(missing_ok=True)
        os.close(self._held)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def running(directory: Path) -> list[Entry]:
    """The running pipelines by name. Removes the files of dead ones."""
    found: list[Entry] = []
    for name in sorted({file.stem for ending in ("json", "lock") for file in directory.glob(f"*.{ending}")}):
        if not is_held(directory, name):
            if lock := Lock.take(directory, name):
                lock.release()
                forget_empty(directory, name)
            continue
        if entry := read(directory, name):
            found.append(entry)
    return found


def read(directory: Path, name: str) -> Entry | None:
    """The entry of a name; None if there is none, or one of another version."""
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


def send_signal(directory: Path, entry: Entry, number: signal.Signals) -> bool:
    """Send a signal to the process of an entry, and to no other that has reused its id; returns whether it was
    running."""
    if not hasattr(os, "pidfd_open"):  # not on Linux
        if is_held(directory, entry.name):
            os.kill(entry.pid, number)
            return True
        return False
    try:
        process = os.pidfd_open(entry.pid)
    except ProcessLookupError:
        return False
    try:
        # From here on the descriptor stands for one process. If the entry is still held, it is its holder.
        now = read(directory, entry.name) if is_held(directory, entry.name) else None
        if now is None or now.pid != entry.pid:
            return False
        signal.pidfd_send_signal(process, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(process)
    return True


def _lock(directory: Path, name: str) -> Lock:
    # A reader holds the lock for a moment, too (`is_held`).
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
        f"{name} is already running: stop it with `penstock pipeline stop {name}`, or choose another --name"
    )


def check_name(name: str) -> None:
    if not NAME.fullmatch(name) or name.endswith(
        (".json", ".lock", ".log")
    ):  # these would be files of other names
        raise BadName(
            f"{name!r} is not a valid pipeline name: use up to 100 letters, digits, dots, dashes and underscores"
        )
