"""The screen of the demo: input, pipeline and output."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from penstock.cli.demo.orders import COUNTRIES, ORDERS_TOPIC
from penstock.cli.demo.results import Results
from penstock.cli.demo.revenue import REVENUE_TOPIC
from penstock.cli.output import count_of, show_bytes, show_duration, sparkline

if TYPE_CHECKING:
    from penstock.spark.pipelines.figures import QueryFigures

WIDTH = 84
WINDOWS_SHOWN = 6
LINE_SECONDS = 2.0


@dataclass
class View:
    """The data of the screen."""

    servers: str
    seconds: float | None
    phase: str = "starting Spark"
    generated: int = 0
    figures: QueryFigures | None = None
    results: Results = field(default_factory=Results)
    rates: deque[float] = field(default_factory=lambda: deque(maxlen=32))
    began: float = field(default_factory=time.monotonic)

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.began

    @property
    def lag(self) -> int:
        """Orders not yet read. Spark's own figure is from the planning of the last batch."""
        return max(0, self.generated - (0 if self.figures is None else self.figures.rows_in))


class Screen:
    """Live on a terminal; otherwise a line every two seconds."""

    def __init__(self, console: Console, view: View) -> None:
        self._console = console
        self._view = view
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._next_line = 0.0
        self._seen = (0, time.monotonic())

    def __enter__(self) -> Screen:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def draw(self) -> None:
        now = time.monotonic()
        count, at = self._seen
        if now - at >= 1.0:
            self._view.rates.append((self._view.generated - count) / (now - at))
            self._seen = (self._view.generated, now)
        if self._live is not None:
            self._live.update(panel_of(self._view), refresh=True)
        elif now >= self._next_line:
            self._next_line = now + LINE_SECONDS
            self._console.print(line_of(self._view), soft_wrap=True, highlight=False)


def panel_of(view: View) -> Panel:
    until = "Ctrl-C stops it" if view.seconds is None else f"stops after {view.seconds:.0f} s"
    address = view.servers.partition(",")[0]
    hint = Text(f"penstock consume {REVENUE_TOPIC} -b {address} --from -5", style="cyan")
    shown = Group(
        _figures_of(view), Text(), _windows_of(view), Text(), Text("try it yourself:", style="dim"), hint
    )
    return Panel(shown, title=f"penstock demo, {view.phase}", subtitle=until, width=WIDTH)


def _figures_of(view: View) -> Table:
    table = Table.grid(padding=(0, 3))
    table.add_column(style="dim")
    table.add_column(justify="right")
    table.add_column(style="dim")
    rate = view.rates[-1] if view.rates else 0.0
    table.add_row("orders in", f"{view.generated:,}", f"{rate:,.0f}/s  {sparkline(view.rates)}")
    figures = view.figures
    if figures is None or figures.batch < 0:
        phase = view.phase if figures is None else f"first batch, {figures.at_work_seconds} s"
        table.add_row("pipeline", phase, ProgressBar(total=None, pulse=True, width=30))
        return table
    bar: Any = ProgressBar(total=1.0, completed=figures.fraction or 0.0, width=30)
    table.add_row("orders read", f"{figures.rows_in:,}", "caught up" if figures.fraction == 1.0 else bar)
    table.add_row(
        "lag", f"{view.lag:,}", f"batch {figures.batch}, the last took {show_duration(figures.batch_ms)}"
    )
    table.add_row("state", f"{figures.state_rows:,} rows", f"{show_bytes(figures.state_bytes)}, RocksDB")
    table.add_row(
        "orders out", f"{view.results.orders:,}", f"in {len(view.results.windows):,} windows, read_committed"
    )
    return table


def _windows_of(view: View) -> Table:
    table = Table(box=None, padding=(0, 1), title="orders by country, windows of 5 s", title_style="dim")
    table.add_column("from", style="dim")
    for country in COUNTRIES:
        table.add_column(country, justify="right")
    table.add_column("revenue", justify="right", style="bold")
    for begin, countries in view.results.latest(WINDOWS_SHOWN):
        cells = [f"{countries[country].orders:,}" if country in countries else "" for country in COUNTRIES]
        table.add_row(begin, *cells, _euros(sum(window.cents for window in countries.values())))
    return table


def line_of(view: View) -> str:
    line = f"{view.elapsed:5.1f} s  {view.phase}: {view.generated:,} orders in"
    figures = view.figures
    if figures is None:
        return line
    if figures.batch < 0:
        return f"{line}, first batch running ({figures.at_work_seconds} s)"
    return (
        f"{line}, {figures.rows_in:,} read (batch {figures.batch}, {show_duration(figures.batch_ms)}, "
        f"lag {view.lag:,}, state {figures.state_rows:,} rows), {view.results.orders:,} out"
    )


def print_summary(console: Console, view: View, *, generated: int, cents: int) -> bool:
    """Print input and output. Returns whether they agree."""
    results, figures = view.results, view.figures
    read = figures.rows_in if figures is not None else 0
    batches = figures.batch + 1 if figures is not None else 0
    agrees = generated == read == results.orders and cents == results.cents
    rows = (
        ("orders generated", generated, f"{_euros(cents)} in the topic {ORDERS_TOPIC}"),
        ("orders read", read, f"by the pipeline, in {count_of(batches, 'micro-batch', 'es')}"),
        (
            "orders counted",
            results.orders,
            f"{_euros(results.cents)} in {count_of(len(results.windows), 'window')}",
        ),
    )
    width = max(len(f"{count:,}") for _, count, _ in rows)
    for what, count, more in rows:
        console.print(f"{what:<16}  {count:>{width},}  [dim]{more}[/]", soft_wrap=True, highlight=False)
    verdict = (
        f"[green]every order exactly once[/], under read_committed in the topic {REVENUE_TOPIC}"
        if agrees
        else "[red]THE COUNTS DO NOT AGREE[/]"
    )
    console.print(verdict, soft_wrap=True, highlight=False)
    return agrees


def _euros(cents: int) -> str:
    return f"{cents / 100:,.2f} €"
