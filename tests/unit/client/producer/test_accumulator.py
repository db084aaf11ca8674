"""Which batches are due when, their order, and expiry; time is a number here."""

from __future__ import annotations

import math
from typing import Any

import pytest

from penstock.client.producer.accumulator import Accumulator, Line
from penstock.client.producer.idempotence import Idempotence, ProducerIdAndEpoch
from penstock.records.producing import Intake, ProducerBatch, TopicQueues

LINGER_MS = 10
DELIVERY_MS = 1000


class Host:
    def choose(self, topic: TopicQueues) -> Any:
        return topic.queues[0]

    def opened(self) -> None: ...

    def filled(self) -> None: ...


class World:
    """An intake with a clock that stands still until it is moved."""

    def __init__(
        self,
        *,
        idempotence: Idempotence | None = None,
        is_one_at_a_time: bool = False,
        linger_ms: int = LINGER_MS,
    ) -> None:
        self.now_ms = 0
        self.intake = Intake(
            Host(),  # type: ignore[arg-type]
            batch_bytes_max=200,
            buffer_bytes=100_000,
            record_bytes_max=100_000,
            now_ms=lambda: self.now_ms,
            wall_ms=lambda: 0,
        )
        self.intake.topics["orders"] = TopicQueues("orders", 3)
        self.accumulator = Accumulator(
            self.intake,
            linger_ms=linger_ms,
            delivery_timeout_ms=DELIVERY_MS,
            is_one_at_a_time=is_one_at_a_time,
            idempotence=idempotence,
        )

    def send(self, value: str, partition: int = 0) -> Any:
        return self.intake.send("orders", value, partition=partition)

    def due(self) -> list[tuple[int, int]]:
        """Nodes and partitions with something to send now; partition 2 has no leader."""
        check_ready = self.accumulator.check_ready(
            self.now_ms, lambda topic, index: None if index == 2 else 7
        )
        return [(node, line.partition) for node, lines in check_ready.by_node.items() for line in lines]

    def line(self, partition: int = 0) -> Line:
        self.accumulator.check_ready(self.now_ms, lambda topic, index: 7)
        return next(line for line in self.accumulator.lines if line.partition == partition)

    def take(self, partition: int = 0) -> ProducerBatch:
        batch = self.accumulator.take(self.line(partition), self.now_ms)
        assert batch is not None
        return batch

    def finish(self, batch: ProducerBatch, partition: int = 0) -> None:
        batch.complete(0)
        self.accumulator.finished(self.line(partition), batch)


@pytest.fixture
def world() -> World:
    return World()


def test_a_batch_is_due_after_linger_ms(world: World) -> None:
    world.send("a")
    assert world.due() == []
    check_ready = world.accumulator.check_ready(0, lambda topic, index: 7)
    assert check_ready.next_ms == LINGER_MS
    world.now_ms = LINGER_MS
    assert world.due() == [(7, 0)]


def test_a_full_batch_is_due_at_once_and_the_next_is_not(world: World) -> None:
    world.send("a" * 100)
    world.send("b" * 100)
    assert world.due() == [(7, 0)]
    assert world.take().record_count == 1
    assert world.due() == []
    assert not world.accumulator.has_due(world.line(), world.now_ms)


def test_urgency_and_flush_end_lingering(world: World) -> None:
    world.send("a")
    world.accumulator.is_urgent = True
    assert world.due() == [(7, 0)]
    world.accumulator.is_urgent = False
    world.accumulator.flush(lambda: None)
    assert world.due() == [(7, 0)]


def test_partitions_without_a_leader_are_reported(world: World) -> None:
    world.send("a", 2)
    world.now_ms = LINGER_MS
    check_ready = world.accumulator.check_ready(world.now_ms, lambda topic, index: None)
    assert [line.partition for line in check_ready.leaderless] == [2]


def test_a_retry_goes_before_newer_batches_after_its_backoff(world: World) -> None:
    world.send("a" * 100)
    world.send("b" * 100)
    world.send("c" * 100)
    first = world.take()
    world.accumulator.retry(world.line(), first, 50)
    assert world.due() == []
    world.now_ms = 50
    assert world.due() == [(7, 0)]
    assert world.take() is first
    assert first.attempts == 2


