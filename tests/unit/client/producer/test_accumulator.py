"""Which batches are due when, in which order they are taken, and what runs out of time; time is a number here."""

from __future__ import annotations

import math
from typing import Any

import pytest

from penstock.client.producer.accumulator import Accumulator, Line
from penstock.client.producer.idempotence import Idempotence, Identity
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
        survey = self.accumulator.survey(self.now_ms, lambda topic, index: None if index == 2 else 7)
        return [(node, line.partition) for node, lines in survey.by_node.items() for line in lines]

    def line(self, partition: int = 0) -> Line:
        self.accumulator.survey(self.now_ms, lambda topic, index: 7)
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


def test_a_batch_is_due_when_it_has_lingered(world: World) -> None:
    world.send("a")
    assert world.due() == []
    survey = world.accumulator.survey(0, lambda topic, index: 7)
    assert survey.next_ms == LINGER_MS
    world.now_ms = LINGER_MS
    assert world.due() == [(7, 0)]


def test_a_full_batch_is_due_at_once_and_the_one_behind_it_is_not(world: World) -> None:
    world.send("a" * 100)
    world.send("b" * 100)
    assert world.due() == [(7, 0)]
    assert world.take().record_count == 1
    assert world.due() == []
    assert not world.accumulator.has_due(world.line(), world.now_ms)


def test_urgency_and_flushing_end_all_lingering(world: World) -> None:
    world.send("a")
    world.accumulator.is_urgent = True
    assert world.due() == [(7, 0)]
    world.accumulator.is_urgent = False
    world.accumulator.flush(lambda: None)
    assert world.due() == [(7, 0)]


def test_partitions_without_a_leader_are_told(world: World) -> None:
    world.send("a", 2)
    world.now_ms = LINGER_MS
    survey = world.accumulator.survey(world.now_ms, lambda topic, index: None)
    assert [line.partition for line in survey.leaderless] == [2]


def test_a_batch_to_be_sent_again_goes_before_newer_ones_and_not_too_early(world: World) -> None:
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


def test_repetitions_come_back_in_order_whatever_order_they_failed_in() -> None:
    idempotence = Idempotence()
    idempotence.take_identity(Identity(1, 0))
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


def test_one_at_a_time_waits_for_the_answer() -> None:
    world = World(is_one_at_a_time=True)
    world.send("a" * 100)
    world.send("b" * 100)
    batch = world.take()
    world.now_ms = LINGER_MS
    assert world.due() == []
    world.finish(batch)
    assert world.due() == [(7, 0)]


def test_what_has_run_out_of_time_is_given_up_oldest_first(world: World) -> None:
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
    survey = world.accumulator.survey(world.now_ms, lambda topic, index: None)
    assert survey.next_ms == 600 + DELIVERY_MS


def test_a_flush_ends_with_the_last_of_what_was_there(world: World) -> None:
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


def test_a_flush_waits_for_the_parts_of_what_was_split(world: World) -> None:
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
    assert world.intake.room_bytes == 100_000


def test_a_line_with_nothing_left_is_forgotten_and_found_again(world: World) -> None:
    world.send("a")
    batch = world.take()
    world.finish(batch)
    assert world.accumulator.is_empty
    assert world.accumulator.survey(0, lambda topic, index: 7).next_ms == math.inf
    assert world.accumulator.lines == []
    world.send("b")
    assert not world.accumulator.is_empty


def test_all_that_is_not_under_way_can_be_taken_away(world: World) -> None:
    for letter in "abc":
        world.send(letter * 100)
    world.send("d", 1)
    under_way = world.take()
    taken = [batch for _, batch in world.accumulator.take_all_unsent()]
    assert len(taken) == 3
    assert under_way not in taken


def test_queues_are_measured_for_the_partitioner(world: World) -> None:
    for letter in "abc":
        world.send(letter * 100)
    batch = world.take()
    world.accumulator.retry(world.line(), batch, 0)
    assert world.accumulator.queued_counts(world.intake.topics["orders"].queues) == [3, 0, 0]


def test_without_linger_a_batch_is_due_though_the_clock_of_the_loop_lags_behind() -> None:
    world = World(linger_ms=0)
    world.now_ms = 1
    world.send("a")

    world.now_ms = 0  # a loop reads the clock once a turn, and perhaps one that is coarse

    assert world.due() == [(7, 0)]


def test_nothing_runs_out_of_time_before_the_first_expiry() -> None:
    world = World()
    world.send("a")
    assert world.accumulator.first_expiry_ms == 0, "not known before a survey"

    world.line()
    assert world.accumulator.first_expiry_ms == DELIVERY_MS
    world.now_ms = 5
    world.send("b", partition=1)
    assert world.accumulator.take_expired(DELIVERY_MS - 1) == []

    assert len(world.accumulator.take_expired(DELIVERY_MS)) == 1
    world.due()
    assert world.accumulator.first_expiry_ms == 5 + DELIVERY_MS
