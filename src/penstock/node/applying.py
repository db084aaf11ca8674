"""Applies changes of the metadata to the parts of a broker, in order, without blocking the event loop.

A change is applied at once, in the call that publishes it, if it is small. One that changes thousands of partitions
(a large topic, a broker that died) is applied in slices. Between two slices, requests and heartbeats have their turn: a
controller that does not respond for seconds would be replaced. Later changes wait until the ones before are applied.

Clients see the new metadata at once. A partition that is not open yet answers NOT_LEADER_OR_FOLLOWER, and they retry.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from penstock.metadata.cache import Listener, MetadataCache
from penstock.metadata.delta import MetadataDelta, TopicDelta, as_new
from penstock.protocol.types import Uuid

SLICE_PARTITIONS = 50  # a new log costs several system calls: some milliseconds of the event loop in all


@dataclass(slots=True)
class _Waiting:
    """A published change that is not applied completely."""

    delta: MetadataDelta
    is_over: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it is applied, or never will be."""


class MetadataApplier:
    def __init__(
        self,
        metadata: MetadataCache,
        *,
        parts: Sequence[Listener],
        after: Listener,
        failed: Callable[[Exception], None],
    ) -> None:
        """`parts` get each slice, in this order; `after` gets each whole change when its slices are applied. `failed`
        gets the error of a change that could not be applied: the node must stop."""
        self._metadata = metadata
        self._parts = parts
        self._after = after
        self._failed = failed
        self._waiting: deque[_Waiting] = deque()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Apply the whole present image, and from now on every change."""
        self._waiting.append(_Waiting(as_new(self._metadata.image)))
        self._metadata.subscribe(self._changed)
        await self._apply_waiting()

    async def settled(self) -> None:
        """Wait until all changes that are published by now are applied. Later ones do not prolong the wait: while a
        broker with thousands of partitions is fenced, there is always a next one."""
        if self._waiting and self._task is not None and not self._task.done():
            await self._waiting[-1].is_over.wait()

    async def close(self) -> None:
        if self._changed in self._metadata:
            self._metadata.unsubscribe(self._changed)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _changed(self, delta: MetadataDelta) -> None:
        if self._waiting:
            self._waiting.append(_Waiting(delta))
        elif _partition_count(delta) <= SLICE_PARTITIONS:
            self._apply(delta)
            self._after(delta)
        else:
            self._waiting.append(_Waiting(delta))
            self._task = asyncio.get_running_loop().create_task(self._run(), name="apply metadata")

    async def _run(self) -> None:
        try:
            await self._apply_waiting()
        except Exception as error:
            self._failed(error)
        finally:
            for each in self._waiting:
                each.is_over.set()

    async def _apply_waiting(self) -> None:
        while self._waiting:
            delta = self._waiting[0].delta
            for piece in _slices(delta):
                self._apply(piece)
                await asyncio.sleep(0)
            self._after(delta)
            self._waiting.popleft().is_over.set()

    def _apply(self, delta: MetadataDelta) -> None:
        for part in self._parts:
            part(delta)


def _partition_count(delta: MetadataDelta) -> int:
    return sum(_cost(change) for change in delta.topics.values())


def _cost(change: TopicDelta) -> int:
    if change.after is None:
        return 0 if change.before is None else len(change.before.partitions)
    return len(change.changed_partitions)


def _slices(delta: MetadataDelta) -> Iterator[MetadataDelta]:
    """Changes of a few partitions each. Deleted topics come first, because a new topic may have the same name. Settings
    come in the first slice: see `PartitionTable.apply`. Brokers and features come in the last."""
    pieces = deque(_pieces(delta))
    while pieces:
        topics: dict[Uuid, TopicDelta] = {}
        count = 0
        while pieces and (not topics or count + _cost(pieces[0][1]) <= SLICE_PARTITIONS):
            topic_id, change = pieces.popleft()
            topics[topic_id] = change
            count += _cost(change)
        if not pieces:
            yield replace(delta, topics=topics)
            return
        yield replace(delta, topics=topics, brokers=(), features=())
        delta = replace(delta, configs=())
    yield delta


def _pieces(delta: MetadataDelta) -> Iterator[tuple[Uuid, TopicDelta]]:
    """At most one piece of a topic is in a slice, because a slice has topics by id: a piece fills it."""
    for topic_id, change in delta.topics.items():
        if change.after is None:
            yield topic_id, change
    for topic_id, change in delta.topics.items():
        if change.after is not None:
            indexes = change.changed_partitions
            for first in range(0, max(len(indexes), 1), SLICE_PARTITIONS):
                chosen = indexes[first : first + SLICE_PARTITIONS]
                yield topic_id, replace(change, changed_partitions=chosen)
