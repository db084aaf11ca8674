"""Which batches wait for which partition, which are due now, and which have run out of time. No I/O.

The intake fills `PartitionQueue`s from any thread; what is here runs on the client's loop alone. Each partition with
something to look after has a `Line`: batches to be sent again, before those of its queue, and those under way.
`survey` tells which lines have a batch due for which node, and when to look again; `take` gives the batch.

Invariants: of one partition batches are taken in the order of `send`, a repetition before everything newer; where order
counts (idempotence, or one request in flight) a batch under way holds back what would overtake it; every batch that was
taken comes back by `finished`, `retry` or `split`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from penstock.client.producer.idempotence import Idempotence, Numbering
from penstock.records.producing import Intake, PartitionQueue, ProducerBatch


class Line:
    """One partition that has something to send, or under way."""

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
        """To be sent again, in order."""
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
class Survey:
    by_node: dict[int, list[Line]] = field(default_factory=dict)
    """Lines with a batch that is due, by the node that leads them."""
    leaderless: list[Line] = field(default_factory=list)
    next_ms: float = math.inf
    """When something will be due, or will have run out of time, though nothing else happens."""


class Flush:
    """Someone waits for all batches that were there when it was asked for."""

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
        """Send what there is and wait for nothing more: someone waits for room, or the producer is closing."""
        self.first_expiry_ms = 0.0
        """No batch runs out of time before; as of the last survey. A batch that came later runs out later, too."""

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
        """Whether a known partition has a batch that is not under way; of others somebody tells."""
        for line in self._lines.values():  # noqa: SIM110 - called for each answer: bench "one record, wait for it"
            if line.next_batch() is not None:
                return True
        return False

    def survey(
        self,
        now_ms: float,
        node_of: Callable[[str, int], int | None],
        may_send: Callable[[Line], bool] | None = None,
    ) -> Survey:
        """What is due now, and for whom. Lines with nothing left are forgotten."""
        self._take_news()
        found = Survey()
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
        """Whether the line has a further batch for its node, after one was taken."""
        batch = line.next_batch()
        if batch is None or self._due_ms(line, batch, self.is_urgent or bool(self._flushes)) > now_ms:
            return False
        return self._may_send(line, batch)

    def take(self, line: Line, now_ms: float) -> ProducerBatch | None:
        """The next batch, numbered, and under way from now on."""
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
        """It was completed or failed, and its bytes are free. Tell the batch first, and this after."""
        if batch in line.under_way:
            line.under_way.remove(batch)
        self._intake.give_back(batch)
        for flush in list(self._flushes):
            if flush.finished(batch):
                self._flushes.remove(flush)
                flush.done()

    def retry(self, line: Line, batch: ProducerBatch, not_before_ms: float) -> None:
        """Have it sent again, at its place."""
        line.under_way.remove(batch)
        _insert(line.waiting, batch)
        line.not_before_ms = max(line.not_before_ms, not_before_ms)

    def split(self, line: Line, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """Let its parts take its place."""
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
        """Restart sequence numbers that no longer fit, where no batch is under way."""
        assert self._idempotence is not None, "others have no numbers"
        for line in self.lines:
            numbering = line.numbering
            if numbering is None or line.under_way:
                continue
            if numbering.must_restart or numbering.is_unresolved:
                self._idempotence.settle(numbering)

    def take_expired(self, now_ms: float) -> list[tuple[Line, ProducerBatch]]:
        """Batches whose time is over, in order, each partition's first; they wait no longer, but may be under way."""
        self._take_news()
        oldest_ms = now_ms - self._delivery_timeout_ms
        expired: list[tuple[Line, ProducerBatch]] = []
        for line in self._lines.values():
            # Those under way are the older ones.
            for batch in list(line.under_way):
                if batch.created_ms <= oldest_ms:
                    line.under_way.remove(batch)
                    expired.append((line, batch))
            expired += self._take_unsent(line, lambda batch: batch.created_ms <= oldest_ms)
        return expired

    def take_all_unsent(self) -> list[tuple[Line, ProducerBatch]]:
        """Everything that is not under way: a transaction is aborted, or the producer closed in haste."""
        self._take_news()
        return [
            taken for line in self._lines.values() for taken in self._take_unsent(line, lambda batch: True)
        ]

    def flush(self, done: Callable[[], None]) -> None:
        """Call `done` once everything that is here now has an outcome; until then nothing lingers."""
        self._take_news()
        batches = {batch for line in self._lines.values() for batch in [*line.under_way, *line.unsent()]}
        if batches:
            for line in self._lines.values():
                line.queue.close_open()
            self._flushes.append(Flush(batches, done))
        else:
            done()

    def queued_counts(self, queues: list[PartitionQueue]) -> list[int]:
        """How many batches wait for each, for a partitioner that prefers short lines."""
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
    """Put a batch where its number wants it; one without a number at the front."""
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
    """Numbers go round after 2**31."""
    return 0 < (other.base_sequence - batch.base_sequence) % 2**31 < 2**30
