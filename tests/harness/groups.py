"""One part of a group shard under test: a clock that the test moves, a list as the log, no event loop."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from penstock.config.broker import BrokerSettings
from penstock.config.group import GroupSettings
from penstock.coordinator.group.context import GroupContext, GroupDependencies
from penstock.coordinator.result import CoordinatorRecord, CoordinatorResult, DeferredResponse
from penstock.coordinator.serde import RecordSerde
from penstock.coordinator.shard import ShardContext
from penstock.coordinator.timeline import Timeline
from penstock.coordinator.timers import Timers
from penstock.metadata.errors import Refused
from penstock.metadata.image import EMPTY_IMAGE, MetadataImage
from penstock.metadata.resources import group_resource
from penstock.protocol.errors import ErrorCode
from penstock.records import kernel

R = TypeVar("R")

START_WALL_MS = 1_700_000_000_000


class Replaying(Protocol):
    @property
    def replays(self) -> dict[type, Callable[[Any, Any], None]]: ...


class GroupHarness:
    """`context` for the parts under test, `play` to execute their decisions, `advance` to let time pass.

    `parts` replay the records. With `framing`, every record is also encoded and decoded; a record of a block stays
    encoded in the log. `is_committing = False` keeps writes uncommitted until `commit()`; `refuse = ErrorCode...`
    makes the log refuse.
    """

    def __init__(
        self,
        properties: dict[str, str] | None = None,
        *,
        image: MetadataImage = EMPTY_IMAGE,
        seed: int = 1,
        framing: RecordSerde | None = None,
    ) -> None:
        self.clock_ms = 1_000_000
        self.image = image
        self.settings = BrokerSettings.load(properties or {})
        self.log: list[CoordinatorRecord] = []
        self.parts: list[Replaying] = []
        self.is_committing = True
        self.refuse: ErrorCode | None = None
        self._framing = framing
        self._waiting: list[tuple[int, Callable[[], None]]] = []
        self._timeline = Timeline()
        self._timers = Timers(self._now_ms, lambda: None)
        self.context = GroupContext(
            ShardContext(
                0,
                self._timeline,
                self._timers,
                self._now_ms,
                lambda: START_WALL_MS + self.clock_ms - 1_000_000,
            ),
            GroupDependencies(
                lambda: self.image, lambda: self.settings, self._group_settings, random.Random(seed)
            ),
        )

    def play(self, outcome: CoordinatorResult[R]) -> R | DeferredResponse[R]:
        """Append, replay, respond. Raises `Refused` if the log refuses and the decision does not handle that."""
        on_committed = outcome.when_committed
        if outcome.records and self.refuse is not None:
            if on_committed is not None:
                on_committed(self.refuse)
            if not isinstance(outcome.response, DeferredResponse):
                raise Refused(self.refuse)
            return outcome.response
        if outcome.records:
            for record in outcome.records:
                self.log += self._single(record)
            end_offset = len(self.log)
            if self.is_committing:
                self._timeline.commit(end_offset)
            self._timeline.begin(end_offset, is_committed=self.is_committing)
            for record in outcome.records:
                self._replay(record)
        if on_committed is not None:
            if self.is_committing:
                on_committed(ErrorCode.NONE)
            else:
                self._waiting.append((len(self.log), lambda: on_committed(ErrorCode.NONE)))
        return outcome.response

    def answer(self, outcome: CoordinatorResult[R]) -> R:
        """`play` for decisions that respond at once."""
        response = self.play(outcome)
        if isinstance(response, DeferredResponse):
            assert response.is_complete, "there is no response yet"
            got: list[R] = []
            response.on_complete(got.append)
            return got[0]
        return response

    def commit(self) -> None:
        """Commit everything written so far."""
        self._timeline.commit(len(self.log))
        waiting, self._waiting = self._waiting, []
        for _, on_committed in waiting:
            on_committed()

    def advance(self, duration_ms: int) -> None:
        """Let time pass, and run each timer when it is due."""
        end_ms = self.clock_ms + duration_ms
        while True:
            next_ms = self._timers.next_ms
            if next_ms is None or next_ms > end_ms:
                break
            self.clock_ms = max(self.clock_ms, next_ms)
            due = self._timers.take_due()
            if due is not None:
                self.play(due[1]())
        self.clock_ms = end_ms

    def compacted(self) -> list[CoordinatorRecord]:
        """The records that a new owner of the shard would replay: the last of each key, in order."""
        latest: dict[str, CoordinatorRecord] = {}
        for record in self.log:
            key = repr(record.key)
            latest.pop(key, None)
            latest[key] = record
        return list(latest.values())

    def load(self, records: list[CoordinatorRecord]) -> None:
        """Replay `records` as if read from the log."""
        self.log.extend(records)
        self._timeline.begin(len(self.log), is_committed=True)
        for record in records:
            self._replay(record)

    def _single(self, record: CoordinatorRecord) -> list[CoordinatorRecord]:
        """The log entries of a record; a block has several."""
        if self._framing is None or not _is_block(record):
            return [record]
        batch = kernel.build_batch(self._framing.encode_all([record], timestamp_ms=0))
        return [
            CoordinatorRecord(*self._framing.decode(written.key or b"", written.value))
            for written in kernel.iterate_records(batch)
        ]

    def _replay(self, record: CoordinatorRecord) -> None:
        key, value = record.key, record.value
        if self._framing is not None and not _is_block(record):
            key, value = self._framing.decode(*self._framing.encode(record))
        for part in self.parts:
            replay = part.replays.get(type(key))
            if replay is not None:
                replay(key, value)
                return
        raise AssertionError(f"no part replays {type(key).__name__}")

    def _now_ms(self) -> int:
        return self.clock_ms

    def _group_settings(self, group_id: str) -> GroupSettings:
        return GroupSettings.resolve(self.settings, dict(self.image.settings_of(group_resource(group_id))))


def _is_block(record: CoordinatorRecord) -> bool:
    return isinstance(record.value, list)
