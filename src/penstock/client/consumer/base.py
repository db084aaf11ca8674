"""The part of `Consumer` that the sync and the asyncio version share: every call that does not wait.

A subclass says where these calls run: `_change` and `_inspect` check that the consumer may be used, and `_do` runs a
step on the consumer's event loop.
"""

from __future__ import annotations

import datetime
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from penstock.client.cluster import TopicPartition
from penstock.client.consumer import arguments
from penstock.client.consumer.arguments import RebalanceListener
from penstock.client.consumer.core import ConsumerCore
from penstock.client.consumer.fetch_plan import Fetched
from penstock.client.consumer.positions import EARLIEST, LATEST, Reset
from penstock.client.consumer.read import Columns, Make, ReadPlan, Until, bounds_of
from penstock.client.deadlines import seconds
from penstock.client.group.types import Assigned, Event, Lost, Offset
from penstock.client.settings import ConsumerSettings
from penstock.records.consuming import Message

T = TypeVar("T")
Begin = Callable[[int], Coroutine[Any, Any, ReadPlan]]

CLOSE_TIMEOUT_MS = 30_000
WAIT_S = 3600.0  # an iteration waits forever, an hour at a time


class BaseConsumer(ABC):
    def __init__(self, core: ConsumerCore, topics: Sequence[object]) -> None:
        self._core = core
        self._listener: RebalanceListener | None = None
        self._max_poll_records: int = core.settings.get("max.poll.records")
        self._is_closing = False
        arguments.subscribe_or_assign(self, topics)

    @abstractmethod
    def _change(self, step: Callable[[], object]) -> None:
        """Run a step that changes the consumer; raises if the consumer is closed or in use."""

    @abstractmethod
    def _inspect(self, step: Callable[[], T]) -> T:
        """Run a step that only reads the consumer's state."""

    @abstractmethod
    def _do(self, step: Callable[[], T]) -> T:
        """Run a step on the consumer's loop, without any check."""

    @property
    def settings(self) -> ConsumerSettings:
        return self._core.settings

    def __repr__(self) -> str:
        subscription = self._core.subscription
        what = sorted(subscription.topics) or ([str(subscription.pattern)] if subscription.pattern else [])
        what = what or [str(partition) for partition in self._core.positions.partitions] or ["nothing"]
        group = f" in group {self._core.group_id}" if self._core.group_id is not None else ""
        state = ", closed" if self._is_closing else ""
        return f"<Consumer of {', '.join(what)}{group} at {self.settings.cluster_name}{state}>"

    # Subscription

    def subscribe(
        self,
        topics: str | re.Pattern[str] | Iterable[str] | None = None,
        *,
        pattern: re.Pattern[str] | str | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Subscribe to topics by name or by pattern. This replaces an earlier subscription.

            consumer.subscribe(["orders", "payments"])
            consumer.subscribe(re.compile("orders-.*"))

        With a group, this consumer gets its share of the partitions; without one, it gets all of them. New partitions
        are added when they appear. The listener's methods may be coroutines if the consumer is the asyncio one.
        """
        subscription = arguments.subscription_of(topics, pattern)
        arguments.check_listener(listener)

        def subscribe() -> None:
            self._listener = listener
            self._core.subscribe(subscription, has_listener=listener is not None)

        self._change(subscribe)

    def subscription(self) -> frozenset[str]:
        """The topics subscribed to by name."""
        return self._core.subscription.topics

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without rebalancing. A group then only stores offsets."""
        wanted = arguments.partitions_of([partitions])
        self._change(lambda: self._core.assign(wanted))

    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions assigned to this consumer now."""
        return frozenset(self._core.positions.partitions)

    # Positions

    def seek(self, partition: TopicPartition, offset: int | Offset | Message) -> None:
        """Set the position: the next message comes from `offset`."""
        where = arguments.partition_of(partition)
        place, epoch = arguments.place_of(offset, where)
        self._change(lambda: self._core.seek(where, place, epoch))

    def seek_to_beginning(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Seek to the first offset of these partitions, or of all assigned ones."""
        self._reset(partitions, EARLIEST)

    def seek_to_end(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Seek to the end of these partitions, or of all assigned ones."""
        self._reset(partitions, LATEST)

    def seek_to_time(
        self, at: int | datetime.datetime, *partitions: TopicPartition | Iterable[TopicPartition]
    ) -> None:
        """Seek to the first message with this timestamp or a later one; to the end if there is none.

        `at` is in milliseconds since 1970, or a datetime.
        """
        self._reset(partitions, Reset(arguments.timestamp_of(at)))

    def _reset(self, partitions: Iterable[object], reset: Reset) -> None:
        wanted = arguments.partitions_of(partitions)
        self._change(lambda: self._core.reset(wanted, reset))

    def rewind(self) -> None:
        """Go back to the last committed offsets, or to where this consumer began. Later messages are returned again.

        `Producer.transaction(consumer=...)` does this after an abort.
        """

        def rewind() -> None:
            self._core.collector.update_position()
            self._core.rewind()

        self._change(rewind)

    def positions(self) -> dict[TopicPartition, int]:
        """The known positions: for each partition the offset of the next message."""

        def positions() -> dict[TopicPartition, int]:
            self._core.collector.update_position()
            return {state.partition: state.offset for state in self._core.positions if state.has_position}

        return self._inspect(positions)

    def pause(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Return no messages from these partitions until `resume`. They stay assigned."""
        wanted = arguments.partitions_of(partitions)
        self._change(lambda: self._core.pause(wanted, is_paused=True))

    def resume(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Return messages from paused partitions again."""
        wanted = arguments.partitions_of(partitions)
        self._change(lambda: self._core.pause(wanted, is_paused=False))

    def paused(self) -> frozenset[TopicPartition]:
        """The partitions paused by `pause`."""
        return frozenset(state.partition for state in self._core.positions if state.is_paused)

    def lag(self, partition: TopicPartition) -> int | None:
        """The number of offsets between the position and the end of the log; None if either is unknown."""
        where = arguments.partition_of(partition)

        def lag() -> int | None:
            self._core.collector.update_position()
            state = self._core.positions.of(where)
            is_known = state.has_position and state.end_offset >= 0
            return max(state.end_offset - state.offset, 0) if is_known else None

        return self._inspect(lag)

    def topic_id(self, topic: str) -> str | None:
        """The id of the topic that this consumer fetches from; None if it has no metadata of the topic.

        No request is sent. A topic that was deleted and created again has another id.
        """
        return self._core.client.cluster.id_of(arguments.topic_of(topic))

    # For the subclasses

    def _note_committed(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """A transaction has committed these."""
        self._do(lambda: self._core.positions.note_committed(offsets))

    def _read_arguments(
        self, until: Until, limit: int | None, headers: bool, timestamp_types: bool, timeout: float | None
    ) -> tuple[Begin, float, Columns]:
        """How a bounded read begins, how many seconds it waits for data, and its columns."""
        limit = None if limit is None else arguments.count_of(limit, 1, name="limit")
        bounds = bounds_of(until)
        timeout_s = self._core.client.api_timeout_ms / 1000 if timeout is None else seconds(timeout)
        columns = Columns(headers, timestamp_types)
        return partial(self._core.begin_read, bounds, limit=limit, columns=columns), timeout_s, columns

    def _read_source(self, plan: ReadPlan, make: Make, source: Fetched) -> Any:
        """The columns or messages of one source; None or empty if all of it was skipped."""
        core = self._core
        made = make(plan, source)
        core.collector.update_position()
        plan.note_progress(source.state.partition)
        if plan.rewind is not None:
            (partition, offset), plan.rewind = plan.rewind, None
            self._do(lambda: core.seek(partition, offset))
        if made and core.interceptors and make is ReadPlan.messages:
            made = core.interceptors.on_consume(made)
        return made if made is not None and len(made) else None

    def _stop_collector(self, *, is_certain: bool) -> None:
        """`is_certain`: the application has processed the last messages that it received."""
        if is_certain:
            self._core.collector.stop()
        else:
            self._core.collector.update_position()
            self._core.collector.rewind_unconfirmed()

    def _notify_listener(self, event: Event) -> Any:
        """Returns what the listener's method returns: a coroutine if it is async."""
        if isinstance(event, Assigned):
            name = "on_partitions_assigned"
        elif isinstance(event, Lost) and hasattr(self._listener, "on_partitions_lost"):
            name = "on_partitions_lost"
        else:
            name = "on_partitions_revoked"
        method = getattr(self._listener, name, None)
        return None if method is None else method(event.partitions)
