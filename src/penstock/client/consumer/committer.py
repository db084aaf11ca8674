"""Commits by the application, and automatic ones.

Automatic commits cover messages that the application has gone past: every `auto.commit.interval.ms`, before partitions
are revoked, and on close. They never raise: after a failure the next one covers more, or messages are read again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping

from penstock.client import errors
from penstock.client.cluster import TopicPartition
from penstock.client.consumer.commits import Interceptors, consumed
from penstock.client.consumer.positions import Positions
from penstock.client.group.member import GroupMember
from penstock.client.group.types import Offset
from penstock.client.settings import ConsumerSettings

logger = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, Offset]
OnDone = Callable[[Offsets, errors.PenstockError | None], object]


class Committer:
    def __init__(
        self,
        settings: ConsumerSettings,
        positions: Positions,
        interceptors: Interceptors,
        now_s: Callable[[], float],
    ) -> None:
        self.member: GroupMember | None = None
        """The member that commits; set when the consumer is first used, if it has a group."""
        self.is_automatic: bool = settings.get("group.id") is not None and settings.get("enable.auto.commit")
        self._positions = positions
        self._interceptors = interceptors
        self._now_s = now_s
        self._interval_s: float = settings.get("auto.commit.interval.ms") / 1000
        self._due_at = 0.0
        self._automatic: asyncio.Task[None] | None = None
        self._under_way: set[asyncio.Task[None]] = set()
        self._last: dict[TopicPartition, Offset] = {}

    def begin(self, member: GroupMember) -> None:
        self.member = member
        self._due_at = self._now_s() + self._interval_s

    async def commit(self, offsets: Offsets | None, deadline_ms: int | None) -> None:
        """Commit these offsets, or those of all messages returned so far."""
        assert self.member is not None
        offsets = consumed(self._positions) if offsets is None else dict(offsets)
        await self.member.commit(offsets, deadline_ms=deadline_ms)
        self._last.update(offsets)
        self._positions.note_committed(offsets)
        self._interceptors.on_commit(offsets)

    def commit_in_background(self, offsets: Offsets | None, on_done: OnDone | None) -> None:
        """Commit without waiting; `on_done` is called with the outcome."""
        offsets = consumed(self._positions) if offsets is None else dict(offsets)
        task = asyncio.get_running_loop().create_task(self._commit_and_report(offsets, on_done))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _commit_and_report(self, offsets: Offsets, on_done: OnDone | None) -> None:
        failure: errors.PenstockError | None = None
        try:
            await self.commit(offsets, None)
        except errors.PenstockError as error:
            failure = error
            if on_done is None:
                self._warn(error)
        if on_done is not None:
            try:
                on_done(offsets, failure)
            except Exception:
                logger.exception("the callback of a commit failed")

    # Automatic commits

    @property
    def is_due(self) -> bool:
        """Any thread may call it."""
        return self.is_automatic and self._now_s() >= self._due_at

    @property
    def due_in_s(self) -> float:
        return max(self._due_at - self._now_s(), 0.0)

    def commit_if_due(self) -> None:
        if not self.is_due:
            return
        self._due_at = self._now_s() + self._interval_s
        if self._automatic is None or self._automatic.done():
            offsets = consumed(self._positions)
            self._automatic = asyncio.get_running_loop().create_task(
                self.commit_quietly(offsets, None), name="penstock-auto-commit"
            )

    async def commit_quietly(self, offsets: Offsets, deadline_ms: int | None) -> None:
        """Commit offsets that have changed; log a failure."""
        news = {each: at for each, at in offsets.items() if self._last.get(each) != at}
        if not self.is_automatic or not news:
            return
        try:
            await self.commit(news, deadline_ms)
        except errors.PenstockError as error:
            self._warn(error)

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Other members own and commit these now."""
        for partition in partitions:
            self._last.pop(partition, None)

    async def close(self, *, timeout_ms: int) -> None:
        """Wait for the application's commits, within the timeout."""
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=timeout_ms / 1000)
        left = [*self._under_way] if self._automatic is None else [*self._under_way, self._automatic]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _warn(self, error: errors.PenstockError) -> None:
        group_id = None if self.member is None else self.member.group_id
        logger.warning("group %s: offsets were not committed: %s", group_id, error)
