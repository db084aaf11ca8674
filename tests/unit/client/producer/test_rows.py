"""Arrow tables sent to a scripted cluster: accepted columns, rejected rows, and the receipt."""

from __future__ import annotations

import asyncio
from typing import Any

import pandas
import pyarrow as pa
import pytest

from harness.scripted_cluster import NOTHING, Led, ScriptedCluster
from harness.scripted_log import ScriptedLogs
from penstock import Partitioner, ProducerInterceptor, errors
from penstock.aio import Producer
from penstock.client.producer.arrow_rows import batches_of, rows_of
from penstock.client.producer.interceptors import OutgoingRecord
from penstock.protocol.apis import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest
from penstock.protocol.messages.produce import BatchIndexAndErrorMessage, ProduceRequest
from penstock.records.table_rows import iterate_rows

PAIRS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))


# Columns


def read(table: dict[str, Any], topic: str | None = "orders") -> list[dict[str, Any]]:
    """What the kernel would see."""
    taken = rows_of(pa.RecordBatch.from_pydict(table), topic)
    found = []
    for row in iterate_rows(taken.rows):
        fields = {name: value for name, value in row._asdict().items() if value is not None}
        if "topic" in fields:
            fields["topic"] = taken.topics[fields["topic"]]
        found.append(fields)
    return found


@pytest.mark.parametrize(
    "kind",
    [
        pa.binary(),
        pa.large_binary(),
        pa.string(),
        pa.large_string(),
        pa.binary_view(),
        pa.string_view(),
        pa.binary(1),
        pa.dictionary(pa.int8(), pa.string()),
    ],
    ids=str,
)
def test_bytes_and_text_of_every_arrow_type(kind: pa.DataType) -> None:
    column = pa.array(["x", None, "y", "x"]).cast(pa.binary())
    column = pa.array(["x", None, "y", "x"], kind) if "string" in str(kind) else column.cast(kind)
    assert read({"value": column[1:]}) == [{}, {"value": b"y"}, {"value": b"x"}]


def test_a_column_of_nulls_has_no_values() -> None:
    nulls = pa.nulls(2)
    assert read({"value": nulls, "key": nulls, "headers": nulls, "partition": nulls, "timestamp": nulls}) == [
        {},
        {},
    ]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_of_every_unit_are_milliseconds(unit: str) -> None:
    times = pa.array([2, None], pa.timestamp("s", "UTC")).cast(pa.timestamp(unit, "UTC"))
    assert read({"value": [b"", b""], "timestamp": times}) == [
        {"value": b"", "timestamp_ms": 2000},
        {"value": b""},
    ]


def test_integers_are_milliseconds_or_partitions() -> None:
    assert read({"value": [b""], "timestamp": [7], "partition": pa.array([3], pa.uint8())}) == [
        {"value": b"", "timestamp_ms": 7, "partition": 3}
    ]


@pytest.mark.parametrize(
    "kind",
    [PAIRS, pa.large_list(PAIRS.value_type), pa.map_(pa.string(), pa.binary())],
    ids=["list", "large list", "map"],
)
def test_headers_are_lists_of_pairs_or_maps(kind: pa.DataType) -> None:
    rows: list[Any] = [[("a", b"1"), ("b", None)], None, [], [("c", b"")]]
    if not pa.types.is_map(kind):
        rows = [None if row is None else [{"key": k, "value": v} for k, v in row] for row in rows]
    column = pa.array(rows, kind)
    assert read({"value": pa.nulls(4), "headers": column}) == [
        {"headers": [("a", b"1"), ("b", None)]},
        {},
        {"headers": []},
        {"headers": [("c", b"")]},
    ]
    assert read({"value": pa.nulls(2), "headers": column[2:]}) == [
        {"headers": []},
        {"headers": [("c", b"")]},
    ]


@pytest.mark.parametrize("is_dictionary", [True, False])
def test_the_topic_argument_overrides_the_column(is_dictionary: bool) -> None:
    column = pa.array(["x", "orders", "parts", "orders"])[1:]
    topics = column.dictionary_encode() if is_dictionary else column
    assert [row["topic"] for row in read({"value": pa.nulls(3), "topic": topics}, None)] == [
        "orders",
        "parts",
        "orders",
    ]
    assert read({"value": pa.nulls(3), "topic": topics}, "other") == [{}, {}, {}]


def test_columns_of_a_log_are_ignored() -> None:
    assert read({"value": [b"v"], "offset": [5], "timestampType": [0], "timestamp_type": [0]}) == [
        {"value": b"v"}
    ]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"vlaue": [b""]}, "unknown column vlaue; the columns of records are topic, key, value"),
        ({"key": [b""]}, "column value is missing"),
        ({"value": [5]}, "column value must be bytes or text, not int64"),
        ({"value": [b""], "topic": [1]}, "column topic must be text, not int64"),
        ({"value": [b""], "partition": [1.5]}, "column partition must be integers, not double"),
        ({"value": [b""], "partition": [2**40]}, "column partition must be partition numbers, not int64"),
        (
            {"value": [b""], "timestamp": ["x"]},
            "column timestamp must be timestamps, or int64 in milliseconds",
        ),
        ({"value": [b""], "headers": [b""]}, "column headers must be a list of structs of key and value"),
        ({"value": [b""], "headers": [[b""]]}, "column headers must be a list of structs"),
        ({"value": [b""], "headers": [[{"key": b"", "value": b""}]]}, "whose key is text"),
    ],
)
def test_unknown_columns_are_rejected_by_name(table: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.BadArgument, match=message):
        read(table, None if "topic" in table else "orders")


