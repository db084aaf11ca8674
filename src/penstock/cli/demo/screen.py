"""How the demonstration looks: what goes in, what the pipeline does with it, and what comes out."""

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
from penstock.cli.output import count_of, show_bytes, show_duration

if TYPE_CHECKING:
    from penstock.spark.pipelines.figures import QueryFigures

WIDTH = 84
WINDOWS_SHOWN = 6
LINE_SECONDS = 2.0
SPARK = "▁▂▃▄▅▆▇█"


@dataclass
class View:
    """All that a screen is drawn from."""

    port: int
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
        """Orders that are there and not yet read. Spark's own is of the moment when it planned the last batch."""
        return max(0, self.generated - (0 if self.figures is None else self.figures.rows_in))


class Screen:
    """Live on a terminal; a line every two seconds elsewhere."""

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
    until = "Ctrl-C ends it" if view.seconds is None else f"ends after {view.seconds:.0f} s"
    hint = Text(f"penstock consume {REVENUE_TOPIC} -b 127.0.0.1:{view.port} --from -5", style="cyan")
    shown = Group(
        _figures_of(view), Text(), _windows_of(view), Text(), Text("watch it yourself:", style="dim"), hint
    )
    return Panel(shown, title=f"penstock demo, {view.phase}", subtitle=until, width=WIDTH)


def _figures_of(view: View) -> Table:
    table = Table.grid(padding=(0, 3))
    table.add_column(style="dim")
    table.add_column(justify="right")
    table.add_column(style="dim")
    rate = view.rates[-1] if view.rates else 0.0
    table.add_row("orders in", f"{view.generated:,}", f"{rate:,.0f}/s  {_sparkline(view.rates)}")
    figures = view.figures
    if figures is None or figures.batch < 0:
        at_what = view.phase if figures is None else f"first batch, {figures.at_work_seconds} s"
        table.add_row("pipeline", at_what, ProgressBar(total=None, pulse=True, width=30))
        return table
    bar: Any = ProgressBar(total=1.0, completed=figures.fraction or 0.0, width=30)
    table.add_row(
        "orders read", f"{figures.rows_in:,}", "caught up with the start" if figures.fraction == 1.0 else bar
    )
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
    told = f"{view.elapsed:5.1f} s  {view.phase}: {view.generated:,} orders in"
    figures = view.figures
    if figures is None:
        return told
    if figures.batch < 0:
        return f"{told}, the pipeline is at its first batch ({figures.at_work_seconds} s)"
    return (
        f"{told}, {figures.rows_in:,} read (batch {figures.batch}, {show_duration(figures.batch_ms)}, "
        f"lag {view.lag:,}, state {figures.state_rows:,} rows), {view.results.orders:,} out"
    )


def tell_summary(console: Console, view: View, *, generated: int, cents: int) -> bool:
    """What went in and what came out; whether they agree."""
    results, figures = view.results, view.figures
    read = figures.rows_in if figures is not None else 0
    batches = figures.batch + 1 if figures is not None else 0
    agrees = generated == read == results.orders and cents == results.cents
    told = (
        ("orders generated", generated, f"{_euros(cents)} in the topic {ORDERS_TOPIC}"),
        ("orders read", read, f"by the pipeline, in {count_of(batches, 'micro-batch', 'es')}"),
        (
            "orders counted",
            results.orders,
            f"{_euros(results.cents)} in {count_of(len(results.windows), 'window')}",
        ),
    )
    width = max(len(f"{count:,}") for _, count, _ in told)
    for what, count, more in told:
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


def _sparkline(values: deque[float]) -> str:
    top = max(values, default=0.0) or 1.0
    return "".join(SPARK[min(7, int(value / top * 7.99))] for value in values)
