"""Ends what a run of a query has left open, when the run is over: Spark kills its tasks and tells the sink nothing.

    CARETAKER.note(SinkRun(...), is_over=...)      # a run has begun to write exactly once
    CARETAKER.retire(run)                          # it is over, whatever way
    CARETAKER.end()                                # the program is

There is one of a process, for the queries of all its sessions, and it ends with the process. A session that is stopped
tells nobody of the end of its queries; that is looked for.

All of it happens on the driver, by `protocol.retire`, on a thread that is there before it is needed: when a program
ends none can be started any more. Nobody waits for it but the end of the program, and that for a moment.

It must not raise and must not hang: what could not be done is a warning that says what stays open and what ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.client import errors
from penstock.client.background import Background
from penstock.spark.options import Options
from penstock.spark.sink import PREFIX
from penstock.spark.sink.decision import ids_of
from penstock.spark.sink.decisions import PATIENCE_S
from penstock.spark.sink.protocol import retire
from penstock.spark.sink.transactions import SinkAdmin, admin_settings

if TYPE_CHECKING:
    from pyspark import SparkContext

logger = logging.getLogger("penstock.spark")

WATCH_S = 1.0  # how often is looked whether the session of a run is there
# Spark lets a Python task that it kills go on for two seconds (spark.python.task.killTimeout), in which it may still
# begin to write.
TASKS_END_S = 3.0
AGAIN_S = 5.0  # how long is tried where nothing is likely to be open
EXIT_S = 2.0  # how long the end of a program waits


@dataclass(frozen=True)
class SinkRun:
    """A run of a query that writes exactly once, and how to reach the cluster that it writes to."""

    sink: str
    run: str
    prefix: str
    settings: dict[str, str] = field(compare=False)

    @classmethod
    def of(cls, options: Options, *, sink: str, run: str) -> SinkRun:
        return cls(sink, run, options.get("transactionalIdPrefix") or PREFIX, options.settings)

    @property
    def transactions(self) -> str:
        """In words for users."""
        return f"{ids_of(self.prefix, self.sink)}{self.run}-*"


class Caretaker:
    """What one process, a driver, knows of its runs."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._background = Background("penstock-caretaker")
        self._running: dict[str, set[SinkRun]] = {}
        self._is_over: dict[str, Callable[[], bool]] = {}
        """Of those that run."""
        self._watch: asyncio.Task[None] | None = None
        self._ending: set[SinkRun] = set()
        self._harmless: set[SinkRun] = set()
        """Of those that are ending, which were looked at once, or ended when they had nothing open."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_empty = threading.Event()
        self._is_empty.set()
        self._hurry = asyncio.Event()
        self._deadline_s: float | None = None

    @property
    def runs(self) -> set[str]:
        """Those that are not over yet."""
        with self._lock:
            return set(self._running)

    def note(self, run: SinkRun, *, is_over: Callable[[], bool] = bool) -> None:
        """A run has begun. `is_over` says, without waiting, whether it is over though nobody has told."""
        with self._lock:
            known = self._running.setdefault(run.run, set())
            if run in known:
                return
            known.add(run)
            self._is_over[run.run] = is_over
        self._post(self._begin_watch)  # also so that its thread is there

    def retire(self, run: str, *, is_whole: bool = False) -> None:
        """A run is over. Others than those that were noted do not matter. `is_whole` where it was not in the middle of
        a batch, so that nothing is likely to be open."""
        with self._lock:
            over = self._running.pop(run, set())
            self._is_over.pop(run, None)
            self._ending |= over
            if is_whole:
                self._harmless |= over
            if over:
                self._is_empty.clear()
        for each in over:
            self._post(self._begin, each, is_whole)

    @property
    def is_left_behind(self) -> bool:
        """Whether this is a child that a driver has forked, whose queries are no business of it."""
        return os.getpid() != self._process

    def end(self) -> None:
        """The program is over: what is still to be done is done now, or said."""
        if self.is_left_behind:
            return
        if not self._is_empty.is_set():
            if self._deadline_s is None:
                self._deadline_s = time.monotonic() + EXIT_S
            self._post(self._hurry.set)
            self._is_empty.wait(max(0.0, self._deadline_s - time.monotonic()))
        with self._lock:
            left, self._ending = self._ending - self._harmless, set()
            self._is_empty.set()
        for each in sorted(left, key=lambda each: each.transactions):
            _warn(each, "the program ended before the cluster had answered")
        self._background.close()

    def _post(self, callback: Callable[..., object], *arguments: object) -> None:
        with contextlib.suppress(errors.ClientClosed):  # Spark may still call while the program ends
            self._background.post(callback, *arguments)

    def _begin_watch(self) -> None:
        if self._watch is None:
            self._watch = asyncio.get_running_loop().create_task(self._watch_runs())

    async def _watch_runs(self) -> None:
        while self.runs:
            with self._lock:
                over = [run for run, is_over in self._is_over.items() if is_over()]
            for run in over:
                self.retire(run)
            await asyncio.sleep(WATCH_S)
        self._watch = None  # on the thread on which it is begun, so that none is missed

    def _begin(self, run: SinkRun, is_whole: bool) -> None:
        task = asyncio.get_running_loop().create_task(self._see_to(run, is_whole))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _see_to(self, run: SinkRun, is_whole: bool) -> None:
        try:
            if not is_whole:
                await _retire(run, PATIENCE_S)
                with self._lock:
                    self._harmless.add(run)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._hurry.wait(), TASKS_END_S)
            await _retire(run, AGAIN_S)
        except Exception as error:
            if run in self._harmless:
                logger.info("query %s was not looked at for open transactions: %s", run.sink, error)
            else:
                _warn(run, f"{type(error).__name__}: {error}")
        finally:
            with self._lock:
                self._ending.discard(run)
                self._harmless.discard(run)
                if not self._ending:
                    self._is_empty.set()


def stopped(context: SparkContext) -> Callable[[], bool]:
    """Whether a program has stopped the context of its sessions, which then forgets its JVM."""
    return lambda: getattr(context, "_jsc", None) is None


async def _retire(run: SinkRun, patience_s: float) -> None:
    async with SinkAdmin.of(admin_settings(run.settings)) as admin:
        work = retire(admin, run.sink, run.run, prefix=run.prefix)
        try:
            await asyncio.wait_for(work, patience_s)
        except TimeoutError as late:
            if isinstance(late, errors.PenstockError):
                raise
            raise errors.TimedOut(f"not done within {patience_s:.0f} s") from None


def _warn(run: SinkRun, reason: str) -> None:
    logger.warning(
        "query %s is over, and its open transactions (%s) may not have been ended (%s). Readers of committed records"
        " wait behind those that are open until the query is started again, or penstock.spark.finish_query ends them,"
        " or they time out",
        run.sink,
        run.transactions,
        reason,
    )


def _let_finalizers_come_last() -> None:
    """When the program ends, the finalizers of clients end their threads, and whoever calls `end` has to come before
    that. Python calls last what was registered first, and registers all finalizers when the first one is made."""
    weakref.finalize(Caretaker, lambda: None).detach()


_let_finalizers_come_last()

CARETAKER = Caretaker()
