"""The output of commands: tables on a terminal, plain columns in pipes, JSON on request.

A command passes its result once; the destination decides the form:

- on a terminal a table, or one block per row if the terminal is too narrow;
- in a pipe the same columns aligned by blanks, without colours and without truncation;
- with `--json` the raw values.

Progress and advice go to stderr, so that a program can always read stdout.

Foreign text (names, records) must not move the cursor or fake a row: control characters are escaped.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from penstock.cli.declare import option

if TYPE_CHECKING:
    from rich.console import Console

    from penstock.cli.progress import Progress

WHOLE_CELL_MAX = 32
FOLDED_CELL_MIN = 16
COLUMN_GAP = 2
BARS = "▁▂▃▄▅▆▇█"
NOTHING = "-"  # a missing value in a table


class Column(NamedTuple):
    """A column of a table: its key in JSON, its title, and how to show its values."""

    key: str
    title: str | None = None
    show: Callable[[Any], str] | None = None

    @property
    def heading(self) -> str:
        return self.title or self.key.replace("_", " ")


class Output(NamedTuple):
    """A bundle of options: add `output: Output` to a command's parameters."""

    as_json: Annotated[bool, option("--json", help="Print JSON.")] = False

    def table(
        self, columns: Sequence[str | Column], rows: Iterable[Sequence[object]], *, empty: str | None = None
    ) -> None:
        """Print rows of values in the order of the columns. Without rows, `empty` goes to stderr."""
        known = [Column(column) if isinstance(column, str) else column for column in columns]
        found = list(rows)
        if self.as_json:
            self._print_array(
                [dict(zip((column.key for column in known), row, strict=True)) for row in found]
            )
        elif not found:
            if empty:
                say(empty)
        elif sys.stdout.isatty():
            _print_on_terminal(known, found)
        else:
            _print_columns(known, found)

    def details(
        self, facts: Mapping[str, object], *, shows: Mapping[str, Callable[[Any], str]] | None = None
    ) -> None:
        """Print names and values of one thing."""
        if self.as_json:
            print(to_json(facts))
            return
        width = max((len(name) for name in facts), default=0)
        for name, value in facts.items():
            text = (shows or {}).get(name, show)(value)
            print(f"{name.replace('_', ' '):<{width}}  {text}")

    def result(self, sentence: str, facts: object) -> None:
        """Print what was done: a sentence, or with --json the facts."""
        print(to_json(facts) if self.as_json else sentence)

    def progress(self, what: str, *, total: float | None = None, unit: str = "") -> Progress:
        """A progress bar for work that may take longer than a second: `with output.progress(...)`."""
        from penstock.cli.progress import Progress

        return Progress(what, total=total, unit=unit, is_shown=sys.stderr.isatty())

    def _print_array(self, objects: Sequence[object]) -> None:
        """One object per line: readable, and still one JSON value."""
        if not objects:
            print("[]")
            return
        lines = ",\n  ".join(map(to_json, objects))
        print(f"[\n  {lines}\n]")


def say(message: str) -> None:
    """Print to stderr, for people only."""
    print(message, file=sys.stderr)


def to_json(value: object) -> str:
    """JSON on one line. Bytes that are not UTF-8 are escaped."""
    return json.dumps(value, default=_plain, ensure_ascii=False)


def show(value: object) -> str:
    """A value as text for a table."""
    if value is None or value == "":
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
    if isinstance(value, bytes):
        return printable(value.decode("utf-8", "backslashreplace"))
    if isinstance(value, Mapping):
        return ",".join(f"{show(key)}={show(part)}" for key, part in value.items()) or NOTHING
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ",".join(map(show, value)) or NOTHING
    return printable(str(value))


