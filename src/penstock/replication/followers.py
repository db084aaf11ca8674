"""The followers of a partition, as its leader knows them from their fetches.

`Follower` records; `isr` decides. Times are milliseconds of a monotonic clock: a wall clock that jumps must not remove
every follower from the ISR.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from penstock.protocol.constants import UNKNOWN_OFFSET

UNKNOWN_BROKER_EPOCH = -1


class Follower:
    __slots__ = (
        "_fetched_ms",
        "_leader_end_offset",
        "broker_epoch",
        "caught_up_ms",
        "end_offset",
        "is_fetching",
        "node_id",
        "requests_when_left",
        "start_offset",
    )

    def __init__(self, node_id: int, *, caught_up_ms: int = 0) -> None:
        self.node_id = node_id
        self.end_offset = UNKNOWN_OFFSET
        """It has everything below."""
        self.start_offset = UNKNOWN_OFFSET
        self.broker_epoch = UNKNOWN_BROKER_EPOCH
        """Of its last fetch (KIP-903)."""
        self.caught_up_ms = caught_up_ms
        """When it last had everything that the leader had."""
        self.is_fetching = False
        """Whether it has fetched since it last left the ISR. Before that, its end offset proves nothing: the process
        may be dead, its disk broken, or the network cut."""
        self.requests_when_left: list[int] = []
        """The last requests before that. Later ones prove that it fetches, even if they do not name this partition."""
        self._fetched_ms = 0
        self._leader_end_offset = UNKNOWN_OFFSET
        """The leader's log end offset at its last fetch."""

    def fetched(
        self, *, end_offset: int, start_offset: int, broker_epoch: int, leader_end_offset: int, now_ms: int
    ) -> None:
        if end_offset >= leader_end_offset:
            self.caught_up_ms = now_ms
        elif end_offset >= self._leader_end_offset >= 0 and self._fetched_ms > self.caught_up_ms:
            # It has what the leader had at its last fetch: under constant load a follower is always a fetch behind.
            self.caught_up_ms = self._fetched_ms
        self.end_offset = end_offset
        self.start_offset = start_offset
        self.broker_epoch = broker_epoch
        self.is_fetching = True
        self._fetched_ms = now_ms
        self._leader_end_offset = leader_end_offset

    def left_isr(self, requests: list[int]) -> None:
        self.is_fetching = False
        self.requests_when_left = requests

    def is_caught_up(self, leader_end_offset: int, *, now_ms: int, lag_ms_max: int) -> bool:
        return self.end_offset == leader_end_offset or now_ms - self.caught_up_ms <= lag_ms_max


class Followers:
    __slots__ = ("_by_node", "in_sync", "out_of_sync")

    def __init__(self) -> None:
        self._by_node: dict[int, Follower] = {}
        self.in_sync: tuple[Follower, ...] = ()
        """Members of the maximal ISR: the high watermark waits for them."""
        self.out_of_sync: tuple[Follower, ...] = ()

    def __iter__(self) -> Iterator[Follower]:
        return iter(self._by_node.values())

    def get(self, node_id: int) -> Follower | None:
        return self._by_node.get(node_id)

    def assign(self, node_ids: Iterable[int], isr: Collection[int], *, now_ms: int = 0) -> None:
        """Make exactly `node_ids` the followers. Those that were followers keep what is known of them; a new one in
        `isr` counts as caught up now, so that it has time for its first fetch."""
        self._by_node = {
            node: self._by_node.get(node) or Follower(node, caught_up_ms=now_ms if node in isr else -(2**62))
            for node in node_ids
        }
        self.set_in_sync(isr)

    def set_in_sync(self, maximal_isr: Collection[int]) -> None:
        followers = self._by_node.values()
        self.in_sync = tuple([follower for follower in followers if follower.node_id in maximal_isr])
        self.out_of_sync = tuple([follower for follower in followers if follower.node_id not in maximal_isr])

    def clear(self) -> None:
        self._by_node = {}
        self.in_sync = self.out_of_sync = ()
