"""The output of commands on a terminal, in a pipe and as JSON."""

from __future__ import annotations

import io
import json
import re
import uuid

import pytest

from penstock.cli import output
from penstock.cli.output import Column, Output, printable, show, show_bytes, show_duration, show_time

ROWS = [("orders", 3, None, [1, 2]), ("a much longer name", 12, True, [])]
COLUMNS = ["topic", "partitions", "is_internal", "replicas"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_in_a_pipe_columns_are_aligned_and_nothing_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    Output().table(COLUMNS, ROWS)

    assert capsys.readouterr().out.splitlines() == [
        "topic               partitions  is internal  replicas",
        "orders                       3  -            1,2",
        "a much longer name          12  yes          -",
    ]


def test_on_a_terminal_it_is_a_table_without_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "100")

    Output().table([Column("topic", "name"), *COLUMNS[1:]], [("[bold]not markup[/]", 3, None, [])])

    text = terminal.getvalue()
    assert "name" in text.splitlines()[0]
    assert "[bold]not markup[/]" in text


def test_json_keeps_values_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=True).table(COLUMNS, ROWS)

    assert json.loads(capsys.readouterr().out) == [
        {"topic": "orders", "partitions": 3, "is_internal": None, "replicas": [1, 2]},
        {"topic": "a much longer name", "partitions": 12, "is_internal": True, "replicas": []},
    ]


def test_without_rows_json_is_an_empty_list_and_text_goes_to_stderr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Output(as_json=True).table(COLUMNS, [])
    Output().table(COLUMNS, [], empty="there are no topics")

    shown = capsys.readouterr()
    assert shown.out == "[]\n"
    assert shown.err == "there are no topics\n"


def test_a_column_shows_its_values_in_its_own_way_but_not_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    columns = [Column("size", show=show_bytes)]

    Output().table(columns, [(1536,), (None,)])
    Output(as_json=True).table(columns, [(1536,)])

    assert capsys.readouterr().out.split() == ["size", "1.5", "KiB", "-", "[", '{"size":', "1536}", "]"]


def test_details_and_results_are_for_people_or_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    facts = {"cluster_id": "abc", "brokers": 3}

    Output().details(facts)
    Output(as_json=True).details(facts)
    Output().result("created orders", {"created": "orders"})
    Output(as_json=True).result("created orders", {"created": "orders"})

    assert capsys.readouterr().out.splitlines() == [
        "cluster id  abc",
        "brokers     3",
        '{"cluster_id": "abc", "brokers": 3}',
        "created orders",
        '{"created": "orders"}',
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        ("", "-"),
        (True, "yes"),
        (0.25, "0.25"),
        (12345.6, "12346"),
        (b"text", "text"),
        (b"\xff", r"\xff"),
        ({"a": b"1", "b": None}, "a=1,b=-"),
        ((1, 2), "1,2"),
        ("two\nlines", r"two\nlines"),
    ],
)
def test_a_cell_shows_any_value_on_one_line(value: object, text: str) -> None:
    assert show(value) == text


def test_text_cannot_move_the_cursor() -> None:
    assert printable("\x1b[2Jhidden") == r"\x1b[2Jhidden"


def test_json_supports_the_types_of_clients() -> None:
    name = uuid.UUID(int=1)

    assert json.loads(output.to_json({"a": b"x", "b": {2, 1}, "c": name, "d": (1,)})) == {
        "a": "x",
        "b": [1, 2],
        "c": str(name),
        "d": [1],
    }


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (show_time(0), "1970-01-01T00:00:00.000Z"),
        (show_time(1_700_000_000_123), "2023-11-14T22:13:20.123Z"),
        (show_time(-1), "-"),
        (show_time(1 << 62), str(1 << 62)),
        (show_bytes(5 << 40), "5.0 TiB"),
        (show_duration(0.5), "0.5 ms"),
        (show_duration(90_000), "90 s"),
        (show_duration(7_260_000), "2h 01m"),
        (show_duration(150_000), "2m 30s"),
    ],
)
def test_times_and_sizes_are_shown_for_people(shown: str, text: str) -> None:
    assert shown == text


def without_styles(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


LOG_DIRS = ["broker", "directory", "replicas", "size", "volume", "free", "cordoned", "error"]
LOG_DIR = (
    1,
    "/var/lib/penstock/data/with/a/rather/long/name",
    12,
    "1.5 GiB",
    "98.2 GiB",
    "40.1 GiB",
    False,
    None,
)


@pytest.mark.parametrize("width", range(20, 130))
def test_no_column_is_left_out_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(width))

    Output().table(LOG_DIRS, [LOG_DIR, LOG_DIR])

    text = without_styles(terminal.getvalue())
    for heading in LOG_DIRS:
        assert heading in text
    folded = "".join(text.split())
    for cell in ("1.5GiB", "98.2GiB", "40.1GiB", "no"):
        assert folded.count(cell) >= 2
    assert "…" not in text


@pytest.mark.parametrize("width", [40, 60])
def test_a_table_that_is_too_wide_becomes_a_block_for_each_row(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(width))

    Output().table(LOG_DIRS, [LOG_DIR, LOG_DIR])

    lines = without_styles(terminal.getvalue()).splitlines()
    assert lines[:3] == ["broker     1", f"directory  {LOG_DIR[1]}", "replicas   12"]
    assert lines[8] == ""
    assert len(lines) == 17
