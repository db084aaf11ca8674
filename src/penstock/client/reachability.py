"""Warnings of a client that waits: logged once, after five seconds, with the reason. `Reachability` is for brokers that
cannot be reached, `LeaderWait` for partitions without a leader.

All clients open connections through `transport`, which reports here. The warning comes from a timer and not from a
failed attempt, because an address that drops packets fails no attempt for ten seconds.

Invariant: after `stop` there is no timer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection

from penstock.client.cluster import Cluster, TopicPartition

logger = logging.getLogger(__name__)

WARN_AFTER_S = 5.0  # soon enough for a person, and longer than a broker restart
PAUSE_MAX_S = 2.0  # between two attempts of one call; after a longer pause it is a new call
NAMED_MAX = 5  # partitions in one message


class Reachability:
    """Whether one client can reach any broker."""

    def __init__(self, *, explain: Callable[[], str], is_connecting: Callable[[], bool]) -> None:
        self._explain = explain
        self._is_connecting = is_connecting
        self._timer: asyncio.TimerHandle | None = None
        self._last_attempt_at: float | None = None
        self._has_warned = False

    def attempt_began(self) -> None:
        """The client opens a connection and has no other."""
        if self._last_attempt_at is not None and not self._is_waiting():  # a new call: it may warn again
            self._last_attempt_at = None
            self._has_warned = False
            self.stop()
        if self._timer is None and not self._has_warned:
            self._timer = asyncio.get_running_loop().call_later(WARN_AFTER_S, self._warn)

    def attempt_failed(self) -> None:
        self._last_attempt_at = asyncio.get_running_loop().time()

    def reached(self) -> None:
        """A broker has responded."""
        self.stop()
        self._last_attempt_at = None
        if self._has_warned:
            logger.info("a broker answers again")
            self._has_warned = False

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _warn(self) -> None:
        self._timer = None
        if self._is_connecting() or self._is_waiting():
            self._has_warned = True
            logger.warning(
                "no broker has answered for %.0f s, still trying: %s", WARN_AFTER_S, self._explain()
            )

    def _is_waiting(self) -> bool:
        """Whether the last attempt is so recent that its caller will make another."""
        now = asyncio.get_running_loop().time()
        return self._last_attempt_at is not None and now - self._last_attempt_at <= PAUSE_MAX_S


class LeaderWait:
    """Whether the partitions that one client needs have leaders. It has no timer: callers report before each retry."""

    def __init__(self) -> None:
        self._began_ms: float | None = None
        self._last_ms = 0.0
        self._has_warned = False

    def missing(self, partitions: Collection[TopicPartition], cluster: Cluster, now_ms: float) -> None:
        """A call needs the leaders of these partitions. Those with a leader and unknown ones do not count."""
        why = why_no_leader(partitions, cluster)
        if why is None:
            return
        if (
            self._began_ms is None or now_ms - self._last_ms > PAUSE_MAX_S * 1000
        ):  # a new call: it may warn again
            self._began_ms, self._has_warned = now_ms, False
        self._last_ms = now_ms
        if not self._has_warned and now_ms - self._began_ms >= WARN_AFTER_S * 1000:
            self._has_warned = True
            logger.warning("no leader for %.0f s, still trying: %s", WARN_AFTER_S, why)


def why_no_leader(partitions: Collection[TopicPartition], cluster: Cluster) -> str | None:
    """Which of these partitions have no leader, and why; None if all have one."""
    reasons = []
    for partition in sorted(partitions):
        info = cluster.partition(partition)
        if info is None or info.leader_id in cluster.nodes:
            continue
        if info.leader_id >= 0:
            reasons.append(f"{partition}: its leader, node {info.leader_id}, is not in the cluster")
        elif info.offline_replicas:
            nodes = ", ".join(map(str, info.offline_replicas))
            reasons.append(f"{partition} has no leader: its replicas on node {nodes} are offline")
        else:
            reasons.append(f"{partition} has no leader")
    if not reasons:
        return None
    more = len(reasons) - NAMED_MAX
    return "; ".join(reasons[:NAMED_MAX]) + (f"; and {more} more partitions" if more > 0 else "")
