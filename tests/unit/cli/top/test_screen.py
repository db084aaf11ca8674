"""The picture of `penstock top`, without a terminal."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from penstock.cli.output import sparkline
from penstock.cli.top.figures import BrokerFigures, Figures, GroupFigures, TopicFigures
from penstock.cli.top.live import wait_for_keys
from penstock.cli.top.screen import View, draw, show_rate, sort_topics
from penstock.cli.top.snapshots import BrokerState

FIGURES = Figures(
    cluster_id="abc",
    brokers=(BrokerFigures(BrokerState(1, "host:9092", None, True, 2048), 3, 4, 1500.0),),
    topics=(
        TopicFigures("a", 1, 10.0, 100.0, 5, 500, 0),
        TopicFigures("b\x1b[2J", 2, 20.0, 50.0, 6, 400, 9),
        TopicFigures("c", 3, 0.0, 0.0, 7, 900, 1),
    ),
    groups=(GroupFigures("g", "Stable", 2, 40, 20.0, 2.0), GroupFigures("h", "Empty", 0, 50, 0.0, None)),
    records_per_second=1_234_567.0,
    bytes_per_second=5.0 * 1024 * 1024,
    partitions=6,
    without_leader=1,
    under_replicated=0,
    history=(1.0, 2.0, 4.0),
)


def picture(
    figures: Figures = FIGURES, view: View | None = None, *, height: int = 40, width: int = 100
) -> str:
    console = Console(file=io.StringIO(), width=width, height=height, color_system=None)
    console.print(draw(figures, view or View(), height=height, width=width))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_everything_of_note_is_on_the_screen() -> None:
    lines = picture().splitlines()

    assert "cluster abc" in lines[0]
    assert "in 1.2 M/s   5.0 MiB/s   partitions 6   without a leader 1   under-replicated 0" in lines[1]
    assert "▃▅█" in lines[2]
    assert any(line.split() == ["1", "*", "host:9092", "3", "4", "1,500/s", "2.0", "KiB"] for line in lines)
    assert any(line.split()[:4] == ["h", "Empty", "0", "50"] for line in lines)
    assert any(line.split() == ["g", "Stable", "2", "40", "20/s", "2", "s"] for line in lines)


def test_names_cannot_draw_on_the_screen() -> None:
    assert "\x1b" not in picture()
    assert r"b\x1b[2J" in picture()


def test_a_small_screen_shows_the_most_important() -> None:
    many = tuple(TopicFigures(f"t{number}", 1, float(number), 0, 0, 0, 0) for number in range(50))
    shown = picture(replace(FIGURES, topics=many), height=24)

    assert "t49" in shown
    assert "t10 " not in shown
    assert "more" in shown
    assert len(shown.splitlines()) <= 26


def test_topics_are_sorted_as_chosen() -> None:
    def names(sort: str) -> str:
        return "".join(topic.name[0] for topic in sort_topics(FIGURES.topics, sort))

    assert (names("name"), names("rate"), names("lag"), names("size")) == ("abc", "bac", "bca", "cab")


def test_a_problem_replaces_the_hints() -> None:
    assert "q quit" in picture()
    shown = picture(view=View(problem="no broker answers"))
    assert "no broker answers" in shown
    assert "q quit" not in shown


class Pressed:
    def __init__(self, *keys: str | None) -> None:
        self._keys = list(keys)

    def wait(self, seconds: float) -> str | None:
        return self._keys.pop(0)


def test_keys_do_as_the_hints_say() -> None:
    view = View()
    keys = Pressed("s", " ", None, "x", " ", "q")

    stays = [wait_for_keys(keys, view, 1.0) for _ in range(6)]

    assert stays == [True] * 5 + [False]
    assert view.sort == "lag"
    assert not view.is_paused


def test_all_sorts_come_round() -> None:
    view = View()
    seen = []
    for _ in range(4):
        view.next_sort()
        seen.append(view.sort)
    assert seen == ["lag", "size", "name", "rate"]


@pytest.mark.parametrize(
    ("per_second", "text"),
    [(0, "0/s"), (0.25, "0.2/s"), (999, "999/s"), (12_345, "12 k/s"), (1.5e6, "1.5 M/s"), (2.5e7, "25 M/s")],
)
def test_rates_are_short(per_second: float, text: str) -> None:
    assert show_rate(per_second) == text


def test_little_bars() -> None:
    assert sparkline((0, 0)) == "▁▁"
    assert sparkline(()) == ""
    assert sparkline((2, 3)) == "▆█"


@pytest.mark.parametrize("width", [20, 40, 60, 80])
def test_a_narrow_screen_names_the_columns_that_it_has_no_room_for(width: int) -> None:
    shown = picture(width=width)

    for columns in (
        ("broker", "address", "leads", "replicas", "in", "data"),
        ("topic", "partitions", "in", "bytes", "records", "data", "lag"),
        ("group", "state", "members", "lag", "commits", "behind"),
    ):
        text = " ".join(shown.replace("│", " ").split())
        for column in columns:
            assert column in text
    assert ("too narrow for" in shown) == (width < 80)
