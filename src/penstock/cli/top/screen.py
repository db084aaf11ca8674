"""Figures as a picture for a terminal: pure functions, for tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from penstock.cli.output import printable, show_bytes, show_duration, sparkline
from penstock.cli.top.figures import Figures, GroupFigures, TopicFigures

HEADER_LINES = 5
ROWS_MIN = 3
CELL_PADDING = (0, 2, 0, 1)

SORTS: dict[str, Callable[[TopicFigures], float]] = {
    "rate": lambda topic: topic.records_per_second,
    "lag": lambda topic: topic.lag,
    "size": lambda topic: topic.size_bytes,
}


@dataclass(slots=True)
class View:
    """What the user has chosen to see, and the last error."""

    sort: str = "rate"
    is_paused: bool = False
    problem: str | None = None

    def next_sort(self) -> None:
        names = ["name", *SORTS]
        self.sort = names[(names.index(self.sort) + 1) % len(names)]


def draw(figures: Figures, view: View, *, height: int, width: int) -> RenderableType:
    """The whole screen, within this height and width."""
    brokers = _brokers(figures, width)
    # Header, hints and frames have fixed sizes; topics and groups share the rest.
    left = max(2 * ROWS_MIN, height - HEADER_LINES - len(figures.brokers) - 12)
    group_rows = min(len(figures.groups), max(ROWS_MIN, left // 2))
    topic_rows = max(ROWS_MIN, left - group_rows)
    parts: list[RenderableType] = [_header(figures), brokers, _topics(figures, view, topic_rows, width)]
    if figures.groups:
        parts.append(_groups(figures, group_rows, width))
    parts.append(_hints(view))
    return Group(*parts)


def sort_topics(topics: Sequence[TopicFigures], sort: str) -> list[TopicFigures]:
    """By name, or by the largest value first."""
    key = SORTS.get(sort)
    return list(topics) if key is None else sorted(topics, key=lambda topic: (-key(topic), topic.name))


def sort_groups(groups: Sequence[GroupFigures]) -> list[GroupFigures]:
    """Largest lag first."""
    return sorted(groups, key=lambda group: (-group.lag, group.name))


def show_rate(per_second: float) -> str:
    if per_second >= 10_000_000:
        return f"{per_second / 1_000_000:.0f} M/s"
    if per_second >= 1_000_000:
        return f"{per_second / 1_000_000:.1f} M/s"
    if per_second >= 10_000:
        return f"{per_second / 1_000:.0f} k/s"
    return f"{per_second:,.0f}/s" if per_second >= 10 or per_second == 0 else f"{per_second:.1f}/s"


def _header(figures: Figures) -> Panel:
    line = Text.assemble(
        ("in ", "dim"),
        (show_rate(figures.records_per_second), "bold"),
        ("   ", ""),
        (f"{show_bytes(figures.bytes_per_second)}/s", "bold"),
        ("   partitions ", "dim"),
        (f"{figures.partitions:,}", "bold"),
        ("   without a leader ", "dim"),
        (f"{figures.without_leader:,}", "bold red" if figures.without_leader else "bold green"),
        ("   under-replicated ", "dim"),
        (f"{figures.under_replicated:,}", "bold yellow" if figures.under_replicated else "bold green"),
    )
    series = Text(sparkline(figures.history[-60:]) or " ", style="cyan")
    title = Text(f"cluster {printable(figures.cluster_id or 'without an id')}")
    return Panel(Group(line, series), title=title, title_align="left", border_style="dim")


Row = Sequence[str | Text]


def _table(columns: Sequence[str], rows: Sequence[Row], *, rest: int = 0, width: int) -> RenderableType:
    """The first columns that fit. A line below names the hidden columns and counts the hidden rows."""
    shown = _fitting(columns, rows, width)
    table = Table(box=None, header_style="bold dim", pad_edge=False, padding=CELL_PADDING, expand=False)
    for number, column in enumerate(columns[:shown]):
        table.add_column(
            column, justify="left" if number == 0 else "right", no_wrap=True, overflow="ellipsis"
        )
    for row in rows:
        table.add_row(*row[:shown])
    remarks = [f"and {rest:,} more"] if rest > 0 else []
    if hidden := columns[shown:]:
        remarks.append(f"too narrow for {', '.join(hidden)}")
    return Group(table, Text(f" {'; '.join(remarks)}", style="dim")) if remarks else table


def _fitting(columns: Sequence[str], rows: Sequence[Row], width: int) -> int:
    """How many columns fit; at least two."""
    taken = 0
    for index, column in enumerate(columns):
        taken += max(len(column), *(len(row[index]) for row in rows), 0) + sum(CELL_PADDING)
        if taken - CELL_PADDING[1] > width and index >= 2:
            return index
    return len(columns)


def _brokers(figures: Figures, width: int) -> RenderableType:
    return _table(
        ("broker", "address", "leads", "replicas", "in", "data"),
        [
            (
                Text(f"{one.broker.id}{' *' if one.broker.is_controller else ''}"),
                Text(printable(one.broker.address)),
                f"{one.leads:,}",
                f"{one.replicas:,}",
                show_rate(one.records_per_second),
                show_bytes(one.broker.used_bytes) if one.broker.used_bytes is not None else "-",
            )
            for one in figures.brokers
        ],
        width=width,
    )


def _topics(figures: Figures, view: View, rows: int, width: int) -> RenderableType:
    chosen = sort_topics(figures.topics, view.sort)
    table = _table(
        ("topic", "partitions", "in", "bytes", "records", "data", "lag"),
        [
            (
                Text(printable(topic.name)),
                f"{topic.partitions:,}",
                show_rate(topic.records_per_second),
                f"{show_bytes(topic.bytes_per_second)}/s",
                f"{topic.records:,}",
                show_bytes(topic.size_bytes),
                Text(f"{topic.lag:,}", style="yellow" if topic.lag else ""),
            )
            for topic in chosen[:rows]
        ],
        rest=len(chosen) - rows,
        width=width,
    )
    return Group(Text(), table)


def _groups(figures: Figures, rows: int, width: int) -> RenderableType:
    chosen = sort_groups(figures.groups)
    table = _table(
        ("group", "state", "members", "lag", "commits", "behind"),
        [
            (
                Text(printable(group.name)),
                group.state,
                f"{group.members:,}",
                Text(f"{group.lag:,}", style="yellow" if group.lag else "green"),
                show_rate(group.records_per_second),
                "-" if group.seconds_behind is None else show_duration(group.seconds_behind * 1000),
            )
            for group in chosen[:rows]
        ],
        rest=len(chosen) - rows,
        width=width,
    )
    return Group(Text(), table)


def _hints(view: View) -> Text:
    if view.problem is not None:
        return Text(f"\n {printable(view.problem)}", style="red")
    paused = "  paused" if view.is_paused else ""
    return Text(f"\n q quit   s sort (by {view.sort})   space pause{paused}", style="dim")
