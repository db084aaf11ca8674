"""Which messages the application gets, and which count as consumed."""

from __future__ import annotations

from collections import deque

from penstock.client.cluster import TopicPartition
from penstock.client.consumer.fetch_collector import FetchCollector
from penstock.client.consumer.fetch_plan import Fetched
from penstock.client.consumer.positions import PartitionState
from penstock.records import consuming, kernel

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def state(partition: TopicPartition, offset: int = 0) -> PartitionState:
    made = PartitionState(partition)
    made.go_to(offset, -1)
    return made


def fetched(of: PartitionState, values: str, base_offset: int = 0) -> Fetched:
    rows = [(1, None, value.encode(), ()) for value in values]
    batch = bytes(kernel.build_batch(rows, base_offset=base_offset, leader_epoch=3))
    return Fetched(of, consuming.FetchedRecords(of.partition.topic, of.partition.partition, batch, of.offset))


class Given:
    def __init__(self, *ready: Fetched) -> None:
        self.posted: list[Fetched] = []
        self.ready = deque(ready)
        self.collector = FetchCollector(self.ready, self.posted.append)

    def take(self, count_max: int) -> str:
        return "".join(message.value.decode() for message in self.collector.take(count_max))


def test_messages_come_from_one_partition_after_another() -> None:
    first, second = state(P0), state(P1)
    one, two = fetched(first, "abc"), fetched(second, "de")
    given = Given(one, two)

    assert given.take(2) == "ab"
    assert (first.offset, first.epoch, second.offset) == (2, 3, 0)
    assert given.take(100) == "cde"
    assert (first.offset, second.offset) == (3, 2)
    assert given.take(100) == ""
    assert given.posted == [one, two]


def test_the_position_follows_every_message() -> None:
    partition = state(P0)
    given = Given(fetched(partition, "abc"))
    source = given.collector.next_source()
    assert source is not None

    next(source.records)
    given.collector.update_position()

    assert partition.offset == 1


def test_data_of_an_old_position_is_not_returned() -> None:
    partition = state(P0)
    stale = fetched(partition, "abc")
    partition.go_to(10, -1)
    given = Given(stale, fetched(partition, "xyz", base_offset=10))

    assert given.take(100) == "xyz"
    assert given.posted[0] is stale


def test_paused_partitions_keep_their_data() -> None:
    first, second = state(P0), state(P1)
    given = Given(fetched(first, "abc"), fetched(second, "de"))
    first.is_paused = True

    assert given.take(100) == "de"
    first.is_paused = False
    given.collector.restore()
    assert given.take(100) == "abc"


def test_data_after_the_end_of_a_read_is_dropped_and_fetched_again() -> None:
    """It was kept, and the remains of many partitions filled the memory for good: a read did not end."""
    first, second = state(P0), state(P1)
    rest, later = fetched(first, "abc"), fetched(first, "xyz")
    given = Given(rest, fetched(second, "de"), later)
    assert given.take(1) == "a"

    first.is_parked = True
    assert given.take(100) == "de"

    assert given.posted[:2] == [rest, later]
    assert rest.is_cut
    assert later.is_cut
    assert first.offset == 1


def test_paused_sources_are_checked_once() -> None:
    """Each search for the next source went over all of them: quadratic in the number of partitions."""
    states = [state(TopicPartition("orders", index)) for index in range(100)]
    given = Given(*(fetched(each, "a") for each in states))
    for each in states[:50]:
        each.is_paused = True

    assert given.take(1) == "a"

    assert len(given.ready) == 49
    for each in states:
        each.is_paused = False
    given.collector.restore()
    assert given.take(1000) == "a" * 99


def test_dropped_partitions_return_nothing_more() -> None:
    partition = state(P0)
    given = Given(fetched(partition, "abc"))
    source = given.collector.next_source()
    assert source is not None
    iterator = iter(source.records)
    next(iterator)

    assert given.collector.drop([P1]) is None
    assert given.collector.drop([P0]) is partition

    assert list(iterator) == []
    assert partition.offset == 1
    assert given.posted == [source]


def test_after_an_exception_the_last_poll_does_not_count() -> None:
    first, second = state(P0), state(P1)
    given = Given(fetched(first, "abc"), fetched(second, "de"))
    given.take(1)
    given.take(100)

    given.collector.rewind_unconfirmed()

    assert (first.offset, second.offset) == (1, 0)


def test_after_an_exception_the_last_message_of_an_iteration_does_not_count() -> None:
    partition = state(P0)
    given = Given(fetched(partition, "abc"))
    source = given.collector.next_source()
    assert source is not None
    next(source.records)
    next(source.records)
    given.collector.update_position()

    given.collector.rewind_unconfirmed()

    assert partition.offset == 1


def test_processed_messages_count_after_an_exception() -> None:
    partition = state(P0)
    given = Given(fetched(partition, "abc"))
    source = given.collector.next_source()
    assert source is not None
    next(source.records)
    given.collector.next_source()  # it asked for more

    given.collector.rewind_unconfirmed()

    assert partition.offset == 1
