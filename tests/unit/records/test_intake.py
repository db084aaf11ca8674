"""From `send` into a batch."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.records import batches as reference
from penstock.records.batch import Record
from penstock.records.producing import Intake, Sending, TopicQueues, largest_size, murmur2
from strategies.records import BLOBS, HEADERS


class Host:
    """Records its calls; chooses partitions in turn."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.otherwise: list[Any] = []
        self.chosen = 0

    def send_otherwise(self, *arguments: Any) -> Any:
        self.otherwise.append(arguments)
        return None

    def choose(self, topic: Any) -> Any:
        self.chosen += 1
        return topic.queues[(self.chosen - 1) % len(topic.queues)]

    def opened(self) -> None:
        self.calls.append("opened")

    def filled(self) -> None:
        self.calls.append("filled")

    def serialization_failed(self, error: Exception, topic: str, value: object, is_key: bool) -> Exception:
        return LookupError(f"{topic} {value} {is_key} {error}")


def intake(host: Host, **changed: Any) -> Any:
    settings = {
        "batch_bytes_max": 300,
        "buffer_bytes": 10_000,
        "record_bytes_max": 1_000,
        "now_ms": lambda: 5,
        "wall_ms": lambda: 1000,
    }
    made = Intake(host, **{**settings, **changed})  # type: ignore[arg-type]
    made.topics["orders"] = TopicQueues("orders", 4)
    return made


def records_of(batch: Any) -> list[Any]:
    return [tuple(record) for record in reference.iterate_records(bytes(batch.seal()))]


@pytest.fixture
def host() -> Host:
    return Host()


def test_bytes_and_text_are_accepted(host: Host) -> None:
    made = intake(host)
    made.send("orders", "väl", key=b"k", headers={"a": "x", "b": None}, partition=2, timestamp_ms=7)
    made.send("orders", partition=2, headers=[("c", bytearray(b"y"))])
    queue = made.topics["orders"].queues[2]

    assert host.calls == ["opened"]
    assert queue.open.created_ms == 5
    assert records_of(queue.take()) == [
        (0, 7, b"k", "väl".encode(), (("a", b"x"), ("b", None))),
        (1, 1000, None, None, (("c", b"y"),)),
    ]
    assert queue.open is None


@given(st.binary(max_size=20), st.booleans())
@settings(max_examples=50, deadline=None)
def test_keys_choose_the_partition_as_in_kafka(key: bytes, ignores_keys: bool) -> None:
    receipt = intake(Host(), ignores_keys=ignores_keys).send("orders", b"v", key=key)

    assert receipt.partition == (0 if ignores_keys else (murmur2(key) & 0x7FFFFFFF) % 4)


def test_records_without_key_stay_until_a_batch_is_full(host: Host) -> None:
    made = intake(host)
    partitions = [made.send("orders", b"v" * 60).partition for _ in range(16)]

    # Three fit a batch; at its end the partition changes.
    assert partitions == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 0, 0, 0, 1]
    assert [len(queue.closed) for queue in made.topics["orders"].queues] == [2, 1, 1, 1]
    assert host.calls == ["opened"] + ["filled"] * 5


def test_records_without_key_move_on_after_a_batchs_worth_in_small_batches(host: Host) -> None:
    made = intake(host)
    partitions = []
    for _ in range(8):
        receipt = made.send("orders", b"v" * 60)
        partitions.append(receipt.partition)
        made.topics["orders"].queues[receipt.partition].take()

    assert partitions == [0, 0, 0, 1, 1, 1, 2, 2]


def test_a_batch_that_is_full_is_closed_and_the_next_one_opened(host: Host) -> None:
    made = intake(host)
    for _ in range(4):
        made.send("orders", b"v" * 60, partition=1)
    queue = made.topics["orders"].queues[1]

    assert host.calls == ["opened", "filled"]
    assert [batch.record_count for batch in queue.closed] == [3]
    assert queue.open.record_count == 1
    queue.close_open()
    queue.close_open()
    assert [batch.record_count for batch in queue.closed] == [3, 1]


