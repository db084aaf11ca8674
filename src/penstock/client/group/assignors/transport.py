"""Solves the transportation problem of `balance`: how many partitions of each kind go to each member, at least cost.

The cost is, in this order: how uneven the counts are (their squares), how many partitions are outside their member's
rack, how many have moved. It is a flow from kinds over members to a sink, and a flow is optimal when the residual graph
has no negative cycle. Everything is integer, and nothing depends on hashes: the same group has the same solution
everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

STEPS_MAX = 4_000_000  # some seconds; beyond that a good solution is enough


class Transport:
    def __init__(self, members: int) -> None:
        self._members = members
        self._sizes: list[int] = []
        self._had: list[dict[int, int]] = []
        self._far: list[Set[int]] = []
        self._given: list[dict[int, int]] = []
        self._load = [0] * members
        self._steps = 0

    def add(self, size: int, *, had: Mapping[int, int], far: Set[int]) -> None:
        """A kind of `size` partitions; `had` has all members that may get some, with how many each had."""
        self._sizes.append(size)
        self._had.append(dict(had))
        self._far.append(far)

    def solve(self) -> list[dict[int, int]]:
        """For each kind, how many each member gets."""
        self._far_cost = sum(self._sizes) + 1
        self._load_cost = self._far_cost * self._far_cost
        self._begin()
        self._even_out()
        while self._steps < STEPS_MAX and self._improve():
            pass
        return self._given

    # A first solution

    def _begin(self) -> None:
        """Members keep what they had; the rest goes to members with the fewest, kinds with few subscribers first."""
        for had in self._had:
            self._given.append(dict(had))
            for member, count in had.items():
                self._load[member] += count
        for kind in sorted(range(len(self._had)), key=lambda each: len(self._had[each])):
            for _ in range(self._sizes[kind] - sum(self._given[kind].values())):
                far = self._far[kind]
                taker = min(self._given[kind], key=lambda each: (self._load[each], each in far, each))
                self._move(kind, None, taker)

    def _even_out(self) -> None:
        is_uneven = True
        while is_uneven:
            is_uneven = False
            for kind, given in enumerate(self._given):
                while True:
                    holders = [member for member in given if given[member]]
                    giver = max(holders, key=lambda each: (self._load[each], self._last_cost(kind, each)))
                    taker = min(given, key=lambda each: (self._load[each], self._next_cost(kind, each), each))
                    if self._load[giver] - self._load[taker] < 2:
                        break
                    self._move(kind, giver, taker)
                    is_uneven = True

    def _move(self, kind: int, giver: int | None, taker: int) -> None:
        if giver is not None:
            self._given[kind][giver] -= 1
            self._load[giver] -= 1
        self._given[kind][taker] += 1
        self._load[taker] += 1

    # The cost of one more or one less

    def _next_cost(self, kind: int, member: int) -> int:
        is_moved = self._given[kind][member] >= self._had[kind][member]
        return is_moved + (self._far_cost if member in self._far[kind] else 0)

    def _last_cost(self, kind: int, member: int) -> int:
        is_moved = self._given[kind][member] > self._had[kind][member]
        return is_moved + (self._far_cost if member in self._far[kind] else 0)

    # Improvement

    def _improve(self) -> bool:
        """Find a negative cycle and apply it once; False if there is none."""
        arcs = self._arcs()
        sink = self._members + len(self._given)
        distance = [0] * (sink + 1)
        before = [-1] * (sink + 1)
        changed = -1
        for _ in range(sink + 1):
            changed = -1
            self._steps += len(arcs)
            for start, end, cost in arcs:
                if distance[start] + cost < distance[end]:
                    distance[end] = distance[start] + cost
                    before[end] = start
                    changed = end
            if changed < 0:
                return False
            cycle = _cycle_in(before)
            if cycle:
                self._go_round(cycle)
                return True
        raise AssertionError("distances kept falling without a cycle")

    def _arcs(self) -> list[tuple[int, int, int]]:
        """Source, target and cost of every possible step: members first, then kinds, then the sink."""
        arcs: list[tuple[int, int, int]] = []
        sink = self._members + len(self._given)
        for kind, given in enumerate(self._given):
            node = self._members + kind
            for member, count in given.items():
                arcs.append((node, member, self._next_cost(kind, member)))
                if count:
                    arcs.append((member, node, -self._last_cost(kind, member)))
        for member, load in enumerate(self._load):
            arcs.append((member, sink, self._load_cost * (2 * load + 1)))
            if load:
                arcs.append((sink, member, -self._load_cost * (2 * load - 1)))
        return arcs

    def _go_round(self, cycle: list[int]) -> None:
        sink = self._members + len(self._given)
        for start, end in zip(cycle, cycle[1:] + cycle[:1], strict=True):
            if start == sink:
                self._load[end] -= 1
            elif end == sink:
                self._load[start] += 1
            elif start < self._members:
                self._given[end - self._members][start] -= 1
            else:
                self._given[start - self._members][end] += 1


def _cycle_in(before: list[int]) -> list[int]:
    """The nodes of a cycle, in the order of its arcs; empty if the predecessors form none."""
    seen = [-1] * len(before)
    for first in range(len(before)):
        node = first
        while node >= 0 and seen[node] < 0:
            seen[node] = first
            node = before[node]
        if node >= 0 and seen[node] == first:
            cycle = [node]
            while (node := before[node]) != cycle[0]:
                cycle.append(node)
            return cycle[::-1]
    return []