def test_rows_without_a_topic_are_rejected() -> None:
    with pytest.raises(errors.BadArgument, match="no topic"):
        read({"value": [b""]}, None)


def test_tables_of_other_libraries_are_accepted() -> None:
    frame = pandas.DataFrame({"key": ["a", "b"], "value": ["x", None], "partition": [1, 0]})
    (batch,) = batches_of(frame)
    assert [row._asdict() for row in iterate_rows(rows_of(batch, "orders").rows)] == [
        {"topic": None, "key": b"a", "value": b"x", "headers": None, "partition": 1, "timestamp_ms": None},
        {"topic": None, "key": b"b", "value": None, "headers": None, "partition": 0, "timestamp_ms": None},
    ]


# Sending


class World(ScriptedCluster):
    def __init__(self) -> None:
        super().__init__(node_ids=(1, 2))
        self.logs = ScriptedLogs()
        for topic in ("orders", "parts"):
            self.topics[topic] = {index: Led(leader=1, epoch=1) for index in range(2)}
        self.versions[ApiKey.PRODUCE] = (3, 12)
        self.answer(ProduceRequest, self.logs.produce)
        self.answer(InitProducerIdRequest, self.logs.init_producer_id)

    def with_producer(self, test: Any, **settings: Any) -> None:
        async def main() -> None:
            async with Producer(
                self.bootstrap, network=self.network, clock=self.clock, **settings
            ) as producer:
                await test(producer)

        try:
            self.run(main)
        finally:
            self.loop.close()


@pytest.fixture
def world() -> World:
    return World()


def table(count: int, **columns: Any) -> pa.Table:
    return pa.table({"value": [f"{number}" for number in range(count)], **columns})


def test_one_receipt_counts_the_rows_of_each_partition(world: World) -> None:
    async def test(producer: Producer) -> None:
        rows = table(6, topic=["orders", "parts"] * 3, partition=[0, 1, 1, 1, 0, 0])
        receipt = await producer.send_arrow(pa.concat_tables([rows[:2], rows[2:]]))
        assert (receipt.count, receipt.done(), repr(receipt)) == (
            6,
            False,
            "<RowsReceipt of 6 rows, pending>",
        )
        assert await receipt == {("orders", 0): 2, ("orders", 1): 1, ("parts", 0): 1, ("parts", 1): 2}
        assert (receipt.done(), receipt.exception()) == (True, None)
        assert await (await producer.send_arrow(rows[:0])) == {}

    world.with_producer(test, serializer="json")
    assert world.logs["orders", 0].values == ["0", "4"]
    assert world.logs["parts", 1].values == ["1", "3"]


@pytest.mark.parametrize("codec", ["none", "gzip", "zstd"])
def test_many_rows_wait_for_buffer_space_in_turns(world: World, codec: str) -> None:
    async def test(producer: Producer) -> None:
        receipt = await producer.send_arrow(table(5000), topic="orders")
        await producer.flush()
        assert sum(receipt.result().values()) == 5000

    world.with_producer(test, buffer_memory=20_000, batch_size=2_000, compression_type=codec)
    values = world.logs["orders", 0].values + world.logs["orders", 1].values
    assert sorted(map(int, values)) == list(range(5000))


def test_a_buffer_that_stays_full_is_reported(world: World) -> None:
    world.answer(ProduceRequest, lambda request, node: NOTHING)

    async def test(producer: Producer) -> None:
        with pytest.raises(errors.BufferFull):
            await producer.send_arrow(table(5000), topic="orders")
        with pytest.raises(errors.PenstockError):
            await producer.close(0)

    world.with_producer(test, buffer_memory=20_000, batch_size=2_000, max_block_ms=100)


def test_nothing_is_sent_if_one_row_is_invalid(world: World) -> None:
    async def test(producer: Producer) -> None:
        rows = pa.concat_tables([table(3), pa.table({"value": ["x", "y" * 3000]})])
        with pytest.raises(errors.RecordTooLarge, match=r"row 4: a record of 3093 bytes .* is 2000"):
            await producer.send_arrow(rows, topic="orders")
        with pytest.raises(errors.BadArgument, match="row 2: its topic has no such partition"):
            await producer.send_arrow(table(3, partition=[0, 1, 2]), topic="orders")
        with pytest.raises(errors.BadArgument, match="dict is not"):
            await producer.send_arrow({"value": [b""]}, topic="orders")
        with pytest.raises(errors.BadArgument, match="topic must be a string"):
            await producer.send_arrow(table(1), topic=b"orders")  # type: ignore[arg-type]

    world.with_producer(test, max_request_size=2000)
    assert world.logs["orders", 0].values == world.logs["orders", 1].values == []