def printable(text: str) -> str:
    """The text with control characters escaped."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def count_of(number: int, thing: str, several: str = "s") -> str:
    """`1 record`, `1,000 records`; `several` is the plural ending."""
    return f"{number:,} {thing}{'' if number == 1 else several}"


def show_count(value: int) -> str:
    return f"{value:,}"


def show_bytes(value: float) -> str:
    """1536 as `1.5 KiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def show_time(timestamp_ms: int) -> str:
    """ISO 8601 in UTC, to the millisecond. A time outside of the calendar is shown as a number."""
    from datetime import UTC, datetime

    if timestamp_ms < 0:
        return NOTHING
    try:
        moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{timestamp_ms % 1000:03}Z"


def show_duration(milliseconds: float) -> str:
    if milliseconds < 1000:
        return f"{milliseconds:.3g} ms"
    seconds = milliseconds / 1000
    if seconds < 120:
        return f"{seconds:.3g} s"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02}m" if hours else f"{minutes}m {seconds:02}s"


def sparkline(values: Iterable[float]) -> str:
    """A line of bars, scaled to the largest value."""
    shown = list(values)
    top = max(shown, default=0.0)
    if top <= 0:
        return BARS[0] * len(shown)
    return "".join(BARS[int(value / top * (len(BARS) - 1) + 0.5)] for value in shown)


def _cells(columns: Sequence[Column], rows: Iterable[Sequence[object]]) -> list[list[str]]:
    return [
        [
            column.show(value) if column.show is not None and value is not None else show(value)
            for column, value in zip(columns, row, strict=True)
        ]
        for row in rows
    ]


def _are_numbers(rows: Sequence[Sequence[object]], index: int) -> bool:
    values = [row[index] for row in rows if row[index] is not None]
    return bool(values) and all(
        isinstance(value, (int, float)) and not isinstance(value, bool) for value in values
    )


def _print_columns(columns: Sequence[Column], rows: Sequence[Sequence[object]]) -> None:
    lines = [[column.heading for column in columns], *_cells(columns, rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    is_right = [_are_numbers(rows, index) for index in range(len(columns))]
    for line in lines:
        padded = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, is_right, strict=True)
        )
        print("  ".join(padded).rstrip())


def _print_on_terminal(columns: Sequence[Column], rows: Sequence[Sequence[object]]) -> None:
    """A table if the terminal is wide enough for all columns, else one block of lines for each row."""
    from rich.console import Console

    console = Console()
    cells = _cells(columns, rows)
    if _table_width_min(columns, cells) <= console.width:
        _print_rich_table(columns, rows, cells, console)
    else:
        _print_blocks(columns, cells)


def _table_width_min(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> int:
    """The width below which rich would drop columns. Long cells are folded, short ones are not."""
    from rich.cells import cell_len

    widths = [
        max(cell_len(column.heading), *(cell_len(row[index]) for row in cells))
        for index, column in enumerate(columns)
    ]
    return sum(FOLDED_CELL_MIN if width > WHOLE_CELL_MAX else width for width in widths) + COLUMN_GAP * (
        len(widths) - 1
    )


def _print_rich_table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[object]],
    cells: Sequence[Sequence[str]],
    console: Console,
) -> None:
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, COLUMN_GAP, 0, 0))
    for index, column in enumerate(columns):
        width = max(cell_len(column.heading), *(cell_len(row[index]) for row in cells))
        table.add_column(
            column.heading,
            justify="right" if _are_numbers(rows, index) else "left",
            overflow="fold",
            # Short cells (numbers, times, names) are not wrapped; long ones are.
            no_wrap=width <= WHOLE_CELL_MAX,
            min_width=min(width, FOLDED_CELL_MIN),
        )
    for row in cells:
        table.add_row(*map(Text, row))
    console.print(table)


def _print_blocks(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> None:
    """Each row as lines of names and values, with an empty line between rows."""
    width = max(len(column.heading) for column in columns)
    for number, row in enumerate(cells):
        if number:
            print()
        for column, cell in zip(columns, row, strict=True):
            print(f"{column.heading:<{width}}  {cell}")


def _plain(value: object) -> object:
    """Convert types that JSON does not have."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, Iterable):
        return list(value)
    name = getattr(value, "name", None)  # an enumeration's member
    return name if isinstance(name, str) else str(value)
