"""What the sync consumer can be asked about the cluster, beside reading from it."""

from __future__ import annotations

import datetime
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from penstock.client.cluster import PartitionInfo, TopicPartition
from penstock.client.consumer import arguments
from penstock.client.consumer.core import ConsumerCore
from penstock.client.consumer.lookups import OffsetAndTimestamp
from penstock.client.consumer.positions import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from penstock.client.consumer.views import offsets_and_times, only_offsets

T = TypeVar("T")


class SyncQuestions(ABC):
    """A part of `Consumer`, which says how a question is run on the consumer's loop."""

    _core: ConsumerCore

    @abstractmethod
    def _in_use(self) -> AbstractContextManager[None]: ...

    @abstractmethod
    def _call_until(self, make: Callable[[int], Coroutine[Any, Any, T]], timeout: float | None) -> T: ...

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int | datetime.datetime], *, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first message of each partition that is not older; None where all are."""
        wanted = arguments.timestamps_of(times)
        with self._in_use():
            return offsets_and_times(self._list_offsets(wanted, timeout))

    def beginning_offsets(
        self, *partitions: TopicPartition | Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each of these partitions, or of all that are assigned."""
        return self._ends(partitions, EARLIEST_TIMESTAMP, timeout)

    def end_offsets(
        self, *partitions: TopicPartition | Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset behind the last message that a reader of this isolation level sees."""
        return self._ends(partitions, LATEST_TIMESTAMP, timeout)

    def _ends(
        self, partitions: Iterable[object], timestamp: int, timeout: float | None
    ) -> dict[TopicPartition, int]:
        wanted = arguments.partitions_of(partitions) or self._core.positions.partitions
        with self._in_use():
            return only_offsets(self._list_offsets(dict.fromkeys(wanted, timestamp), timeout))

    def _list_offsets(self, wanted: Mapping[TopicPartition, int], timeout: float | None) -> Any:
        return self._call_until(
            lambda deadline_ms: self._core.questions.list_offsets(wanted, deadline_ms), timeout
        )

    def partitions_for(self, topic: str, *, timeout: float | None = None) -> tuple[PartitionInfo, ...]:
        """The partitions of a topic, by index; `UnknownTopicOrPartition` where there is no such topic."""
        with self._in_use():
            return self._call_until(
                lambda deadline_ms: self._core.questions.partitions_for(topic, deadline_ms), timeout
            )

    def topic_id(self, topic: str) -> str | None:
        """The id of a topic by which this consumer fetches it just now; None where it has not met the topic.

        Nothing is asked of the cluster. A topic that was deleted and made anew has another id.
        """
        return self._core.client.cluster.id_of(arguments.topic_of(topic))

    def topics(self, *, timeout: float | None = None) -> frozenset[str]:
        """The names of all topics that this client may see."""
        with self._in_use():
            return self._call_until(
                lambda deadline_ms: self._core.questions.topic_names(deadline_ms), timeout
            )
