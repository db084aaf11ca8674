"""Cycles in a graph of who depends on whom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence


def find_cycle(edges: Mapping[str, Sequence[str]]) -> list[str]:
    """The nodes of one cycle, its first again at the end; empty where there is none.

    A walk in depth, with a stack of its own because chains of transactions are longer than Python's.
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
