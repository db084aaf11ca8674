"""Why records are not written: the last error of each partition and of each node. No I/O.

A producer repeats what failed until its time is up. The error that it raises then must name what stood in the way, or
it would blame a full buffer or a closed producer for a broken disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from penstock.client import errors
from penstock.client.cluster import Cluster, TopicPartition
from penstock.protocol.errors import ErrorCode

E = TypeVar("E", bound=errors.PenstockError)


class LastErrors:
    """Kept by the sender, on the loop; `of` may be asked from any thread."""

    def __init__(self, cluster: Callable[[], Cluster]) -> None:
        self._cluster = cluster
        self._of_partitions: dict[TopicPartition, errors.PenstockError] = {}
        self._of_nodes: dict[int, errors.PenstockError] = {}

    def failed(self, topic: str, partition: int, error: Exception) -> None:
        """A batch is going to be sent again because of this."""
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
        """What keeps records of a partition from being written, as far as it is known."""
        place = TopicPartition(topic, partition)
        if (error := self._of_partitions.get(place)) is not None:
            return error
        info = self._cluster().partition(place)
        if info is not None and info.leader is None:
            is_told = info.error is not ErrorCode.NONE
            return errors.of(info.error if is_told else ErrorCode.LEADER_NOT_AVAILABLE, about=place)
        return None if info is None else self._of_nodes.get(info.leader_id)

    def of_any(self, places: Iterable[tuple[str, int]]) -> errors.PenstockError | None:
        """The error of the first of these partitions that has one."""
        return next((error for each in places if (error := self.of(*each)) is not None), None)


def with_reason(error: E, reason: errors.PenstockError | None) -> E:
    """The error of a call whose time is up, naming the last error. Raise it `from error.__cause__`."""
    if reason is not None:
        error.words = f"{error.what_happened}; the last error was: {reason}"
        error.args = (error.words,)
        error.advice = ""  # the reason has its own
        error.__cause__ = reason
    return error
