"""A topology as an SVG drawing: layers from left to right, without a drawing library.

A node stands one layer right of the furthest of its parents. Within a layer nodes are ordered by the mean position of
their parents, which keeps edges short and mostly uncrossed. The same topology always gives the same drawing.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TypeAlias

from penstock.streams import topology as t
from penstock.streams.describe import details, types

BOX_WIDTH, BOX_HEIGHT = 190, 58
BEND_HEIGHT = 10  # the space of an edge that passes through a layer
GAP_X, GAP_Y = 60, 22
MARGIN = 24
LETTERS = 27  # as many characters as fit into a box

FILLS = {"topic": "#fde9c9", "stream": "#dcebfa", "table": "#dcf3e0", "global table": "#ece0f7"}
STROKES = {"topic": "#c98a1b", "stream": "#3f7fbf", "table": "#3d9155", "global table": "#7e57b5"}


@dataclass(frozen=True, eq=False)
class _Bend:
    """The point where an edge passes through a layer: it comes from a node, or from its bend in the layer before."""

    before: t.Node | _Bend
    layer: int


_Item: TypeAlias = "t.Node | _Bend"


def plot(topology: t.Topology) -> str:
    """The drawing, as one SVG document."""
    layer_of = _layers(topology)
    edges = [(parent, node) for node in topology.nodes for parent in node.parents]
    bends = {(parent, node): _bends(parent, layer_of[parent] + 1, layer_of[node]) for parent, node in edges}
    heights = _heights(topology, layer_of, bends)
    places = {node: (layer_of[node] * (BOX_WIDTH + GAP_X), heights[node]) for node in topology.nodes}
    width = MARGIN * 2 + max((x + BOX_WIDTH for x, _ in places.values()), default=0)
    height = MARGIN * 2 + max((y + _height(item) for item, y in heights.items()), default=0)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" '
            'font-family="system-ui, sans-serif" font-size="12">',
            '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
            'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#777"/></marker></defs>',
            f'<rect width="{width}" height="{height}" fill="white"/>',
            f'<g transform="translate({MARGIN},{MARGIN})">',
            *(
                _edge(places[parent], bends[parent, node], places[node], heights, parent)
                for parent, node in edges
            ),
            *(_box(node, *places[node]) for node in topology.nodes),
            "</g>",
            "</svg>",
            "",
        ]
    )


def kind_of(node: t.Node) -> str:
    """The kind of box that a node is drawn as."""
    return "topic" if isinstance(node, t.Source | t.Sink | t.Repartition) else node.gives


def _layers(topology: t.Topology) -> dict[t.Node, int]:
    """The layer of each node. A source that only a late node reads stands right before that node."""
    layer_of: dict[t.Node, int] = {}
    for node in topology.nodes:
        layer_of[node] = 1 + max((layer_of[parent] for parent in node.parents), default=-1)
    for node in topology.nodes:
        if not node.parents:
            layer_of[node] = min((layer_of[child] for child in topology.children(node)), default=1) - 1
    return layer_of


def _bends(parent: t.Node, first: int, end: int) -> list[_Bend]:
    found: list[_Bend] = []
    for layer in range(first, end):
        found.append(_Bend(found[-1] if found else parent, layer))
    return found


def _heights(
    topology: t.Topology, layer_of: dict[t.Node, int], bends: dict[tuple[t.Node, t.Node], list[_Bend]]
) -> dict[_Item, int]:
    """The vertical position of each item: level with its parents, below the items already in its layer."""
    layers: dict[int, list[_Item]] = {}
    before: dict[_Item, list[_Item]] = {}
    for node in topology.nodes:
        lines = [bends[parent, node] for parent in node.parents]
        before[node] = [
            line[-1] if line else parent for line, parent in zip(lines, node.parents, strict=True)
        ]
        layers.setdefault(layer_of[node], []).append(node)
        for bend in (bend for line in lines for bend in line):
            before[bend] = [bend.before]
            layers.setdefault(bend.layer, []).append(bend)
    heights: dict[_Item, int] = {}

    def level(item: _Item, otherwise: float) -> float:
        """The mean position of an item's parents."""
        return _mean([heights[found] + _height(found) / 2 for found in before[item]], otherwise)

    for layer in sorted(layers):
        free = 0
        for item in sorted(layers[layer], key=lambda item: level(item, 0.0)):
            middle = _height(item) / 2
            heights[item] = max(free, round(level(item, free + middle) - middle))
            free = heights[item] + _height(item) + GAP_Y
    return heights


def _height(item: _Item) -> int:
    return BEND_HEIGHT if isinstance(item, _Bend) else BOX_HEIGHT


def _mean(numbers: list[float], otherwise: float) -> float:
    return sum(numbers) / len(numbers) if numbers else otherwise


def _box(node: t.Node, x: int, y: int) -> str:
    kind = kind_of(node)
    radius = 29 if kind == "topic" else 6
    middle = x + BOX_WIDTH // 2
    lines = [(18, "bold", node.name), (34, "normal", details(node)), (50, "normal", types(node))]
    text = "".join(
        f'<text x="{middle}" y="{y + down}" text-anchor="middle" font-weight="{weight}" '
        f'fill="{"#666" if down == 50 else "#222"}">{escape(_short(text))}</text>'
        for down, weight, text in lines
    )
    return (
        f"<g><title>{escape(f'{node.name}: {details(node)} ({types(node)})')}</title>"
        f'<rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="{radius}" '
        f'fill="{FILLS[kind]}" stroke="{STROKES[kind]}"/>{text}</g>'
    )


def _edge(
    start: tuple[int, int],
    bends: list[_Bend],
    end: tuple[int, int],
    heights: dict[_Item, int],
    parent: t.Node,
) -> str:
    """Curves from box to box, horizontal within a layer."""
    x, y = start[0] + BOX_WIDTH, start[1] + BOX_HEIGHT // 2
    path = f"M{x},{y}"
    for bend in bends:
        bend_x, bend_y = bend.layer * (BOX_WIDTH + GAP_X), heights[bend] + BEND_HEIGHT // 2
        path += f" {_curve(x, y, bend_x, bend_y)} L{bend_x + BOX_WIDTH},{bend_y}"
        x, y = bend_x + BOX_WIDTH, bend_y
    path += f" {_curve(x, y, end[0], end[1] + BOX_HEIGHT // 2)}"
    dash = ' stroke-dasharray="5 4"' if isinstance(parent, t.GlobalTable) else ""
    return f'<path d="{path}" fill="none" stroke="#777" stroke-width="1.4"{dash} marker-end="url(#arrow)"/>'


def _curve(x1: int, y1: int, x2: int, y2: int) -> str:
    middle = (x1 + x2) // 2
    return f"C{middle},{y1} {middle},{y2} {x2},{y2}"


def _short(text: str) -> str:
    return text if len(text) <= LETTERS else f"{text[: LETTERS - 1]}…"
