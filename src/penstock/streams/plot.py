"""A topology as a drawing: layers from left to right, drawn as SVG by nobody's help.

A node stands one layer behind the furthest of its parents. Within a layer nodes are ordered by the mean place of
their parents, which keeps edges short and mostly uncrossed. The same topology always gives the same drawing.
"""

from __future__ import annotations

from html import escape

from penstock.streams import topology as t
from penstock.streams.describe import details, types

BOX_WIDTH, BOX_HEIGHT = 190, 58
GAP_X, GAP_Y = 60, 22
MARGIN = 24
LETTERS = 27  # as many as fit into a box

_FILLS = {"topic": "#fde9c9", "stream": "#dcebfa", "table": "#dcf3e0", "global table": "#ece0f7"}
_STROKES = {"topic": "#c98a1b", "stream": "#3f7fbf", "table": "#3d9155", "global table": "#7e57b5"}


def plot(topology: t.Topology) -> str:
    """The drawing, as one SVG document."""
    places = _places(topology)
    width = MARGIN * 2 + max((x + BOX_WIDTH for x, _ in places.values()), default=0)
    height = MARGIN * 2 + max((y + BOX_HEIGHT for _, y in places.values()), default=0)
    edges = [
        _edge(places[parent], places[node], dashed=isinstance(parent, t.GlobalTable))
        for node in topology.nodes
        for parent in node.parents
    ]
    boxes = [_box(node, *places[node]) for node in topology.nodes]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" '
            'font-family="system-ui, sans-serif" font-size="12">',
            '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
            'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#777"/></marker></defs>',
            f'<rect width="{width}" height="{height}" fill="white"/>',
            f'<g transform="translate({MARGIN},{MARGIN})">',
            *edges,
            *boxes,
            "</g>",
            "</svg>",
            "",
        ]
    )


def _places(topology: t.Topology) -> dict[t.Node, tuple[int, int]]:
    """Where each node's box begins."""
    layers: list[list[t.Node]] = []
    layer_of: dict[t.Node, int] = {}
    for node in topology.nodes:
        layer = 1 + max((layer_of[parent] for parent in node.parents), default=-1)
        layer_of[node] = layer
        if layer == len(layers):
            layers.append([])
        layers[layer].append(node)
    _draw_sources_near(topology, layers, layer_of)
    rows: dict[t.Node, float] = {}
    for nodes in layers:
        nodes.sort(key=lambda node: _mean([rows[parent] for parent in node.parents], rows.get(node, 0.0)))
        row = 0.0
        for node in nodes:
            row = max(row, _mean([rows[parent] for parent in node.parents], row))
            rows[node] = row
            row += 1
    return {
        node: (layer_of[node] * (BOX_WIDTH + GAP_X), round(rows[node] * (BOX_HEIGHT + GAP_Y)))
        for node in topology.nodes
    }


def _draw_sources_near(topology: t.Topology, layers: list[list[t.Node]], layer_of: dict[t.Node, int]) -> None:
    """A source that only a late node reads stands right before it, not at the far left."""
    for node in [node for node in layers[0] if not node.parents] if layers else []:
        readers = [layer_of[child] for child in topology.children(node)]
        near = min(readers, default=1) - 1
        if near > 0:
            layers[0].remove(node)
            layers[near].append(node)
            layer_of[node] = near


def _mean(numbers: list[float], otherwise: float) -> float:
    return sum(numbers) / len(numbers) if numbers else otherwise


def _box(node: t.Node, x: int, y: int) -> str:
    kind = "topic" if isinstance(node, t.Source | t.Sink | t.Repartition) else node.gives
    radius = 29 if kind == "topic" else 6
    middle = x + BOX_WIDTH // 2
    lines = [(18, "bold", node.name), (34, "normal", details(node)), (50, "normal", types(node))]
    text = "".join(
        f'<text x="{middle}" y="{y + down}" text-anchor="middle" font-weight="{weight}" '
        f'fill="{"#666" if down == 50 else "#222"}">{escape(_short(words))}</text>'
        for down, weight, words in lines
    )
    return (
        f"<g><title>{escape(f'{node.name}: {details(node)} ({types(node)})')}</title>"
        f'<rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="{radius}" '
        f'fill="{_FILLS[kind]}" stroke="{_STROKES[kind]}"/>{text}</g>'
    )


def _edge(start: tuple[int, int], end: tuple[int, int], *, dashed: bool) -> str:
    x1, y1 = start[0] + BOX_WIDTH, start[1] + BOX_HEIGHT // 2
    x2, y2 = end[0], end[1] + BOX_HEIGHT // 2
    bend = max(GAP_X // 2, (x2 - x1) // 2)
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    return (
        f'<path d="M{x1},{y1} C{x1 + bend},{y1} {x2 - bend},{y2} {x2},{y2}" fill="none" stroke="#777" '
        f'stroke-width="1.4"{dash} marker-end="url(#arrow)"/>'
    )


def _short(words: str) -> str:
    return words if len(words) <= LETTERS else f"{words[: LETTERS - 1]}…"
