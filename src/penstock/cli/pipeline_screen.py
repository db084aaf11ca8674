"""How a running pipeline looks: a live table on a terminal, a line for each batch in a pipe, JSON for programs."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, Self

from penstock.cli.output import Output, printable, show_bytes, show_duration, to_json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from penstock.spark.pipelines.figures import QueryFigures

LINE_SECONDS = 1.0  # batches of a busy query may be quicker than anyone reads
BAR_WIDTH = 24


class Screen(Protocol):
    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def show(self, queries: Sequence[QueryFigures]) -> None: ...


def screen_for(name: str, output: Output) -> Screen:
    if output.as_json:
        return Lines(name, as_json=True)
    return Live(name) if sys.stdout.isatty() else Lines(name, as_json=False)


class Lines:
    """A line for a query whenever it has done something, at most one a second."""

    def __init__(self, name: str, *, as_json: bool) -> None:
        self._name = name
        self._as_json = as_json
        self._began = time.monotonic()
        self._told: dict[str, tuple[int, int]] = {}
        self._told_at: dict[str, float] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, queries: Sequence[QueryFigures]) -> None:
        now = time.monotonic()
        for figures in queries:
            mark = (figures.batch, figures.rows_in)
            is_news = figures.batch >= 0 and self._told.get(figures.name) != mark
            is_time = now - self._told_at.get(figures.name, 0.0) >= LINE_SECONDS or figures.state == "done"
            if is_news and is_time:
                self._told[figures.name], self._told_at[figures.name] = mark, now
                if self._as_json:
                    told = to_json({"pipeline": self._name, "event": "batch", **figures.as_json()})
                else:
                    told = f"{now - self._began:6.1f} s  {line_of(figures)}"
                print(told, flush=True)


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
        self._live.update(table_of(self._name, queries), refresh=True)


def table_of(name: str, queries: Sequence[QueryFigures]) -> RenderableType:
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    table = Table(title=printable(name), title_justify="left")
    for heading in ("query", "batch"):
        table.add_column(heading, overflow="fold")
    for heading in ("in/s", "out", "last batch", "lag", "state"):
        table.add_column(heading, justify="right")
    table.add_column("caught up", width=BAR_WIDTH)
    for figures in queries:
        fraction = figures.fraction
        bar = ProgressBar(
            total=1.0,
            completed=fraction or 0.0,
            width=BAR_WIDTH,
            pulse=fraction is None and figures.batch < 0,
        )
        table.add_row(
            Text(printable(figures.name)),
            figures.state if figures.batch < 0 else str(figures.batch),
            f"{figures.rows_in_per_second:,.0f}",
            "-" if figures.rows_out is None else f"{figures.rows_out:,}",
            show_duration(figures.batch_ms) if figures.batch >= 0 else "-",
            "-" if figures.lag is None else f"{figures.lag:,}",
            f"{figures.state_rows:,} rows, {show_bytes(figures.state_bytes)}" if figures.state_rows else "-",
            bar if fraction is not None or figures.batch < 0 else "",
        )
    return table


def line_of(figures: QueryFigures) -> str:
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
