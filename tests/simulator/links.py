"""The links between hosts, each direction on its own: delay, lost connections, cuts.

A cut is silent. Data stops flowing in one direction, no connection is closed, and new connections time out. When the
link heals, TCP sends the data again, unless one end has given up meanwhile. All clients share one host (`CLIENT_HOST`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

DELAY_S_MAX = 0.005


@dataclass(slots=True)
class Link:
    """One direction between two hosts."""

    delay_s_min: float = 0.0
    delay_s_max: float = DELAY_S_MAX
    """Of each delivery of each connection, so that connections overtake each other."""
    reset_chance: float = 0.0
    """Of each delivery: the connection is lost, with the data in flight in both directions."""
    is_cut: bool = False


class Links:
    def __init__(self) -> None:
        self.default = Link()
        """Of pairs of hosts that were never changed. Do not cut it."""
        self.on_heal: Callable[[], None] | None = None
        self._links: dict[tuple[str, str], Link] = {}
        self._dark_hosts: set[str] = set()

    def get(self, source: str, destination: str) -> Link:
        """To read. It may be the default of all links."""
        return self._links.get((source, destination), self.default)

    def own(self, source: str, destination: str) -> Link:
        """To change: the link of this pair only."""
        return self._links.setdefault((source, destination), Link())

    def is_cut(self, source: str, destination: str) -> bool:
        if not self._links and not self._dark_hosts:
            return False
        return (
            source in self._dark_hosts
            or destination in self._dark_hosts
            or self.get(source, destination).is_cut
        )

    def is_dark(self, host: str) -> bool:
        """Whether the machine has no power: it neither receives nor sends."""
        return host in self._dark_hosts

    # Faults

    def cut(self, source: str, destination: str) -> None:
        """Cut one direction."""
        self.own(source, destination).is_cut = True

    def partition(self, groups: Sequence[Collection[str]]) -> None:
        """Cut all links between hosts of different groups. A host in no group keeps its links."""
        for group in groups:
            for other in groups:
                if group is not other:
                    for source in sorted(group):
                        for destination in sorted(other):
                            self.cut(source, destination)

    def heal(self) -> None:
        """Remove every fault of every link."""
        self._links.clear()
        if self.on_heal is not None:
            self.on_heal()

    def power_off(self, host: str) -> None:
        self._dark_hosts.add(host)

    def power_on(self, host: str) -> None:
        if host in self._dark_hosts:
            self._dark_hosts.discard(host)
            if self.on_heal is not None:
                self.on_heal()