def test_a_rejected_batch_names_its_first_row(world: World) -> None:
    world.topics["orders"][1] = Led(leader=2, epoch=1)

    def refuse(request: Any, node: Any) -> Any:
        if node.id == 2:
            return world.logs.refuse(request, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return world.logs.produce(request, node)

    world.answer(ProduceRequest, refuse)

    async def test(producer: Producer) -> None:
        receipt = await producer.send_arrow(table(4, partition=[0, 0, 1, 1]), topic="orders")
        with pytest.raises(errors.TopicAuthorizationFailed, match="row 2, orders-1: ") as result:
            await receipt
        assert receipt.exception().args == result.value.args  # type: ignore[union-attr]
        await producer.flush()  # nothing new to report

        await producer.send_arrow(table(1, partition=[1]), topic="orders")
        with pytest.raises(errors.TopicAuthorizationFailed, match="orders-1"):
            await producer.flush()

    world.with_producer(test)


def test_a_bad_record_is_the_one_that_is_named(world: World) -> None:
    def refuse(request: Any, node: Any) -> Any:
        response = world.logs.refuse(request, ErrorCode.INVALID_RECORD)
        (partition,) = response.responses[0].partition_responses
        partition.record_errors = [
            BatchIndexAndErrorMessage(batch_index=2, batch_index_error_message="not so")
        ]
        return response

    world.answer(ProduceRequest, refuse)

    async def test(producer: Producer) -> None:
        receipt = await producer.send_arrow(table(4, partition=[0] * 4), topic="orders")
        with pytest.raises(errors.InvalidRecord, match=r"row 2, orders-0: .*not so"):
            await receipt

    world.with_producer(test)


def test_all_rows_of_a_split_batch_are_counted(world: World) -> None:
    world.logs["orders", 0].batch_bytes_max = 300

    async def test(producer: Producer) -> None:
        await producer.send("orders", "before", partition=0)
        receipt = await producer.send_arrow(table(200, partition=[0] * 200), topic="orders")
        await producer.send("orders", "after", partition=0)
        assert await receipt == {("orders", 0): 200}

    world.with_producer(test)
    assert world.logs["orders", 0].values == ["before", *map(str, range(200)), "after"]
    assert len(world.logs["orders", 0].headers) > 2


def test_interceptors_see_every_row_and_may_change_it(world: World) -> None:
    seen: list[Any] = []

    class Doubling(ProducerInterceptor):
        def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
            seen.append(record)
            return OutgoingRecord(record.topic, record.value * 2, record.key, record.headers, 1, 5)

        def on_acknowledgement(self, delivery: Any, error: Exception | None) -> None:
            seen.append(delivery)

    async def test(producer: Producer) -> None:
        rows = table(
            3,
            headers=pa.array([None, [], [{"key": "a", "value": b"1"}]], PAIRS),
            timestamp=pa.array([1, None, 2], pa.timestamp("s")),
        )
        receipt = await producer.send_arrow(rows, topic="orders")
        assert await receipt == {("orders", 1): 3}

    world.with_producer(test, interceptor_classes=[Doubling()], serializer="json", buffer_memory=150)
    assert world.logs["orders", 1].values == ["00", "11", "22"]
    records = [each for each in seen if isinstance(each, OutgoingRecord)]
    assert [record.timestamp_ms for record in records] == [1000, None, 2000]
    assert records[2].headers == [("a", b"1")]
    assert len(seen) == 6


def test_a_custom_partitioner_is_called_for_every_row(world: World) -> None:
    async def test(producer: Producer) -> None:
        receipt = await producer.send_arrow(table(5, partition=[None, None, None, 0, None]), topic="orders")
        assert await receipt == {("orders", 0): 4, ("orders", 1): 1}

    class ByOddness(Partitioner):
        def partition(self, topic: str, key: bytes | None, value: bytes | None, *rest: Any) -> int:
            return int(value or b"") % 2

    world.with_producer(test, partitioner_class=ByOddness())
    assert world.logs["orders", 1].values == ["1"]


def test_tables_are_sent_only_inside_a_transaction_if_transactional(world: World) -> None:
    async def test(producer: Producer) -> None:
        with pytest.raises(errors.IllegalState, match=r"transactional\.id"):
            await producer.send_arrow(table(1), topic="orders")

    world.with_producer(test, transactional_id="writer")


def test_an_unknown_topic_is_reported(world: World) -> None:
    async def test(producer: Producer) -> None:
        with pytest.raises(errors.UnknownTopicOrPartition, match="nowhere"):
            await producer.send_arrow(table(1), topic="nowhere")

    world.with_producer(test)


def test_other_tasks_run_between_full_batches(world: World) -> None:
    turns: list[int] = []

    async def test(producer: Producer) -> None:
        await producer.send_arrow(table(1), topic="orders")

        async def count() -> None:
            while True:
                turns.append(1)
                await asyncio.sleep(0)

        other = asyncio.create_task(count())
        await producer.send_arrow(table(2000), topic="orders")
        other.cancel()

    world.with_producer(test, batch_size=2_000)
    assert len(turns) >= 10
