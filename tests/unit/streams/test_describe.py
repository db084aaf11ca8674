"""A topology as text and as a drawing: complete, deterministic, and without overlaps."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest

from penstock.streams import (
    Builder,
    Processor,
    TopologyError,
    key_value_store,
    session,
    tumbling,
    until_window_closes,
    within,
)

SVG = "{http://www.w3.org/2000/svg}"


class Enrich(Processor[str, str, str, str]):
    pass


def everything() -> Builder:
    """A program with each kind of node."""
    app = Builder()
    left, right = (app.stream(topic, key=str, value=str) for topic in ("left", "right"))
    users = app.table("users", key=str, value=str)
    countries = app.global_table("countries", key=str, value=str)
    some, rest = left.filter(str.strip).split(len)
    merged = some.map_values(str.upper).merge(rest.flat_map(str.split)).peek(print)
    merged.repartition(partitions=3, name="spread").join(users, max).join(countries, max, on=str.lower).to(
        "joined"
    )
    left.outer_join(right, max, within=within(5, grace=1), value=str).to(str.lower)
    store = key_value_store("seen", key=str, value=int)
    right.process(Enrich, stores=[store], key=str, value=str).group_by_key().reduce(max, name="largest")
    counts = right.group_by_value().windowed_by(tumbling(60)).count(name="counts")
    counts.suppress(until_window_closes()).to("final")
    right.group_by_key().windowed_by(session(30), emit="close").count()
    lengths = users.filter_not(str.isdigit).map_values(len)
    lengths.group_by(lambda length: (str(length), length), key=str, value=int).count(name="by-length")
    users.left_join(users, max, on=str.lower, value=str).join(users, max, value=str).to("tables")
    return app


def test_word_count_is_described_in_a_few_lines() -> None:
    app = Builder()
    words = app.stream("lines", value=str).flat_map(str.split)
    words.group_by_value().count(name="counts").to("word-counts")

    assert app.describe() == (
        "Topology: 6 nodes, 1 part\n"
        "\n"
        "Part 1\n"
        "  source-1      reads lines           bytes: str\n"
        "  flat-map-1    values in str.split   bytes: str   <- source-1\n"
        "  group-by-1    key = itself          str: str     <- flat-map-1\n"
        "  counts        count                 str: int     <- group-by-1\n"
        "  to-stream-1   changes as records    str: int     <- counts\n"
        "  sink-1        writes word-counts    str: int     <- to-stream-1\n"
        "  keeps counts"
    )


def test_every_node_is_described() -> None:
    app = everything()
    text = app.describe()

    for node in app.topology.nodes:
        assert f"  {node.name} " in text
        assert type(node).__name__ not in text  # each has its own description
    assert "keeps by-length, count-1, countries, counts, largest, seen, users" in text


def test_unconnected_parts_are_described_separately() -> None:
    app = Builder()
    app.stream("a").to("b")
    app.stream("c").to("d")

    assert app.describe().count("\nPart ") == 2


def test_an_empty_topology_is_described() -> None:
    assert Builder().describe() == "Topology: 0 nodes, 0 parts"
    ElementTree.fromstring(Builder().plot())


def test_a_drawing_has_a_box_for_each_node_and_an_arrow_for_each_edge(tmp_path: Path) -> None:
    app = everything()
    drawing = app.plot(tmp_path / "topology.svg")

    root = ElementTree.fromstring(drawing)
    titles = [title.text or "" for title in root.iter(f"{SVG}title")]
    assert [title.partition(":")[0] for title in titles] == [node.name for node in app.topology.nodes]
    arrows = [path for path in root.iter(f"{SVG}path") if path.get("marker-end")]
    assert len(arrows) == sum(len(node.parents) for node in app.topology.nodes)
    assert (tmp_path / "topology.svg").read_text() == drawing == everything().plot()


def test_boxes_do_not_overlap() -> None:
    root = ElementTree.fromstring(everything().plot())
    boxes = [
        tuple(int(box.get(name, "")) for name in ("x", "y", "width", "height"))
        for box in root.iter(f"{SVG}rect")
        if box.get("x") is not None
    ]

    for (x1, y1, width, height), (x2, y2, _, _) in combinations(boxes, 2):
        assert abs(x1 - x2) >= width or abs(y1 - y2) >= height


def test_arrows_go_from_left_to_right() -> None:
    root = ElementTree.fromstring(everything().plot())

    for path in root.iter(f"{SVG}path"):
        if path.get("marker-end"):
            start, end = path.get("d", "").removeprefix("M").split(",")[0], path.get("d", "").split(" ")[-1]
            assert int(start) < int(end.split(",")[0])


@pytest.mark.parametrize("name", ["topology.png", "topology.PDF", "topology", "topology.svg.gz"])
def test_an_unknown_file_extension_is_rejected_with_the_known_ones(name: str, tmp_path: Path) -> None:
    with pytest.raises(
        TopologyError, match=r"known: \.svg, \.html, .*\.dot.* topology(\.svg)?\.svg for browsers"
    ):
        everything().plot(tmp_path / name)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("t.svg", "<svg "),
        ("t.SVG", "<svg "),
        ("t.html", "<!doctype html>"),
        ("t.dot", "digraph topology {"),
        ("t.gv", "digraph topology {"),
        ("t.txt", "Topology: "),
    ],
)
def test_the_file_extension_chooses_the_format(name: str, begins: str, tmp_path: Path) -> None:
    drawing = everything().plot(str(tmp_path / name))

    assert drawing.startswith(begins)
    assert (tmp_path / name).read_text(encoding="utf-8") == drawing


def test_a_graph_has_all_nodes_and_edges_and_its_quotes_are_escaped(tmp_path: Path) -> None:
    app = everything()
    odd = app.stream(re.compile('say "a\\d"'), value=str)
    odd.to("heard")
    graph = app.plot(tmp_path / "t.dot")

    assert graph.count("[label=") == len(app.topology.nodes)
    assert graph.count(" -> ") == sum(len(node.parents) for node in app.topology.nodes)
    assert r"say \"a\\d\"" in graph
