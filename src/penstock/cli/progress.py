"""A progress bar on stderr, for work that takes longer than a second.

Before that, and if stderr is not a terminal, nothing is shown and rich is not loaded. Without a total it is a spinner.
It disappears when the work is done.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

DELAY_SECONDS = 1.0


class Progress:
    """The progress of some work. May be updated from any thread."""

    def __init__(self, what: str, *, total: float | None, unit: str, is_shown: bool) -> None:
        self.what = what
        self.total = total
        self.unit = unit
        self.done: float = 0
        self._is_shown = is_shown
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def __enter__(self) -> Self:
        if self._is_shown:
            self._timer = threading.Timer(DELAY_SECONDS, self._show_bar)
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            self._is_shown = False
            if self._bar is not None:
                self._bar.stop()

    def advance(self, amount: float = 1) -> None:
        self.update(self.done + amount)

    def update(self, done: float, *, total: float | None = None, what: str | None = None) -> None:
        self.done = done
        self.total = self.total if total is None else total
        self.what = what or self.what
        bar, task = self._bar, self._task
        if bar is not None and task is not None:
            bar.update(task, completed=done, total=self.total, description=self.what)

    def _show_bar(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        with self._lock:
            if not self._is_shown:
                return
            bar = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn(self.unit, markup=False),
                TimeElapsedColumn() if self.total is None else TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = bar.add_task(self.what, total=self.total, completed=int(self.done))
            self._bar = bar
            bar.start()
