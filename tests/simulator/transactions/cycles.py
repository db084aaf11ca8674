"""Finds cycles in a dependency graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence


def find_cycle(edges: Mapping[str, Sequence[str]]) -> list[str]:
    """The nodes of one cycle, with the first one repeated at the end; empty if there is no cycle.

    A depth-first search with its own stack: chains of transactions exceed Python's recursion limit.
    """
    done: set[str] = set()
    for root in edges:
        if root in done:
            continue
        path: dict[str, Iterator[str]] = {root: iter(edges[root])}
        while path:
            node = next(reversed(path))
            following = next(path[node], None)
            if following is None:
                done.add(node)
                del path[node]
            elif following in path:
                names = list(path)
                return [*names[names.index(following) :], following]
            elif following not in done:
                path[following] = iter(edges.get(following, ()))
    return []
