"""The batches of each partition: which wait, which are due, and which have expired. No I/O.

The intake fills `PartitionQueue`s from any thread; the code here runs only on the client's loop. Each partition with
work has a `Line`: batches to retry, which come before those of its queue, and batches in flight. `check_ready` returns
the lines with a due batch by node, and when to check again; `take` returns the batch.

Invariants: batches of one partition are taken in the order of `send`, retries before newer ones; if order matters
(idempotence, or one request in flight) a batch in flight holds back any that would overtake it; every taken batch comes
back by `finished`, `retry` or `split`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from penstock.client.producer.idempotence import Idempotence, Numbering
from penstock.records.producing import Intake, PartitionQueue, ProducerBatch


class Line:
    """One partition with batches to send or in flight."""

    __slots__ = (
        "attempted_ms",
        "not_before_ms",
        "numbering",
        "partition",
        "queue",
        "topic",
        "under_way",
        "waiting",
    )

    def __init__(self, queue: PartitionQueue, numbering: Numbering | None) -> None:
        self.queue = queue
        self.topic: str = queue.topic
        self.partition: int = queue.partition
        self.numbering = numbering
        self.waiting: deque[ProducerBatch] = deque()
        """To be retried, in order."""
        self.under_way: list[ProducerBatch] = []
        self.not_before_ms = 0.0
        self.attempted_ms = 0.0

    def next_batch(self) -> ProducerBatch | None:
        if self.waiting:
            return self.waiting[0]
        return self.queue.closed[0] if self.queue.closed else self.queue.open

    def unsent(self) -> Iterator[ProducerBatch]:
        yield from self.waiting
        yield from list(self.queue.closed)
        if (batch := self.queue.open) is not None:
            yield batch


@dataclass(slots=True)
class ReadyCheck:
    by_node: dict[int, list[Line]] = field(default_factory=dict)
    """Lines with a due batch, by the node of their leader."""
    leaderless: list[Line] = field(default_factory=list)
    next_ms: float = math.inf
    """When a batch will be due or expire if nothing else happens."""


class Flush:
    """A caller waits for all batches that existed when it called."""

    def __init__(self, batches: set[ProducerBatch], done: Callable[[], None]) -> None:
        self.batches = batches
        self.done = done

    def finished(self, batch: ProducerBatch) -> bool:
        self.batches.discard(batch)
        return not self.batches


class Accumulator:
    def __init__(
        self,
        intake: Intake,
        *,
        linger_ms: float,
        delivery_timeout_ms: float,
        is_one_at_a_time: bool = False,
        idempotence: Idempotence | None = None,
    ) -> None:
        self._intake = intake
        self._linger_ms = linger_ms
        self._delivery_timeout_ms = delivery_timeout_ms
        self._is_one_at_a_time = is_one_at_a_time
        self._idempotence = idempotence
        self._lines: dict[PartitionQueue, Line] = {}
        self._flushes: list[Flush] = []
        self.is_urgent = False
        """Send everything without lingering: a caller waits for buffer space, or the producer is closing."""
        self.first_expiry_ms = 0.0
        """No batch expires before this; as of the last check_ready. Later batches expire later."""

    @property
    def lines(self) -> list[Line]:
        return list(self._lines.values())

    @property
    def is_empty(self) -> bool:
        self._take_news()
        return not any(line.under_way or line.next_batch() for line in self._lines.values())

    @property
    def record_count(self) -> int:
        """How many records have no outcome yet."""
        self._take_news()
        return sum(
            batch.record_count for line in self._lines.values() for batch in (*line.under_way, *line.unsent())
        )

    @property
    def has_unsent(self) -> bool:
        """Whether a known partition has a batch that is not in flight."""
        for line in self._lines.values():  # noqa: SIM110 - called for each answer: bench "one record, wait for it"
            if line.next_batch() is not None:
                return True
        return False

    def check_ready(
        self,
        now_ms: float,
        node_of: Callable[[str, int], int | None],
        may_send: Callable[[Line], bool] | None = None,
    ) -> ReadyCheck:
        """What is due now, by node. Lines without batches are dropped."""
        self._take_news()
        found = ReadyCheck()
        oldest_ms = math.inf
        hurries = self.is_urgent or bool(self._flushes)
        for queue, line in list(self._lines.items()):
            batch = line.next_batch()
            if batch is None:
                if not line.under_way and queue.forget():
                    del self._lines[queue]
                    continue
            else:
                due_ms = self._due_ms(line, batch, hurries)
                if due_ms > now_ms:
                    found.next_ms = min(found.next_ms, due_ms)
                elif self._may_send(line, batch) and (may_send is None or may_send(line)):
                    node_id = node_of(line.topic, line.partition)
                    if node_id is None:
                        found.leaderless.append(line)
                    else:
                        found.by_node.setdefault(node_id, []).append(line)
                oldest_ms = min(oldest_ms, batch.created_ms)
            if line.under_way:
                oldest_ms = min(oldest_ms, line.under_way[0].created_ms)
        self.first_expiry_ms = min(oldest_ms, now_ms) + self._delivery_timeout_ms
        found.next_ms = min(found.next_ms, oldest_ms + self._delivery_timeout_ms)
        return found

    def has_due(self, line: Line, now_ms: float) -> bool:
        """Whether the line has another batch for its node after one was taken."""
        batch = line.next_batch()
        if batch is None or self._due_ms(line, batch, self.is_urgent or bool(self._flushes)) > now_ms:
            return False
        return self._may_send(line, batch)

    def take(self, line: Line, now_ms: float) -> ProducerBatch | None:
        """The next batch, numbered; it is in flight from now on."""
        batch = line.waiting.popleft() if line.waiting else line.queue.take()
        if batch is None:
            return None
        if self._idempotence is not None and line.numbering is not None:
            self._idempotence.number(line.numbering, batch)
        batch.attempts += 1
        line.attempted_ms = now_ms
        line.under_way.append(batch)
        return batch

    def finished(self, line: Line, batch: ProducerBatch) -> None:
        """The batch was completed or failed, and its bytes are free. Update the batch first."""
        if batch in line.under_way:
            line.under_way.remove(batch)
        self._intake.give_back(batch)
        for flush in list(self._flushes):
            if flush.finished(batch):
                self._flushes.remove(flush)
                flush.done()

    def retry(self, line: Line, batch: ProducerBatch, not_before_ms: float) -> None:
        """Retry it, at its place."""
        line.under_way.remove(batch)
        _insert(line.waiting, batch)
        line.not_before_ms = max(line.not_before_ms, not_before_ms)

    def split(self, line: Line, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """Replace it by its parts."""
        line.under_way.remove(batch)
        if self._idempotence is not None and line.numbering is not None:
            self._idempotence.split(line.numbering, batch, parts)
        self._intake.give_back(batch)
        for part in parts:
            self._intake.charge(part)
        if parts[0].base_sequence >= 0:
            for part in parts:
                _insert(line.waiting, part)
        else:
            line.waiting.extendleft(reversed(parts))
        for flush in self._flushes:
            if batch in flush.batches:
                flush.batches.discard(batch)
                flush.batches.update(parts)

    def settle_numbers(self) -> None:
        """Restart sequence numbers that no longer fit, if no batch is in flight."""
        assert self._idempotence is not None, "only idempotent producers number their batches"
        for line in self.lines:
            numbering = line.numbering
            if numbering is None or line.under_way:
                continue
            if numbering.must_restart or numbering.is_unresolved:
                self._idempotence.settle(numbering)

    def take_expired(self, now_ms: float) -> list[tuple[Line, ProducerBatch]]:
        """Expired batches in order, each partition's first; they no longer wait, but may be in flight."""
        self._take_news()
        oldest_ms = now_ms - self._delivery_timeout_ms
        expired: list[tuple[Line, ProducerBatch]] = []
        for line in self._lines.values():
            # Batches in flight are the older ones.
            for batch in list(line.under_way):
                if batch.created_ms <= oldest_ms:
                    line.under_way.remove(batch)
                    expired.append((line, batch))
            expired += self._take_unsent(line, lambda batch: batch.created_ms <= oldest_ms)
        return expired

    def take_all_unsent(self) -> list[tuple[Line, ProducerBatch]]:
        """Everything that is not in flight: the transaction is aborted, or the producer is closed without waiting."""
        self._take_news()
        return [
            taken for line in self._lines.values() for taken in self._take_unsent(line, lambda batch: True)
        ]

    def flush(self, done: Callable[[], None]) -> None:
        """Call `done` when every present batch has an outcome; until then nothing lingers."""
        self._take_news()
        batches = {batch for line in self._lines.values() for batch in [*line.under_way, *line.unsent()]}
        if batches:
            for line in self._lines.values():
                line.queue.close_open()
            self._flushes.append(Flush(batches, done))
        else:
            done()

    def queued_counts(self, queues: list[PartitionQueue]) -> list[int]:
        """The number of waiting batches in each queue, for a partitioner that prefers short ones."""
        counts = []
        for queue in queues:
            line = self._lines.get(queue)
            count = len(queue.closed) + (queue.open is not None)
            counts.append(count if line is None else count + len(line.waiting))
        return counts

    def _take_news(self) -> None:
        for queue in self._intake.take_news():
            if queue not in self._lines:
                if queue.line is None:
                    numbering = None
                    if self._idempotence is not None:
                        numbering = self._idempotence.numbering(queue.topic, queue.partition)
                    queue.line = Line(queue, numbering)
                self._lines[queue] = queue.line

    def _due_ms(self, line: Line, batch: ProducerBatch, hurries: bool) -> float:
        if line.waiting:
            return line.not_before_ms
        if hurries or line.queue.closed or self._linger_ms == 0:
            return line.not_before_ms if batch.attempts else 0.0
        return batch.created_ms + self._linger_ms

    def _may_send(self, line: Line, batch: ProducerBatch) -> bool:
        if self._is_one_at_a_time and line.under_way:
            return False
        if self._idempotence is None or line.numbering is None:
            return True
        return self._idempotence.may_send(line.numbering, batch)

    @staticmethod
    def _take_unsent(
        line: Line, is_meant: Callable[[ProducerBatch], bool]
    ) -> list[tuple[Line, ProducerBatch]]:
        taken = []
        while (batch := line.next_batch()) is not None and is_meant(batch):
            first = line.waiting.popleft() if line.waiting else line.queue.take()
            if first is not None:
                taken.append((line, first))
        return taken


def _insert(waiting: deque[ProducerBatch], batch: ProducerBatch) -> None:
    """Insert a batch by its sequence number; one without a number at the front."""
    if batch.base_sequence < 0:
        waiting.appendleft(batch)
        return
    at = 0
    for at, other in enumerate(waiting):  # noqa: B007 - the position is what is looked for
        if other.base_sequence < 0 or _precedes(batch, other):
            break
    else:
        at = len(waiting)
    waiting.insert(at, batch)


def _precedes(batch: ProducerBatch, other: ProducerBatch) -> bool:
    """Sequence numbers wrap at 2**31."""
    return 0 < (other.base_sequence - batch.base_sequence) % 2**31 < 2**30