def test_a_record_larger_than_a_batch_has_one_of_its_own(host: Host) -> None:
    made = intake(host)
    for size in (10, 800, 10):
        made.send("orders", b"v" * size, partition=1)
    queue = made.topics["orders"].queues[1]

    assert [batch.record_count for batch in [*queue.closed, queue.open]] == [1, 1, 1]


def test_unusual_cases_are_left_to_the_host(host: Host) -> None:
    made = intake(host)
    odd = [
        {"topic": "unknown", "value": b"v"},
        {"topic": b"orders", "value": b"v"},
        {"topic": "orders", "value": 5},
        {"topic": "orders", "value": bytearray(b"v")},
        {"topic": "orders", "value": b"v", "key": 5},
        {"topic": "orders", "value": "\ud800"},
        {"topic": "orders", "value": b"v", "partition": 4},
        {"topic": "orders", "value": b"v", "partition": -1},
        {"topic": "orders", "value": b"v", "partition": "0"},
        {"topic": "orders", "value": b"v" * 1000},
    ]
    for each in odd:
        assert made.send(**each) is None
    made.is_plain = False
    made.send("orders", b"v")

    assert [call[0] for call in host.otherwise] == [each["topic"] for each in odd] + ["orders"]
    assert host.otherwise[2] == ("orders", 5, None, None, None, None)


def test_buffer_memory_is_reserved_and_released(host: Host) -> None:
    made = intake(host, buffer_bytes=600)
    while made.send("orders", b"v" * 60, partition=0) is not None:
        pass
    queue = made.topics["orders"].queues[0]
    assert len(host.otherwise) == 1
    left = made.available_bytes
    batch = queue.closed.popleft()
    size = batch.charged_bytes
    assert size == batch.size_bytes
    batch.complete(0)
    made.give_back(batch)
    made.give_back(batch)

    assert made.available_bytes == left + size
    assert made.send("orders", b"v" * 60, partition=0) is not None


def test_buffers_are_reused_only_when_nothing_refers_to_them(host: Host) -> None:
    made = intake(host)
    kept = []
    for number in range(6):
        made.send("orders", bytes([number]) * 200, partition=0)
        batch = made.topics["orders"].queues[0].take()
        sealed = batch.seal()
        if number % 2:
            kept.append((number, sealed))
        del sealed
        batch.complete(0)
        made.give_back(batch)

    for number, sealed in kept:
        assert next(iter(reference.iterate_records(bytes(sealed)))).value == bytes([number]) * 200


def test_queues_are_reported_once_until_they_are_empty(host: Host) -> None:
    made = intake(host)
    for partition in (2, 1, 2):
        made.send("orders", b"v", partition=partition)
    queues = made.topics["orders"].queues

    assert made.take_news() == [queues[2], queues[1]]
    made.send("orders", b"v", partition=2)
    assert made.take_news() == []
    assert not queues[2].forget()
    queues[2].take()
    assert queues[2].forget()
    made.send("orders", b"v", partition=2)
    assert made.take_news() == [queues[2]]


def test_serializers_are_called_and_their_errors_are_reported(host: Host) -> None:
    made = intake(host)
    made.topics["typed"] = TopicQueues("typed", 1, lambda key: None, lambda value: value.upper())
    made.send("typed", "a", key=1)
    made.send("typed", None)

    assert [record[2:4] for record in records_of(made.topics["typed"].queues[0].take())] == [
        (None, b"A"),
        (None, None),
    ]
    with pytest.raises(LookupError, match="typed 5 False 'int' object"):
        made.send("typed", 5)


def test_the_slow_path_appends_to_the_given_partition(host: Host) -> None:
    made = intake(host)
    topic = made.topics["orders"]
    made.append(topic, 3, None, None, memoryview(b"v"), [("h", b"1")])
    made.append(topic, -1, 9, b"k", b"w", None)

    assert records_of(topic.queues[3].take()) == [(0, 1000, None, b"v", (("h", b"1"),))]
    assert records_of(topic.queues[0].take()) == [(0, 9, b"k", b"w", ())]


def test_a_topic_grows() -> None:
    topic = TopicQueues("orders", 1)
    first = topic.queues[0]
    topic.grow(3)
    topic.grow(2)

    assert [queue.partition for queue in topic.queues] == [0, 1, 2]
    assert topic.queues[0] is first