def test_retries_return_in_order_whatever_the_order_of_failures() -> None:
    idempotence = Idempotence()
    idempotence.take_identity(ProducerIdAndEpoch(1, 0))
    world = World(idempotence=idempotence)
    world.send("0" * 100)
    world.now_ms = LINGER_MS
    introduction = world.take()
    idempotence.acknowledged(idempotence.numbering("orders", 0), introduction, 0)
    world.finish(introduction)
    for letter in "abcd":
        world.send(letter * 100)
    world.now_ms += LINGER_MS
    batches = [world.take() for _ in range(4)]
    for batch in (batches[2], batches[0], batches[3], batches[1]):
        world.accumulator.retry(world.line(), batch, 0)

    assert list(world.line().waiting) == batches


def test_with_one_in_flight_the_next_waits_for_the_response() -> None:
    world = World(is_one_at_a_time=True)
    world.send("a" * 100)
    world.send("b" * 100)
    batch = world.take()
    world.now_ms = LINGER_MS
    assert world.due() == []
    world.finish(batch)
    assert world.due() == [(7, 0)]


def test_expired_batches_are_taken_oldest_first(world: World) -> None:
    world.send("a" * 100)
    world.send("b" * 100)
    under_way = world.take()
    world.now_ms = 600
    world.send("c" * 100)
    world.now_ms = DELIVERY_MS
    expired = [batch for _, batch in world.accumulator.take_expired(world.now_ms)]

    assert expired[0] is under_way
    assert len(expired) == 2
    assert world.line().under_way == []
    check_ready = world.accumulator.check_ready(world.now_ms, lambda topic, index: None)
    assert check_ready.next_ms == 600 + DELIVERY_MS


def test_a_flush_ends_with_the_last_batch_that_existed(world: World) -> None:
    done: list[str] = []
    world.accumulator.flush(lambda: done.append("nothing"))
    world.send("a", 0)
    world.send("b", 1)
    world.accumulator.flush(lambda: done.append("both"))
    world.send("later", 0)
    first, second = world.take(0), world.take(1)
    world.finish(first, 0)
    assert done == ["nothing"]
    world.finish(second, 1)
    assert done == ["nothing", "both"]


def test_a_flush_waits_for_the_parts_of_split_batches(world: World) -> None:
    done: list[bool] = []
    for letter in "ab":
        world.send(letter * 20)
    world.accumulator.flush(lambda: done.append(True))
    batch = world.take()
    batch.seal()
    parts = batch.split(1)
    world.accumulator.split(world.line(), batch, parts)
    for part in parts:
        assert not done
        assert world.take() is part
        world.finish(part)
    assert done
    assert world.intake.available_bytes == 100_000


def test_an_empty_line_is_dropped_and_created_again(world: World) -> None:
    world.send("a")
    batch = world.take()
    world.finish(batch)
    assert world.accumulator.is_empty
    assert world.accumulator.check_ready(0, lambda topic, index: 7).next_ms == math.inf
    assert world.accumulator.lines == []
    world.send("b")
    assert not world.accumulator.is_empty


def test_all_batches_not_in_flight_can_be_taken(world: World) -> None:
    for letter in "abc":
        world.send(letter * 100)
    world.send("d", 1)
    under_way = world.take()
    taken = [batch for _, batch in world.accumulator.take_all_unsent()]
    assert len(taken) == 3
    assert under_way not in taken


def test_queues_are_counted_for_the_partitioner(world: World) -> None:
    for letter in "abc":
        world.send(letter * 100)
    batch = world.take()
    world.accumulator.retry(world.line(), batch, 0)
    assert world.accumulator.queued_counts(world.intake.topics["orders"].queues) == [3, 0, 0]


def test_without_linger_a_batch_is_due_even_if_the_loops_clock_lags() -> None:
    world = World(linger_ms=0)
    world.now_ms = 1
    world.send("a")

    world.now_ms = 0  # a loop reads its clock once per iteration, and the clock may be coarse

    assert world.due() == [(7, 0)]


def test_nothing_expires_before_the_first_expiry() -> None:
    world = World()
    world.send("a")
    assert world.accumulator.first_expiry_ms == 0, "not known before a check_ready"

    world.line()
    assert world.accumulator.first_expiry_ms == DELIVERY_MS
    world.now_ms = 5
    world.send("b", partition=1)
    assert world.accumulator.take_expired(DELIVERY_MS - 1) == []

    assert len(world.accumulator.take_expired(DELIVERY_MS)) == 1
    world.due()
    assert world.accumulator.first_expiry_ms == 5 + DELIVERY_MS
