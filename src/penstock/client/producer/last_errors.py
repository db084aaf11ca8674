"""Why records are not written: the last error of each partition and of each node. No I/O.

A producer retries until a timeout. The error that it raises then must name the cause: a failed disk must not look like
a full buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from penstock.client import errors
from penstock.client.cluster import Cluster, TopicPartition
from penstock.protocol.errors import ErrorCode

E = TypeVar("E", bound=errors.PenstockError)


class LastErrors:
    """Kept by the sender, on the loop; any thread may call `of`."""

    def __init__(self, cluster: Callable[[], Cluster]) -> None:
        self._cluster = cluster
        self._of_partitions: dict[TopicPartition, errors.PenstockError] = {}
        self._of_nodes: dict[int, errors.PenstockError] = {}

    def failed(self, topic: str, partition: int, error: Exception) -> None:
        """A batch is retried because of this."""
        if isinstance(error, errors.PenstockError):
            self._of_partitions[TopicPartition(topic, partition)] = error

    def written(self, topic: str, partition: int) -> None:
        if self._of_partitions:
            self._of_partitions.pop(TopicPartition(topic, partition), None)

    def unreachable(self, node_id: int, error: errors.PenstockError) -> None:
        self._of_nodes[node_id] = error

    def reached(self, node_id: int) -> None:
        self._of_nodes.pop(node_id, None)

    def of(self, topic: str, partition: int) -> errors.PenstockError | None:
        """The known reason why records of a partition are not written."""
        place = TopicPartition(topic, partition)
        if (error := self._of_partitions.get(place)) is not None:
            return error
        info = self._cluster().partition(place)
        if info is not None and info.leader is None:
            is_known = info.error is not ErrorCode.NONE
            return errors.of(info.error if is_known else ErrorCode.LEADER_NOT_AVAILABLE, about=place)
        return None if info is None else self._of_nodes.get(info.leader_id)

    def of_any(self, places: Iterable[tuple[str, int]]) -> errors.PenstockError | None:
        """The error of the first of these partitions that has one."""
        return next((error for each in places if (error := self.of(*each)) is not None), None)


def with_reason(error: E, reason: errors.PenstockError | None) -> E:
    """A timeout error that names the last error. Raise it `from error.__cause__`."""
    if reason is not None:
        error.detail = f"{error.summary}; the last error was: {reason}"
        error.args = (error.detail,)
        error.advice = ""  # the cause has its own advice
        error.__cause__ = reason
    return error
