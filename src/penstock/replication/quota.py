"""Limits how fast replicas are copied, so that a reassignment leaves bandwidth to clients (KIP-73).

The limit applies to the replicas that a topic lists in `leader.replication.throttled.replicas` and
`follower.replication.throttled.replicas`, and only while they are not in sync. Leader and follower count on their own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from penstock.replication.validation import SettingsSource

ALL_REPLICAS = "*"
WAIT_MS_MAX = 1_000  # the rate may change at any time


class ThrottledReplicas(NamedTuple):
    """The partitions of a topic whose replica on this node is throttled, by its role. None means all."""

    as_leader: Collection[int] | None = ()
    as_follower: Collection[int] | None = ()

    @classmethod
    def read(cls, source: SettingsSource, *, node_id: int) -> ThrottledReplicas:
        return cls(
            _partitions(source.get("leader.replication.throttled.replicas"), node_id),
            _partitions(source.get("follower.replication.throttled.replicas"), node_id),
        )


def _partitions(replicas: Collection[str], node_id: int) -> Collection[int] | None:
    if ALL_REPLICAS in replicas:
        return None
    pairs = [replica.split(":") for replica in replicas]
    return frozenset(int(partition) for partition, broker in pairs if int(broker) == node_id)


class ReplicationQuota:
    """Bytes per second for all throttled replicas of a node in one role. A second's worth may be used at once."""

    __slots__ = ("_allowance", "_counted_ms", "_rate")

    def __init__(self, rate: Callable[[], int]) -> None:
        self._rate = rate
        self._allowance = 0.0
        """Bytes that may be copied now; negative after more were copied than allowed."""
        self._counted_ms = 0

    def record(self, size: int) -> None:
        """`size` bytes of a throttled replica were copied."""
        self._allowance -= size

    def wait_ms(self, now_ms: int) -> int:
        """How long a throttled replica must wait before it asks again; 0 if it may be copied now."""
        rate = self._rate()
        elapsed_ms, self._counted_ms = now_ms - self._counted_ms, now_ms
        self._allowance = min(self._allowance + elapsed_ms * rate / 1000, float(rate))
        if self._allowance >= 0 and rate > 0:
            return 0
        return WAIT_MS_MAX if rate <= 0 else max(1, min(WAIT_MS_MAX, int(-self._allowance * 1000 / rate)))
