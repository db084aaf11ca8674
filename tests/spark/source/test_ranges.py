"""What a task reads of one partition, and what the driver looks up before: on a real broker, without Spark."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

import pytest

from penstock import TopicPartition
from penstock.protocol.constants import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from penstock.spark import clients
from penstock.spark.columns import chosen
from penstock.spark.errors import DataLost
from penstock.spark.lookup import Lookup
from penstock.spark.options import Options, Use
from penstock.spark.plan import Range
from penstock.spark.reading import RangeReader
from penstock.spark.stream import PenstockStreamReader
from penstock.testing import Broker

ZERO = TopicPartition("orders", 0)


@pytest.fixture(autouse=True)
def no_client_stays_behind() -> Iterator[None]:
    yield
    clients.POOL.clear()


def options(broker: Broker, **said: str) -> Options:
    given = {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "subscribe": "orders",
        "fetchOffset.retryIntervalMs": "1",
        **{name.replace("__", "."): value for name, value in said.items()},
    }
    return Options.read(given, Use.STREAM_READ)


def send(broker: Broker, *values: bytes) -> None:
    with broker.producer() as producer:
        for value in values:
            producer.send("orders", value, partition=0)


def values(broker: Broker, start: int, end: int, **said: str) -> list[bytes]:
    reader = RangeReader(options(broker, **said), ("value",))
    batches = list(reader.read(Range(ZERO, start, end)))
    assert all(batch.num_rows for batch in batches)
    return [value for batch in batches for value in batch.column("value").to_pylist()]


def test_a_range_is_read_exactly_whatever_the_batch_boundaries(penstock: Broker) -> None:
    send(penstock, *(b"%d" % index for index in range(50)))
    send(penstock, *(b"%d" % index for index in range(50, 100)))

    assert values(penstock, 0, 100) == [b"%d" % index for index in range(100)]
    assert values(penstock, 37, 63) == [b"%d" % index for index in range(37, 63)]
    assert values(penstock, 99, 100) == [b"99"]


def test_a_pooled_client_does_not_keep_fetching(penstock: Broker) -> None:
    send(penstock, *[b"x"] * 10)

    assert values(penstock, 0, 5) == [b"x"] * 5

    with clients.consumer(options(penstock).settings) as kept:
        assert kept.paused() == kept.assignment() == {ZERO}


def test_batches_have_at_most_rows_per_batch(penstock: Broker) -> None:
    send(penstock, *[b"x"] * 100)
    reader = RangeReader(options(penstock, rowsPerBatch="30"), chosen(None, with_headers=True))

    assert [batch.num_rows for batch in reader.read(Range(ZERO, 0, 100))] == [25, 25, 25, 25]


def test_log_append_times_are_marked(penstock: Broker) -> None:
    with penstock.admin() as admin:
        admin.create_topic("orders", partitions=1, config={"message.timestamp.type": "LogAppendTime"})
    send(penstock, b"x")
    reader = RangeReader(options(penstock), ("timestampType",))

    assert [batch.to_pydict() for batch in reader.read(Range(ZERO, 0, 1))] == [{"timestampType": [1]}]


def test_read_committed_skips_aborted_records_and_ends_at_the_last_stable_offset(penstock: Broker) -> None:
    with penstock.producer(transactional_id="t") as producer:
        with producer.transaction():
            producer.send("orders", b"committed", partition=0)
        with contextlib.suppress(KeyError), producer.transaction():
            producer.send("orders", b"aborted", partition=0)
            producer.flush()
            raise KeyError
        with producer.transaction():
            producer.send("orders", b"open", partition=0)
            producer.flush()
            committed = Lookup(options(penstock, kafka__isolation__level="read_committed"))
            uncommitted = Lookup(options(penstock))

            (end,) = committed.list_offsets({ZERO: LATEST_TIMESTAMP}).values()

            assert uncommitted.list_offsets({ZERO: LATEST_TIMESTAMP}) == {ZERO: end + 1}
            assert values(penstock, 0, end, kafka__isolation__level="read_committed") == [b"committed"]
            assert values(penstock, 0, end + 1) == [b"committed", b"aborted", b"open"]
            # A range with only markers and aborted records is no loss.
            assert values(penstock, 1, end, kafka__isolation__level="read_committed") == []


def test_deleted_records_are_lost(penstock: Broker, caplog: pytest.LogCaptureFixture) -> None:
    send(penstock, b"a", b"b", b"c", b"d")
    with penstock.admin() as admin:
        admin.delete_records({ZERO: 2})

    with pytest.raises(
        DataLost, match=r"cannot read offsets \[1, 2\) of orders-0: the log starts at offset 2"
    ):
        values(penstock, 1, 4)
    with caplog.at_level(logging.WARNING, "penstock.spark"):
        assert values(penstock, 1, 4, failOnDataLoss="false") == [b"c", b"d"]
    assert "offsets [1, 2) of orders-0" in caplog.text
    assert values(penstock, 0, 2, failOnDataLoss="false") == []


def test_a_log_that_ends_too_early_is_a_loss(penstock: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.spark.reading.QUIET_S", 0.2)
    send(penstock, b"a", b"b")

    with pytest.raises(DataLost, match=r"cannot read offsets \[2, 5\) of orders-0: the log ends at offset 2"):
        values(penstock, 0, 5)
    assert values(penstock, 1, 5, failOnDataLoss="false") == [b"b"]
    assert values(penstock, 4, 5, failOnDataLoss="false") == []


def test_a_pooled_client_finds_new_partitions(penstock: Broker) -> None:
    send(penstock, b"a")
    assert values(penstock, 0, 1) == [b"a"]
    one = TopicPartition("orders", 1)
    with penstock.admin() as admin:
        admin.create_partitions({"orders": 2})
    with penstock.producer() as producer:
        producer.send("orders", b"b", partition=1)

    reader = RangeReader(options(penstock), ("value",))

    assert [batch.to_pydict() for batch in reader.read(Range(one, 0, 1))] == [{"value": [b"b"]}]


def test_a_read_waits_for_a_broker_that_becomes_unavailable(penstock: Broker) -> None:
    send(penstock, *(bytes(100_000) for _ in range(300)))  # more than the client fetches ahead
    reader = RangeReader(options(penstock), ("offset",))
    batches = reader.read(Range(ZERO, 0, 300))
    seen = next(batches).column("offset").to_pylist()

    penstock.kill()
    penstock.start()
    for batch in batches:
        seen += batch.column("offset").to_pylist()

    assert seen == list(range(300))


def test_the_average_size_of_records(penstock: Broker) -> None:
    send(penstock, *(bytes(1000) for _ in range(100)))
    lookup = Lookup(options(penstock))

    assert lookup.list_offsets({ZERO: EARLIEST_TIMESTAMP}) == {ZERO: 0}
    assert 1000 < lookup.mean_bytes({ZERO: 100})[ZERO] < 1100


def test_a_stream_waits_for_enough_rows_but_not_with_available_now(penstock: Broker) -> None:
    send(penstock, b"a")
    wanted = options(penstock, startingOffsets="earliest", minOffsetsPerTrigger="3", maxTriggerDelay="1h")
    stream = PenstockStreamReader(wanted, RangeReader(wanted, ("value",)), cores=2)
    first = stream.latestOffset(stream.initialOffset(), stream.getDefaultReadLimit())
    assert first["orders"] == {"0": 1}  # the first batch does not wait: its start time is unknown
    send(penstock, b"b", b"c")
    assert stream.latestOffset(first, stream.getDefaultReadLimit()) == first
    send(penstock, b"d")
    second = stream.latestOffset(first, stream.getDefaultReadLimit())
    assert second["orders"] == {"0": 4}
    send(penstock, b"e")
    stream.prepareForTriggerAvailableNow()
    assert stream.latestOffset(second, stream.getDefaultReadLimit())["orders"] == {"0": 5}