def test_a_producers_send_is_the_intakes(host: Host) -> None:
    class Producer(Sending):
        def __init__(self) -> None:
            self._begin_sending(intake(host))

    assert Producer().send("orders", b"v", key="k", headers={}, timestamp_ms=1).topic == "orders"
    with pytest.raises(TypeError):
        Producer().send("orders", b"v", b"k")


def test_a_producer_without_init_raises_and_does_not_crash() -> None:
    class Producer(Sending):
        def __init__(self) -> None:
            """Does not call its base class."""

    with pytest.raises(TypeError, match="super"):
        Producer().send("orders", b"v")


@pytest.mark.parametrize("partition", [2**31, 2**63, -(2**40)])
def test_a_huge_partition_number_is_left_to_the_host(host: Host, partition: int) -> None:
    intake(host).send("orders", b"v", partition=partition)

    assert host.otherwise == [("orders", b"v", None, None, partition, None)]


@pytest.mark.parametrize("value", [b"fits", b"x" * 2000], ids=["bad header", "no room"])
def test_headers_of_a_generator_are_not_lost_on_the_slow_path(host: Host, value: bytes) -> None:
    pairs: list[Any] = [("a", b"1"), ("b", 5 if value == b"fits" else b"2")]

    intake(host).send("orders", value, headers=(pair for pair in pairs))

    assert host.otherwise == [("orders", value, None, pairs, None, None)]


def test_subclasses_of_bytes_are_bytes(host: Host) -> None:
    class Content(bytes):
        pass

    made = intake(host)
    made.append(made.topics["orders"], 0, 7, Content(b"k"), Content(b"v"), [("h", Content(b"c"))])

    assert records_of(made.topics["orders"].queues[0].take()) == [(0, 7, b"k", b"v", (("h", b"c"),))]


def test_a_send_overtaken_by_close_appends_nothing(host: Host) -> None:
    """The record was appended after the last check of the queues, and its receipt was never completed."""
    made = intake(host)

    def serialize(value: str) -> bytes:
        made.is_plain = made.is_open = False
        return value.encode()

    made.topics["orders"].serialize_value = serialize

    made.send("orders", "v", partition=1)
    assert made.append(made.topics["orders"], 1, 7, None, b"v", None) is None

    assert host.otherwise == [("orders", "v", None, None, 1, None)]
    assert made.take_news() == []


def test_threads_lose_and_repeat_no_record(host: Host) -> None:
    made = intake(host, buffer_bytes=1 << 30)
    per_thread, senders = 2_000, 3
    done: list[Any] = []
    is_over = threading.Event()

    def send(number: int) -> None:
        for count in range(per_thread):
            made.send("orders", f"{number}:{count}", partition=0)

    def drain() -> None:
        queue = made.topics["orders"].queues[0]
        while True:
            is_last = is_over.is_set()
            if (batch := queue.take()) is not None:
                done.append(batch)
            elif is_last:
                return

    threads = [threading.Thread(target=send, args=(number,)) for number in range(senders)]
    drainer = threading.Thread(target=drain)
    for thread in [*threads, drainer]:
        thread.start()
    for thread in threads:
        thread.join()
    is_over.set()
    drainer.join()

    values = [record[3] for batch in done for record in records_of(batch)]
    by_sender = {number: [] for number in range(senders)}  # type: dict[int, list[int]]
    for value in values:
        sender, count = value.decode().split(":")
        by_sender[int(sender)].append(int(count))
    assert by_sender == {number: list(range(per_thread)) for number in range(senders)}


@given(BLOBS, BLOBS, HEADERS)
@settings(max_examples=100, deadline=None)
def test_no_record_takes_more_than_its_largest_size(
    key: bytes | None, value: bytes | None, headers: tuple[tuple[str, bytes | None], ...]
) -> None:
    first = Record(0, 0, None, None)
    largest_deltas = Record(2**31 - 1, -(2**63), key, value, headers)
    size = len(reference.build_batch([first, largest_deltas])) - len(reference.build_batch([first]))

    slack = largest_size(key, value, list(headers)) - size

    assert (
        0 <= slack <= 12
    )  # the lengths of the record, the key and the value take 5 bytes at most, 1 at least
