"""A topology as a file: what a drawing is, by the ending of the file's name.

All that is written here is text. Pictures made of points want a library that draws letters, which would be one more to
install for everybody; every browser and most editors show SVG, and `dot` makes whatever else is wanted.
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
    """What belongs into a file of this name, or a refusal that tells which endings there are."""
    draw = ENDINGS.get(path.suffix.lower())
    if draw is None:
        said = f"files that end in {path.suffix}" if path.suffix else "a name without an ending"
        raise TopologyError(
            f"a topology is drawn as {', '.join(ENDINGS)}, and there is nothing for {said}: write "
            f"{path.with_suffix('.svg').name}, which browsers show, or {path.with_suffix('.dot').name}, "
            "of which `dot -T png` makes a picture"
        )
    return draw(topology)


def as_page(topology: t.Topology) -> str:
    """The drawing as a page of HTML, with the same in words below it."""
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


def _quoted(words: str) -> str:
    """Graphviz writes quotes, backslashes and ends of lines as JSON does, and all other letters as they are."""
    return json.dumps(words, ensure_ascii=False)


ENDINGS: dict[str, Callable[[t.Topology], str]] = {
    ".svg": plot,
    ".html": as_page,
    ".htm": as_page,
    ".dot": as_dot,
    ".gv": as_dot,
    ".txt": lambda topology: f"{describe(topology)}\n",
}
