"""Arrow tables sent by a producer to a real broker, and read by consumers of any kind."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from harness.admin import create_topic, new_name
from harness.brokers import Broker
from penstock import Consumer, Producer, aio, errors

PAIRS = pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]))
ROWS = 100_000


def read(broker: Broker, topic: str, **options: object) -> pa.Table:
    with Consumer(topic, bootstrap_servers=broker.bootstrap, **options) as consumer:  # type: ignore[arg-type]
        return consumer.read(until="end").to_arrow()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_table_that_was_read_is_sent_and_read_unchanged(cluster: Broker, codec: str) -> None:
    first, second = (create_topic(cluster.bootstrap, "tables", partitions=3) for _ in range(2))
    table = pa.table(
        {
            "key": [None if row % 5 == 0 else b"key %d" % row for row in range(3000)],
            "value": [None if row % 7 == 0 else b"v" * (row % 50) for row in range(3000)],
            "headers": pa.array(
                [[] if row % 3 else [{"key": "row", "value": b"%d" % row}] for row in range(3000)], PAIRS
            ),
            "timestamp": pa.array(
                [1_700_000_000_000 + row for row in range(3000)], pa.timestamp("ms", "UTC")
            ),
        }
    )
    with Producer(cluster.bootstrap, compression_type=codec) as producer:
        counts = producer.send_arrow(table, topic=first).result(30)
        was_read = read(cluster, first)
        assert sum(counts.values()) == was_read.num_rows == 3000
        producer.send_arrow(was_read, topic=second).result(30)

    # The table has columns for the partition and everything else, so each row goes where it was.
    columns = ["partition", "offset", "timestamp", "key", "value", "headers"]
    order = [("partition", "ascending"), ("offset", "ascending")]
    assert read(cluster, second).select(columns).sort_by(order) == was_read.select(columns).sort_by(order)


def test_rows_with_a_key_go_to_the_same_partition_as_single_records(cluster: Broker) -> None:
    topic = create_topic(cluster.bootstrap, "keys", partitions=7)
    keys = [f"key {number}" for number in range(500)]
    with Producer(cluster.bootstrap) as producer:
        producer.send_arrow(pa.table({"key": keys, "value": keys}), topic=topic)
        single = {key: producer.send(topic, key, key=key) for key in keys}
        producer.flush()
        for row in read(cluster, topic).select(["partition", "key"]).to_pylist():
            assert row["partition"] == single[row["key"].decode()].partition


def test_a_small_buffer_is_filled_repeatedly(cluster: Broker) -> None:
    topic = create_topic(cluster.bootstrap, "slices", partitions=2)
    table = pa.table({"value": [b"%0100d" % row for row in range(ROWS)]})
    with Producer(cluster.bootstrap, buffer_memory=1_000_000, batch_size=100_000) as producer:
        assert sum(producer.send_arrow(table, topic=topic).result(60).values()) == ROWS

    assert sorted(read(cluster, topic).column("value").to_pylist()) == table.column("value").to_pylist()


def test_many_threads_send_tables_and_records_at_once(cluster: Broker) -> None:
    topic = create_topic(cluster.bootstrap, "threads", partitions=3)
    failures: list[BaseException] = []
    with Producer(cluster.bootstrap, batch_size=20_000, buffer_memory=500_000) as producer:

        def send(number: int) -> None:
            try:
                for turn in range(20):
                    if number % 2:
                        values = [f"{number}-{turn * 500 + row}" for row in range(500)]
                        receipt = producer.send_arrow(pa.table({"key": values, "value": values}), topic=topic)
                        assert sum(receipt.result(60).values()) == 500
                    else:
                        for row in range(500):
                            producer.send(topic, f"{number}-{turn * 500 + row}", key=f"{row}")
            except BaseException as failure:
                failures.append(failure)

        threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert failures == []
    values = read(cluster, topic).column("value").to_pylist()
    assert sorted(values) == sorted(f"{n}-{row}".encode() for n in range(4) for row in range(10_000))


def test_a_table_in_a_transaction_is_visible_as_a_whole_or_not_at_all(transaction_cluster: Broker) -> None:
    topic = create_topic(transaction_cluster.bootstrap, "tables-in-transactions", partitions=2)
    with Producer(transaction_cluster.bootstrap, transactional_id=new_name("writer")) as producer:
        for name, end in (("a", producer.commit), ("b", producer.abort), ("c", producer.commit)):
            producer.begin()
            producer.send_arrow(pa.table({"value": [name] * 1000}), topic=topic)
            end()

    values = read(transaction_cluster, topic, isolation_level="read_committed").column("value").to_pylist()
    assert sorted(values) == [b"a"] * 1000 + [b"c"] * 1000


async def test_the_asyncio_producer_sends_the_same(cluster: Broker) -> None:
    topic = create_topic(cluster.bootstrap, "async-tables", partitions=2)
    table = pa.table({"value": [b"%d" % row for row in range(ROWS)]})
    async with aio.Producer(cluster.bootstrap, batch_size=50_000, buffer_memory=400_000) as producer:
        receipt = await producer.send_arrow(table, topic=topic)
        assert sum((await receipt).values()) == receipt.count == ROWS

    assert sorted(map(int, read(cluster, topic).column("value").to_pylist())) == list(range(ROWS))


def test_rows_that_the_topic_rejects_are_named(cluster: Broker) -> None:
    topic = create_topic(cluster.bootstrap, "small", config={"max.message.bytes": "2000"})
    values = [b"x" * 100] * 20 + [b"y" * 5000] + [b"z" * 100] * 20
    with Producer(cluster.bootstrap) as producer:
        receipt = producer.send_arrow(pa.table({"value": values}), topic=topic)
        with pytest.raises(errors.MessageTooLarge, match=f"row 20, {topic}-0"):
            receipt.result(30)

    written = read(cluster, topic).column("value").to_pylist()
    assert sorted(written) == sorted(value for value in values if len(value) == 100)


def test_each_row_is_there_once_after_the_broker_was_killed_and_restarted(broker: Broker) -> None:
    topic = create_topic(broker.bootstrap, "killed", partitions=2)
    table = pa.table({"value": [b"%0100d" % row for row in range(ROWS)]})
    with Producer(broker.bootstrap, buffer_memory=1_000_000, batch_size=50_000) as producer:
        producer.send_arrow(table[:1000], topic=topic).result(30)

        def strike() -> None:
            broker.kill()
            broker.start()

        striking = threading.Thread(target=strike)
        striking.start()
        receipt = producer.send_arrow(table[1000:], topic=topic)
        striking.join()
        assert sum(receipt.result(60).values()) == ROWS - 1000

    assert sorted(read(broker, topic).column("value").to_pylist()) == table.column("value").to_pylist()
