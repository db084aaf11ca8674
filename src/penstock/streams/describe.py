"""A topology as text: each connected part, from its input topics to its output topics.

    Topology: 5 nodes, 1 part

    Part 1
      source-1          reads lines                        bytes: str
      flat-map-1        str.split                          bytes: str    <- source-1
      ...

`details` describes a node in a few words; the drawing uses it too.
"""

from __future__ import annotations

from penstock.streams import topology as t
from penstock.streams.functions import Function


def describe(topology: t.Topology) -> str:
    """The topology as text: what is read, computed, stored and written."""
    parts = connected(topology)
    lines = [f"Topology: {_counted(len(topology.nodes), 'node')}, {_counted(len(parts), 'part')}"]
    for number, nodes in enumerate(parts, 1):
        rows = [_row(node) for node in nodes]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        lines += ["", f"Part {number}"]
        for row in rows:
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
            lines.append(("  " + "   ".join([*cells, row[3]])).rstrip())
        stores = sorted(name for name, owner in topology.stores.items() if owner in nodes)
        if stores:
            lines.append(f"  keeps {', '.join(stores)}")
    return "\n".join(lines)


def connected(topology: t.Topology) -> list[list[t.Node]]:
    """The parts of a topology that share no node, in order."""
    part_of: dict[t.Node, list[t.Node]] = {}
    for node in topology.nodes:
        merged = [node]
        for part in {id(part_of[parent]): part_of[parent] for parent in node.parents}.values():
            merged = part + merged
        for member in merged:
            part_of[member] = merged
    order = {node: index for index, node in enumerate(topology.nodes)}
    parts = {id(part): part for part in part_of.values()}.values()
    return sorted((sorted(part, key=order.__getitem__) for part in parts), key=lambda part: order[part[0]])


def details(node: t.Node) -> str:
    """What a node does, in a few words."""
    match node:
        case t.Source():
            return f"reads {node.pattern if node.pattern is not None else ', '.join(node.topics)}"
        case t.GlobalTable():
            return f"reads all of {node.topic}"
        case t.Sink():
            return f"writes {node.topic.label + '(...)' if isinstance(node.topic, Function) else node.topic}"
        case t.Repartition():
            return f"repartition{'' if node.partitions is None else f' into {node.partitions}'}"
        case t.Filter() | t.TableFilter():
            return f"{'drop' if node.negated else 'keep'} where {node.function.label}"
        case t.Map():
            return f"{node.result} = {node.function.label}"
        case t.FlatMap():
            return f"{node.result}s in {node.function.label}"
        case t.TableMap():
            return f"value = {node.function.label}"
        case t.Peek():
            return f"call {node.function.label}"
        case t.Merge():
            return "merge"
        case t.Split():
            return f"split by {', '.join(predicate.label for predicate in node.predicates)}"
        case t.Branch():
            return "no predicate matched" if node.index is None else f"branch {node.index + 1}"
        case t.ToTable(history_ms=None):
            return "last value of each key"
        case t.ToTable():
            return f"values of each key, for {node.history_ms} ms"
        case t.Aggregate():
            return _aggregate(node)
        case t.TableAggregate():
            return f"{node.kind} by {node.selector.label}"
        case t.Suppress(until_window_closes=True):
            return "once, when a window closes"
        case t.Suppress():
            return f"at most once in {node.limit_ms} ms"
        case t.ToStream():
            return "changes as records"
        case t.StreamJoin():
            return f"{node.kind} join {node.within}"
        case t.StreamTableJoin() | t.TableJoin():
            return f"{node.kind} join"
        case t.GlobalJoin() | t.ForeignKeyJoin():
            return f"{node.kind} join on {node.selector.label}"
        case t.TableTransform():
            return f"value by {getattr(node.processor, '__name__', type(node.processor).__name__)}"
        case t.Process():
            return f"process by {getattr(node.processor, '__name__', type(node.processor).__name__)}"
        case _:
            return type(node).__name__


def types(node: t.Node) -> str:
    """The types of key and value."""
    return f"{'?' if node.key is None else node.key.name}: {'?' if node.value is None else node.value.name}"


def _aggregate(node: t.Aggregate) -> str:
    folds = ", ".join(fold.label for fold in node.folds)
    windows = "" if node.windows is None else f", {node.windows}"
    closing = ", emitted when closed" if node.emit == "close" else ""
    return f"{node.kind}{f' by {folds}' if folds else ''}{windows}{closing}"


def _row(node: t.Node) -> tuple[str, str, str, str]:
    parents = ", ".join(parent.name for parent in node.parents)
    return node.name, details(node), types(node), f"<- {parents}" if parents else ""


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
