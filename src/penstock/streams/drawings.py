"""Drawings of a topology as files; the extension of the file name chooses the format.

All formats are text. Bitmaps would need a drawing library as a dependency. Browsers and most editors show SVG, and
`dot` converts to other formats.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from html import escape
from pathlib import Path

from penstock.streams import topology as t
from penstock.streams.describe import describe, details, types
from penstock.streams.nouns import TopologyError
from penstock.streams.plot import FILLS, STROKES, kind_of, plot


def drawing_for(path: Path, topology: t.Topology) -> str:
    """The content of a file of this name. Unknown extensions are rejected; the error lists the known ones."""
    draw = FORMATS.get(path.suffix.lower())
    if draw is None:
        raise TopologyError(
            f"{path.name} has no known extension (known: {', '.join(FORMATS)}): write "
            f"{path.with_suffix('.svg').name} for browsers, or {path.with_suffix('.dot').name} and convert it with "
            "`dot -T png`"
        )
    return draw(topology)


def as_page(topology: t.Topology) -> str:
    """An HTML page with the drawing and the description below it."""
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8"><title>Topology</title></head><body>',
            plot(topology).rstrip(),
            f"<pre>{escape(describe(topology))}</pre>",
            "</body></html>",
            "",
        ]
    )


def as_dot(topology: t.Topology) -> str:
    """The graph in Graphviz's language."""
    lines = [
        "digraph topology {",
        "  rankdir=LR;",
        '  node [shape=box, style="rounded,filled", fontname="sans-serif", fontsize=11];',
    ]
    for node in topology.nodes:
        kind = kind_of(node)
        shape = ", shape=cylinder, style=filled" if kind == "topic" else ""
        label = _quoted("\n".join((node.name, details(node), types(node))))
        lines.append(
            f'  {_quoted(node.name)} [label={label}, fillcolor="{FILLS[kind]}", color="{STROKES[kind]}"{shape}];'
        )
    for node in topology.nodes:
        for parent in node.parents:
            dash = " [style=dashed]" if isinstance(parent, t.GlobalTable) else ""
            lines.append(f"  {_quoted(parent.name)} -> {_quoted(node.name)}{dash};")
    return "\n".join([*lines, "}", ""])


def _quoted(text: str) -> str:
    """Graphviz escapes quotes, backslashes and line ends as JSON does, and no other characters."""
    return json.dumps(text, ensure_ascii=False)


FORMATS: dict[str, Callable[[t.Topology], str]] = {
    ".svg": plot,
    ".html": as_page,
    ".htm": as_page,
    ".dot": as_dot,
    ".gv": as_dot,
    ".txt": lambda topology: f"{describe(topology)}\n",
}
