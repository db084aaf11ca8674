"""Ends the open transactions of a terminated query run: Spark kills its tasks and does not notify the sink.

    CLEANUP.add(SinkRun(...), is_over=...)         # a run started to write exactly once
    CLEANUP.retire(run)                            # it is over, in whatever way
    CLEANUP.end()                                  # the program ends

A process has one, for the queries of all its sessions. A stopped session does not report the end of its queries, so
sessions are polled.

Everything runs on the driver, by `protocol.retire`, on a thread that exists from the start, because none can be
started while a program ends. Only the end of the program waits for it, for a moment.

It must not raise or hang: what it could not do is a warning that says what stays open and how to end it.
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

from penstock.client import errors
from penstock.client.background import Background
from penstock.spark.options import Options
from penstock.spark.sink import PREFIX
from penstock.spark.sink.decision import ids_of
from penstock.spark.sink.decisions import PATIENCE_S
from penstock.spark.sink.protocol import retire
from penstock.spark.sink.transactions import SinkAdmin, admin_settings

logger = logging.getLogger("penstock.spark")

WATCH_S = 1.0  # how often the sessions of runs are polled
# Spark lets a killed Python task run for two more seconds (spark.python.task.killTimeout), in which it may still start
# to write.
TASKS_END_S = 3.0
AGAIN_S = 5.0  # the timeout if probably nothing is open
EXIT_S = 2.0  # how long the end of a program waits


@dataclass(frozen=True)
class SinkRun:
    """A run of a query that writes exactly once, and the connection settings of its cluster."""

    sink: str
    run: str
    prefix: str
    settings: dict[str, str] = field(compare=False)

    @classmethod
    def of(cls, options: Options, *, sink: str, run: str) -> SinkRun:
        return cls(sink, run, options.get("transactionalIdPrefix") or PREFIX, options.settings)

    @property
    def transactions(self) -> str:
        """The pattern of its transactional ids, for messages."""
        return f"{ids_of(self.prefix, self.sink)}{self.run}-*"


class TransactionCleanup:
    """The runs of one driver process."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._background = Background("penstock-cleanup")
        self._running: dict[str, set[SinkRun]] = {}
        self._is_over: dict[str, Callable[[], bool]] = {}
        """Of the active runs."""
        self._watch: asyncio.Task[None] | None = None
        self._ending: set[SinkRun] = set()
        self._harmless: set[SinkRun] = set()
        """Ending runs that were cleaned once, or had nothing open when they ended."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_empty = threading.Event()
        self._is_empty.set()
        self._hurry = asyncio.Event()
        self._deadline_s: float | None = None

    @property
    def runs(self) -> set[str]:
        """The active runs."""
        with self._lock:
            return set(self._running)

    def add(self, run: SinkRun, *, is_over: Callable[[], bool] = bool) -> None:
        """A run has started. `is_over` tells without waiting whether it has ended unreported."""
        with self._lock:
            known = self._running.setdefault(run.run, set())
            if run in known:
                return
            known.add(run)
            self._is_over[run.run] = is_over
        self._post(self._begin_watch)  # this starts the thread, too

    def retire(self, run: str, *, is_whole: bool = False) -> None:
        """A run is over; unknown runs are ignored. `is_whole` means that it ended between batches, so probably
        nothing is open."""
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
        """Whether this is a forked child of a driver, which must leave the driver's queries alone."""
        return os.getpid() != self._process

    def end(self) -> None:
        """The program ends: finish now, or warn."""
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
            _warn(each, "the program ended before the cluster responded")
        self._background.close()

    def _post(self, callback: Callable[..., object], *arguments: object) -> None:
        with contextlib.suppress(errors.ClientClosed):  # Spark may call while the program ends
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
        self._watch = None  # on the thread that starts it, so that no run is missed

    def _begin(self, run: SinkRun, is_whole: bool) -> None:
        task = asyncio.get_running_loop().create_task(self._clean(run, is_whole))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _clean(self, run: SinkRun, is_whole: bool) -> None:
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
                logger.info("did not check query %s for open transactions: %s", run.sink, error)
            else:
                _warn(run, f"{type(error).__name__}: {error}")
        finally:
            with self._lock:
                self._ending.discard(run)
                self._harmless.discard(run)
                if not self._ending:
                    self._is_empty.set()


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
        "query %s is over, but its transactions (%s) may still be open (%s). They block read_committed consumers until"
        " the query is started again, penstock.spark.finish_query ends them, or they time out",
        run.sink,
        run.transactions,
        reason,
    )


def _register_finalizers_first() -> None:
    """When the program ends, the finalizers of clients end their threads; `end` has to run before that. Python runs
    the exit handlers in reverse order, and registers all finalizers with the first one."""
    weakref.finalize(TransactionCleanup, lambda: None).detach()


_register_finalizers_first()

CLEANUP = TransactionCleanup()
