"""How a running pipeline looks: a live table on a terminal, a line for each batch in a pipe, JSON for programs."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, Self

from penstock.cli.output import Output, printable, show_bytes, show_duration, to_json

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from penstock.spark.pipelines.figures import QueryFigures

LINE_SECONDS = 1.0  # batches of a busy query may be quicker than anyone reads
SILENCE_SECONDS = 10.0  # how often it is said that nobody answers, or that a batch is still at work
BAR_WIDTH = 24
TABLE_WIDTH_MAX = 1_000  # wider than any terminal, so that a table is measured without being squeezed
NO_WORKERS = (
    "no worker of the cluster has taken it on: see that cores are free (another program may have all: --set "
    "spark.cores.max=1 there) and that it asks for no more memory than a worker has (--set spark.executor.memory=512m)"
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
    """A line for a query whenever it has done something, at most one a second, and now and then when it cannot."""

    def __init__(self, name: str, *, as_json: bool) -> None:
        self._name = name
        self._as_json = as_json
        self._began = time.monotonic()
        self._told: dict[str, tuple[int, int]] = {}
        self._told_at: dict[str, float] = {}
        self._outages: dict[str, tuple[float, str]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, queries: Sequence[QueryFigures]) -> None:
        now = time.monotonic()
        for figures in queries:
            self._tell_outage(figures, now)
            mark = (figures.batch, figures.rows_in)
            is_telling = figures.batch >= 0 and figures.waits_for is None
            is_news = is_telling and self._told.get(figures.name) != mark
            is_time = now - self._told_at.get(figures.name, 0.0) >= LINE_SECONDS or figures.state == "done"
            if is_news and is_time:
                self._told[figures.name], self._told_at[figures.name] = mark, now
                self._print(figures, "batch", line_of(figures), now)
            elif is_telling_work(figures) and now - self._told_at.get(figures.name, 0.0) >= SILENCE_SECONDS:
                self._told_at[figures.name] = now
                self._print(figures, "work", work_of(figures), now)

    def _tell_outage(self, figures: QueryFigures, now: float) -> None:
        """That nobody answers, and that somebody does again."""
        told_at, servers = self._outages.get(figures.name, (-SILENCE_SECONDS, ""))
        if figures.waits_for is None:
            if self._outages.pop(figures.name, None) is not None:
                self._print(figures, "answer", f"{printable(figures.name)}: {servers} answers again", now)
        elif now - told_at >= SILENCE_SECONDS:
            self._outages[figures.name] = now, printable(figures.waits_for)
            self._print(figures, "waiting", line_of(figures), now)

    def _print(self, figures: QueryFigures, event: str, line: str, now: float) -> None:
        if self._as_json:
            print(to_json({"pipeline": self._name, "event": event, **figures.as_json()}), flush=True)
        else:
            print(f"{now - self._began:6.1f} s  {line}", flush=True)


class Live:
    """A table that is drawn over and over, and stays when all is done."""

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
        self._live.update(picture_of(self._name, queries, self._live.console), refresh=True)


def picture_of(name: str, queries: Sequence[QueryFigures], console: Console) -> RenderableType:
    """A table, or a line for each query if the terminal is too narrow for all columns."""
    from rich.text import Text

    table = table_of(name, queries)
    if (
        console.measure(table, options=console.options.update(max_width=TABLE_WIDTH_MAX)).minimum
        <= console.width
    ):
        return table
    told = [line_of(figures) for figures in queries]
    told += [work_of(figures) for figures in queries if figures.lacks_workers]
    return Text("\n".join(told))


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
        is_told = figures.batch >= 0 and figures.waits_for is None
        table.add_row(
            Text(printable(figures.name)),
            str(figures.batch) if is_told else figures.state,
            f"{figures.rows_in:,}",
            f"{figures.rows_in_per_second:,.0f}",
            "-" if figures.rows_out is None else f"{figures.rows_out:,}",
            show_duration(figures.batch_ms) if figures.batch >= 0 else "-",
            "-" if figures.lag is None else f"{figures.lag:,}",
            f"{figures.state_rows:,} rows, {show_bytes(figures.state_bytes)}" if figures.state_rows else "-",
            bar if fraction is not None or figures.batch < 0 else "",
        )
    outages = [
        f"{printable(figures.name)}: {words}"
        for figures in queries
        if (words := outage_of(figures)) is not None
    ]
    outages += [work_of(figures) for figures in queries if figures.lacks_workers]
    if outages:
        table.caption = Text("\n".join(outages), style="yellow")
        table.caption_justify = "left"
    return table


def outage_of(figures: QueryFigures) -> str | None:
    if figures.waits_for is None:
        return None
    return outage_words(figures.waits_for, figures.waiting_seconds, figures.patience_seconds)


def outage_words(servers: str, seconds: float, patience_seconds: float | None) -> str:
    """Who does not answer, for how long, and how long that is borne."""
    going_on = "it goes on trying"
    if patience_seconds is not None and patience_seconds > seconds:
        going_on += f", for {show_duration(patience_seconds * 1000)} in all"
    since = f" for {show_duration(int(seconds) * 1000)}" if seconds >= 1 else ""
    return f"no broker has answered at {printable(servers)}{since}; {going_on}"


def is_telling_work(figures: QueryFigures) -> bool:
    """Whether it is at a batch for so long that somebody may wonder."""
    return figures.waits_for is None and figures.at_work_seconds >= SILENCE_SECONDS


def work_of(figures: QueryFigures) -> str:
    which = "its first batch" if figures.batch < 0 else f"batch {figures.batch + 1}"
    told = f"{printable(figures.name)}: at {which} for {show_duration(figures.at_work_seconds * 1000)}"
    return f"{told}; {NO_WORKERS}" if figures.lacks_workers else told


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
