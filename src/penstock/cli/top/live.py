"""The main loop of `penstock top`: take a snapshot, draw, wait for a key."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Protocol

from penstock.cli.output import Column, Output, show_bytes
from penstock.cli.timeouts import for_calls, hide_warnings, show_warnings
from penstock.cli.top.figures import Observer
from penstock.cli.top.snapshots import Snapshot, SnapshotSource

REDRAW_TIMEOUT_S = 5.0  # a screen without updates for longer looks frozen
QUIT_KEYS = frozenset("qQ\x1b\x04")


class KeySource(Protocol):
    def wait(self, seconds: float) -> str | None: ...


def run(
    settings: Mapping[str, object],
    *,
    interval_seconds: float,
    shows_internal: bool,
    is_once: bool,
    output: Output,
) -> None:
    """Show a cluster until q is pressed; or once, as tables or JSON."""
    from penstock import Admin

    show_warnings()
    with Admin(for_calls(settings)) as admin:
        source = SnapshotSource(admin, shows_internal=shows_internal)
        if is_once:
            print_once(source.take, interval_seconds, output)
        else:
            _run_live(source, interval_seconds)


def print_once(take_snapshot: Callable[[], Snapshot], interval_seconds: float, output: Output) -> None:
    """Take two snapshots, for the rates between them, and print the figures."""
    observer = Observer()
    observer.take(take_snapshot())
    time.sleep(interval_seconds)
    figures = observer.take(take_snapshot())
    if output.as_json:
        output.result("", figures.facts())
        return
    output.table(
        ["broker", "address", "leads", "replicas", "records_per_second", Column("used", show=show_bytes)],
        [
            (
                one.broker.id,
                one.broker.address,
                one.leads,
                one.replicas,
                round(one.records_per_second, 1),
                one.broker.used_bytes,
            )
            for one in figures.brokers
        ],
    )
    if figures.topics:
        print()
        output.table(
            ["topic", "partitions", "records_per_second", "records", Column("size", show=show_bytes), "lag"],
            [
                (
                    one.name,
                    one.partitions,
                    round(one.records_per_second, 1),
                    one.records,
                    one.size_bytes,
                    one.lag,
                )
                for one in figures.topics
            ],
        )
    if figures.groups:
        print()
        output.table(
            ["group", "state", "members", "lag", "commits_per_second"],
            [
                (one.name, one.state, one.members, one.lag, round(one.records_per_second, 1))
                for one in figures.groups
            ],
        )


def _run_live(source: SnapshotSource, interval_seconds: float) -> None:
    from rich.console import Console
    from rich.live import Live

    from penstock.cli.top.keys import Keys
    from penstock.cli.top.screen import View, draw
    from penstock.errors import PenstockError

    console = Console()
    observer, view = Observer(), View()
    figures = observer.take(source.take())
    hide_warnings()
    with Keys() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(draw(figures, view, height=console.height, width=console.width), refresh=True)
            if not wait_for_keys(keys, view, interval_seconds):
                return
            if view.is_paused:
                continue
            try:
                figures = observer.take(source.take(timeout=REDRAW_TIMEOUT_S))
                view.problem = None
            except PenstockError as problem:  # keep trying: the broker may come back
                view.problem = str(problem)


class Choices(Protocol):
    is_paused: bool

    def next_sort(self) -> None: ...


def wait_for_keys(keys: KeySource, view: Choices, seconds: float) -> bool:
    """Wait for a key or the timeout. Returns False if the user quits."""
    match keys.wait(seconds):
        case key if key is not None and key in QUIT_KEYS:
            return False
        case "s":
            view.next_sort()
        case " ":
            view.is_paused = not view.is_paused
    return True
