"""The progress of a running pipeline: a live table on a terminal, lines in a pipe, or JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, Self

from penstock.cli.output import Output, printable, show_bytes, show_duration, to_json

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from penstock.spark.pipelines.figures import QueryFigures

LINE_SECONDS = 1.0  # at least; batches may be faster than a person reads
REMINDER_SECONDS = 10.0  # between two lines that no broker answers, or that a batch is still running
BAR_WIDTH = 24
TABLE_WIDTH_MAX = 1_000  # wider than any terminal, to measure the table
NO_WORKERS = (
    "no worker of the cluster has accepted it: check that cores are free (another program may use all of them: set "
    "spark.cores.max=1 there) and that a worker has enough memory (--set spark.executor.memory=512m)"
)


class Screen(Protocol):
    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def show(self, queries: Sequence[QueryFigures]) -> None: ...


def screen_for(name: str, output: Output) -> Screen:
    if output.as_json:
        return Lines(name, as_json=True)
    return Live(name) if sys.stdout.isatty() else Lines(name, as_json=False)


class Lines:
    """Prints a line per query when it has made progress, at most one a second, and reminders while it waits."""

    def __init__(self, name: str, *, as_json: bool) -> None:
        self._name = name
        self._as_json = as_json
        self._began = time.monotonic()
        self._printed: dict[str, tuple[int, int]] = {}
        self._printed_at: dict[str, float] = {}
        self._outages: dict[str, tuple[float, str]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, queries: Sequence[QueryFigures]) -> None:
        now = time.monotonic()
        for figures in queries:
            self._print_outage(figures, now)
            mark = (figures.batch, figures.rows_in)
            has_batch = figures.batch >= 0 and figures.waits_for is None
            is_news = has_batch and self._printed.get(figures.name) != mark
            is_time = now - self._printed_at.get(figures.name, 0.0) >= LINE_SECONDS or figures.state == "done"
            if is_news and is_time:
                self._printed[figures.name], self._printed_at[figures.name] = mark, now
                self._print(figures, "batch", line_of(figures), now)
            elif is_batch_slow(figures) and now - self._printed_at.get(figures.name, 0.0) >= REMINDER_SECONDS:
                self._printed_at[figures.name] = now
                self._print(figures, "work", batch_of(figures), now)

    def _print_outage(self, figures: QueryFigures, now: float) -> None:
        """Print that no broker answers, and later that one answers again."""
        printed_at, servers = self._outages.get(figures.name, (-REMINDER_SECONDS, ""))
        if figures.waits_for is None:
            if self._outages.pop(figures.name, None) is not None:
                self._print(figures, "answer", f"{printable(figures.name)}: {servers} answers again", now)
        elif now - printed_at >= REMINDER_SECONDS:
            self._outages[figures.name] = now, printable(figures.waits_for)
            self._print(figures, "waiting", line_of(figures), now)

    def _print(self, figures: QueryFigures, event: str, line: str, now: float) -> None:
        if self._as_json:
            print(to_json({"pipeline": self._name, "event": event, **figures.as_json()}), flush=True)
        else:
            print(f"{now - self._began:6.1f} s  {line}", flush=True)


class Live:
    """A table that is redrawn, and stays on the screen at the end."""

    def __init__(self, name: str) -> None:
        from rich.console import Console
        from rich.live import Live as RichLive

        self._name = name
        self._live = RichLive(console=Console(), auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, queries: Sequence[QueryFigures]) -> None:
        self._live.update(render(self._name, queries, self._live.console), refresh=True)


def render(name: str, queries: Sequence[QueryFigures], console: Console) -> RenderableType:
    """A table, or a line for each query if the terminal is too narrow for all columns."""
    from rich.text import Text

    table = table_of(name, queries)
    if (
        console.measure(table, options=console.options.update(max_width=TABLE_WIDTH_MAX)).minimum
        <= console.width
    ):
        return table
    lines = [line_of(figures) for figures in queries]
    lines += [batch_of(figures) for figures in queries if figures.lacks_workers]
    return Text("\n".join(lines))


def table_of(name: str, queries: Sequence[QueryFigures]) -> RenderableType:
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    table = Table(title=printable(name), title_justify="left")
    for heading in ("query", "batch"):
        table.add_column(heading, overflow="fold")
    for heading in ("in", "in/s", "out", "last batch", "lag", "state"):
        table.add_column(heading, justify="right", overflow="fold")
    table.add_column("caught up", width=BAR_WIDTH)
    for figures in queries:
        fraction = figures.fraction
        bar = ProgressBar(
            total=1.0,
            completed=fraction or 0.0,
            width=BAR_WIDTH,
            pulse=fraction is None and figures.batch < 0,
        )
        has_batch = figures.batch >= 0 and figures.waits_for is None
        table.add_row(
            Text(printable(figures.name)),
            str(figures.batch) if has_batch else figures.state,
            f"{figures.rows_in:,}",
            f"{figures.rows_in_per_second:,.0f}",
            "-" if figures.rows_out is None else f"{figures.rows_out:,}",
            show_duration(figures.batch_ms) if figures.batch >= 0 else "-",
            "-" if figures.lag is None else f"{figures.lag:,}",
            f"{figures.state_rows:,} rows, {show_bytes(figures.state_bytes)}" if figures.state_rows else "-",
            bar if fraction is not None or figures.batch < 0 else "",
        )
    outages = [
        f"{printable(figures.name)}: {message}"
        for figures in queries
        if (message := outage_of(figures)) is not None
    ]
    outages += [batch_of(figures) for figures in queries if figures.lacks_workers]
    if outages:
        table.caption = Text("\n".join(outages), style="yellow")
        table.caption_justify = "left"
    return table


def outage_of(figures: QueryFigures) -> str | None:
    if figures.waits_for is None:
        return None
    return describe_outage(figures.waits_for, figures.waiting_seconds, figures.patience_seconds)


def describe_outage(servers: str, seconds: float, patience_seconds: float | None) -> str:
    """Which servers do not answer, for how long, and how long it keeps trying."""
    retrying = "still trying"
    if patience_seconds is not None and patience_seconds > seconds:
        retrying += f", for {show_duration(patience_seconds * 1000)} in all"
    since = f" for {show_duration(int(seconds) * 1000)}" if seconds >= 1 else ""
    return f"no broker has answered at {printable(servers)}{since}; {retrying}"


def is_batch_slow(figures: QueryFigures) -> bool:
    """Whether the current batch has run for so long that a user may wonder."""
    return figures.waits_for is None and figures.at_work_seconds >= REMINDER_SECONDS


def batch_of(figures: QueryFigures) -> str:
    which = "its first batch" if figures.batch < 0 else f"batch {figures.batch + 1}"
    line = f"{printable(figures.name)}: running {which} for {show_duration(figures.at_work_seconds * 1000)}"
    return f"{line}; {NO_WORKERS}" if figures.lacks_workers else line


def line_of(figures: QueryFigures) -> str:
    if outage := outage_of(figures):
        return f"{printable(figures.name)}: {outage}"
    parts = [
        f"{printable(figures.name)}: batch {figures.batch}",
        f"{figures.rows_in:,} in ({figures.rows_in_per_second:,.0f}/s)",
    ]
    if figures.rows_out is not None:
        parts.append(f"{figures.rows_out:,} out")
    parts.append(show_duration(figures.batch_ms))
    if figures.lag is not None:
        parts.append(f"lag {figures.lag:,}")
    if figures.state_rows:
        parts.append(f"state {figures.state_rows:,} rows, {show_bytes(figures.state_bytes)}")
    if figures.fraction is not None and figures.fraction < 1.0:
        parts.append(f"caught up {figures.fraction:.0%}")
    return ", ".join(parts)
