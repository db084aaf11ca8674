"""Producers on a scripted cluster, in virtual time: what is sent, retried, failed and reported."""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from harness.scripted_cluster import HANG_UP, NOTHING, Led, ScriptedCluster
from harness.scripted_log import ScriptedLogs
from penstock import errors
from penstock.aio import Producer
from penstock.client.producer.produce_requests import SINGLE_VERSION, TOPIC_ID_VERSION
from penstock.protocol.apis import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    ProduceRequest,
)
from penstock.protocol.types import Uuid
from penstock.records.batch import Compression

Test = Callable[[Producer], Coroutine[Any, Any, None]]


class World(ScriptedCluster):
    """With `has_topic_ids` Produce has its newest version, in which a single batch is sent without the codec."""

    def __init__(self, *, has_topic_ids: bool = True, **options: Any) -> None:
        super().__init__(**options)
        self.logs = ScriptedLogs()
        first = next(iter(self.nodes))
        self.topics["orders"] = {index: Led(leader=first, epoch=1) for index in range(2)}
        self.versions[ApiKey.PRODUCE] = (3, SINGLE_VERSION if has_topic_ids else TOPIC_ID_VERSION - 1)
        if has_topic_ids:
            self.topic_ids["orders"] = Uuid(bytes(range(16)))
        self.answer(ProduceRequest, self.logs.produce)
        self.answer(InitProducerIdRequest, self.logs.init_producer_id)

    def script_of(self, request: Any) -> Any:
        """Scripts know topics by name, also if the request and its response have ids."""
        script = super().script_of(request)
        if not isinstance(request, ProduceRequest):
            return script
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        for topic in request.topic_data:
            topic.name = topic.name or names[topic.topic_id]

        def with_ids(response: Any) -> Any:
            for topic in getattr(response, "responses", ()):
                topic.topic_id = self.topic_ids.get(topic.name, topic.topic_id)
            return response

        async def later(answer: Any) -> Any:
            return with_ids(await answer)

        def answer(request: Any, node: Any) -> Any:
            response = script(request, node)
            return later(response) if inspect.isawaitable(response) else with_ids(response)

        return answer

    def with_producer(self, test: Test, **settings: Any) -> None:
        async def main() -> None:
            bystanders = asyncio.all_tasks()
            producer = Producer(self.bootstrap, network=self.network, clock=self.clock, **settings)
            try:
                await test(producer)
            finally:
                await producer.close()
            mine = [each for each in asyncio.all_tasks() - bystanders if "_Served" not in repr(each)]
            assert mine == [], "a task was left behind"

        try:
            self.run(main)
        finally:
            self.loop.close()

    def produced(self) -> list[ProduceRequest]:
        return [request for node in self.nodes.values() for request in node.asked_for(ProduceRequest)]

    def before_produce(self, script: Callable[[int, Any], Any]) -> None:
        """`script(count, request)` returns a response, or None to let the log respond."""
        count = 0

        def answer(request: Any, node: Any) -> Any:
            nonlocal count
            count += 1
            found = script(count, request)
            return self.logs.produce(request, node) if found is None else found

        self.answer(ProduceRequest, answer)


@pytest.fixture(params=[True, False], ids=["topic-ids", "topic-names"])
def world(request: pytest.FixtureRequest) -> World:
    return World(has_topic_ids=request.param)


def test_records_sent_together_share_one_request_with_one_batch_per_partition(world: World) -> None:
    async def test(producer: Producer) -> None:
        receipts = [await producer.send("orders", str(number), partition=number % 2) for number in range(10)]
        deliveries = [await receipt for receipt in receipts]
        assert [(each.partition, each.offset) for each in deliveries] == [(n % 2, n // 2) for n in range(10)]

    world.with_producer(test)
    assert len(world.produced()) == 1
    assert world.logs["orders", 1].values == ["1", "3", "5", "7", "9"]


def test_a_batch_lingers_only_for_linger_ms(world: World) -> None:
    async def test(producer: Producer) -> None:
        await (await producer.send("orders", "warm", partition=0))
        began = world.loop.time()
        first = await producer.send("orders", "a", partition=0)
        await asyncio.sleep(0.03)
        await producer.send("orders", "b", partition=0)
        await first
        assert 0.05 <= world.loop.time() - began < 0.06

    world.with_producer(test, linger_ms=50)
    assert [header.record_count for header in world.logs["orders", 0].headers] == [1, 2]


def test_flush_ends_lingering(world: World) -> None:
    async def test(producer: Producer) -> None:
        receipt = await producer.send("orders", "a")
        await producer.flush()
        assert receipt.done()
        assert world.loop.time() < 10

    world.with_producer(test, linger_ms=60_000, delivery_timeout_ms=120_000)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_are_compressed_as_configured(world: World, codec: Any) -> None:
    async def test(producer: Producer) -> None:
        for _ in range(100):
            await producer.send("orders", "the same again and again", partition=0, headers={"h": b"1"})

    world.with_producer(test, compression_type=codec)
    assert world.logs["orders", 0].values == ["the same again and again"] * 100
    assert world.logs["orders", 0].headers[0].compression is Compression[codec.upper()]


def test_full_batches_are_sent_at_once_up_to_five_in_flight(world: World) -> None:
    held: list[asyncio.Event] = []

    def script(count: int, request: Any) -> Any:
        return None

    async def test(producer: Producer) -> None:
        await (await producer.send("orders", "warm", partition=0))
        gate = asyncio.Event()
        held.append(gate)

        async def late(request: Any, node: Any) -> Any:
            await gate.wait()
            return world.logs.produce(request, node)

        world.answer(ProduceRequest, late)
        for number in range(100):
            await producer.send("orders", f"{number:08}" * 10, partition=0)
        await asyncio.sleep(1)
        assert producer._core.client.in_flight(1) == 5
        gate.set()
        await producer.flush()

    world.before_produce(script)
    world.with_producer(test, batch_size=500, linger_ms=0)
    assert world.logs["orders", 0].values[1:] == [f"{number:08}" * 10 for number in range(100)]


def test_a_lost_response_does_not_write_twice(world: World) -> None:
    def script(count: int, request: Any) -> Any:
        if count == 2:
            world.logs.produce(request, None)
            return HANG_UP
        return None

    async def test(producer: Producer) -> None:
        for number in range(5):
            receipt = await producer.send("orders", str(number), partition=0)
            assert (await receipt).offset == number

    world.before_produce(script)
    world.with_producer(test)
    assert world.logs["orders", 0].values == list("01234")


@pytest.mark.parametrize("seed", range(40))
def test_after_any_loss_everything_is_written_once_and_in_order(seed: int) -> None:
    """Requests and responses get lost, leaders move, brokers are slow: with five requests in flight."""
    world = World(node_ids=(1, 2), seed=seed)
    rng = random.Random(seed)
    is_over = False

    def script(request: Any, node: Any) -> Any:
        if is_over or rng.random() < 0.6:
            answer = world.logs.produce(request, node)
            if not is_over and rng.random() < 0.2:
                return late(answer, rng.random() * 40)
            return answer
        match rng.randrange(4):
            case 0:
                return HANG_UP
            case 1:
                world.logs.produce(request, node)
                return HANG_UP
            case 2:
                index = rng.randrange(2)
                world.topics["orders"][index] = Led(
                    leader=rng.choice((1, 2)), epoch=world.topics["orders"][index].epoch + 1
                )
                return world.logs.refuse(request, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            case _:
                world.logs.produce(request, node)
                return world.logs.refuse(request, ErrorCode.REQUEST_TIMED_OUT)

    async def late(answer: Any, seconds: float) -> Any:
        await asyncio.sleep(seconds)
        return answer

    async def test(producer: Producer) -> None:
        nonlocal is_over
        receipts = []
        for number in range(200):
            receipts.append(await producer.send("orders", str(number), partition=number % 2))
            if rng.random() < 0.1:
                await asyncio.sleep(rng.random())
        await asyncio.sleep(60)
        is_over = True
        await producer.flush()
        for number, receipt in enumerate(receipts):
            assert (await receipt).offset == number // 2

    world.answer(ProduceRequest, script)
    world.with_producer(test, batch_size=120, linger_ms=0, delivery_timeout_ms=3_600_000)
    for partition in range(2):
        assert world.logs["orders", partition].values == [str(n) for n in range(partition, 200, 2)]


def test_new_leaders_in_a_response_are_used_at_once() -> None:
    world = World(node_ids=(1, 2))

    def script(request: Any, node: Any) -> Any:
        if node.id == 1:
            refusal = world.logs.refuse(
                request,
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=9),
            )
            refusal.node_endpoints = [NodeEndpoint(node_id=2, host="node2", port=9092)]
            return refusal
        return world.logs.produce(request, node)

    async def test(producer: Producer) -> None:
        assert (await (await producer.send("orders", "a", partition=0))).offset == 0

    world.answer(ProduceRequest, script)
    world.with_producer(test)
    assert len(world.nodes[2].asked_for(ProduceRequest)) == 1


def test_a_wait_for_a_partition_without_a_leader_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    world.topics["orders"][0] = Led(leader=-1, epoch=1)

    async def test(producer: Producer) -> None:
        receipt = await producer.send("orders", "a", partition=0)
        with pytest.raises(errors.DeliveryTimedOut, match="orders-0"):
            await receipt

    world.with_producer(test, delivery_timeout_ms=40_000)
    warned = [each.getMessage() for each in caplog.records if each.name.endswith(".reachability")]
    assert warned == ["no leader for 5 s, still trying: orders-0 has no leader"]


def test_a_rejected_batch_fails_and_the_next_one_is_accepted(world: World) -> None:
    def script(count: int, request: Any) -> Any:
        return world.logs.refuse(request, ErrorCode.TOPIC_AUTHORIZATION_FAILED) if count == 2 else None

    async def test(producer: Producer) -> None:
        await (await producer.send("orders", "a", partition=0))
        refused = await producer.send("orders", "b", partition=0)
        with pytest.raises(errors.TopicAuthorizationFailed, match="orders-0"):
            await refused
        assert (await (await producer.send("orders", "c", partition=0))).offset == 1

    world.before_produce(script)
    world.with_producer(test)
    assert [header.producer_epoch for header in world.logs["orders", 0].headers] == [0, 1]


def test_batches_after_a_rejected_one_are_renumbered_in_order(world: World) -> None:
    refused: list[Any] = []

    async def script(request: Any, node: Any) -> Any:
        await asyncio.sleep(0.1)
        batch = bytes(request.topic_data[0].partition_data[0].records)
        if b"bad" in batch:
            refused.append(batch)
            return world.logs.refuse(request, ErrorCode.INVALID_TIMESTAMP)
        return world.logs.produce(request, node)

    async def test(producer: Producer) -> None:
        values = ["a", "b", "bad", "c", "d", "e", "f"]
        receipts = [await producer.send("orders", value * 60, partition=0) for value in values]
        with pytest.raises(errors.InvalidTimestamp):
            await receipts[2]
        await asyncio.gather(*[_result(receipts[number]) for number in (0, 1, 3, 4, 5, 6)])

    world.answer(ProduceRequest, script)
    world.with_producer(test, batch_size=100, linger_ms=0)
    assert [value[0] for value in world.logs["orders", 0].values] == list("abcdef")
    assert len(refused) == 1


async def _result(receipt: Any) -> Any:
    return await receipt


def test_the_records_that_caused_a_rejection_are_named(world: World) -> None:
    def script(count: int, request: Any) -> Any:
        return world.logs.refuse(
            request,
            ErrorCode.INVALID_RECORD,
            record_errors=[BatchIndexAndErrorMessage(batch_index=1, batch_index_error_message="no key")],
        )

    async def test(producer: Producer) -> None:
        receipts = [await producer.send("orders", "v", partition=0) for _ in range(3)]
        with pytest.raises(errors.InvalidRecord, match="no key"):
            await receipts[1]
        with pytest.raises(errors.InvalidRecord, match="other records of the same batch"):
            await receipts[0]
        await asyncio.wait_for(_exception(receipts[2]), 5)

    world.before_produce(script)
    world.with_producer(test)


async def _exception(receipt: Any) -> Any:
    try:
        await receipt
    except errors.PenstockError as error:
        return error


def test_a_batch_that_is_too_large_for_the_broker_is_split(world: World) -> None:
    world.logs["orders", 0].batch_bytes_max = 300

    async def test(producer: Producer) -> None:
        receipts = [await producer.send("orders", f"{number:050}", partition=0) for number in range(40)]
        await producer.flush()
        for number, receipt in enumerate(receipts):
            assert (await receipt).offset == number
        large = await producer.send("orders", "x" * 500, partition=0)
        with pytest.raises(errors.MessageTooLarge):
            await large
        assert producer._core.intake.available_bytes == 32 << 20

    world.with_producer(test)
    assert world.logs["orders", 0].values == [f"{number:050}" for number in range(40)]


@pytest.mark.parametrize("idempotent", [True, False])
def test_an_expired_record_fails_and_later_ones_are_accepted(world: World, idempotent: bool) -> None:
    def script(count: int, request: Any) -> Any:
        if count == 2:
            world.logs.produce(request, None)  # written, but without a response
            return NOTHING
        return None if count < 2 or world.loop.time() > 40 else HANG_UP

    async def test(producer: Producer) -> None:
        await (await producer.send("orders", "a", partition=0))
        lost = await producer.send("orders", "b", partition=0)
        with pytest.raises(errors.DeliveryTimedOut, match="orders-0: no acknowledgement within"):
            await lost
        await asyncio.sleep(20)
        assert (await (await producer.send("orders", "c", partition=0))).offset == 2

    world.before_produce(script)
    world.with_producer(
        test, delivery_timeout_ms=30_000, request_timeout_ms=20_000, enable_idempotence=idempotent
    )
    assert world.logs["orders", 0].values == ["a", "b", "c"]


def test_retries_end_at_their_limit(world: World) -> None:
    async def test(producer: Producer) -> None:
        with pytest.raises(errors.NotEnoughReplicas):
            await (await producer.send("orders", "a", partition=0))

    world.before_produce(lambda count, request: world.logs.refuse(request, ErrorCode.NOT_ENOUGH_REPLICAS))
    world.with_producer(test, retries=3)
    assert len(world.produced()) == 4


def test_without_acks_records_count_as_written_when_sent(world: World) -> None:
    async def test(producer: Producer) -> None:
        assert (await (await producer.send("orders", "a", partition=0))).offset == -1
        await asyncio.sleep(1)

    world.before_produce(lambda count, request: world.logs.produce(request, None) and NOTHING)
    world.with_producer(test, acks=0)
    assert world.logs["orders", 0].values == ["a"]


def test_a_full_buffer_blocks_send_until_max_block_ms(world: World) -> None:
    async def test(producer: Producer) -> None:
        await (await producer.send("orders", "warm", partition=0))
        world.answer(ProduceRequest, lambda request, node: NOTHING)
        sends = [producer.send("orders", "x" * 1000, partition=0) for _ in range(100)]
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
        full = [each for each in outcomes if isinstance(each, errors.BufferFull)]
        assert 70 < len(full) < 100
        assert "buffer.memory" in str(full[0])
        world.answer(ProduceRequest, world.logs.produce)
        world.nodes[1].hang_up()
        for _ in range(100):
            await producer.send("orders", "y" * 1000, partition=0)

    world.with_producer(test, buffer_memory=20_000, max_block_ms=1000, batch_size=5000)
    values = [value[0] for value in world.logs["orders", 0].values[1:]]
    assert values.count("y") == 100


@pytest.mark.parametrize(
    ("wait", "kind", "options"),
    [
        ("send", errors.BufferFull, {"buffer_memory": 2000, "max_block_ms": 1000}),
        ("flush", errors.TimedOut, {}),
        ("close", errors.ClientClosed, {}),
        ("receipt", errors.DeliveryTimedOut, {"delivery_timeout_ms": 3000, "request_timeout_ms": 1000}),
    ],
)
def test_a_timeout_names_the_brokers_last_error(
    world: World, wait: str, kind: type[errors.PenstockError], options: dict[str, Any]
) -> None:
    """A failed disk was blamed on buffer.memory, or on a closed producer."""
    world.before_produce(lambda count, request: world.logs.refuse(request, ErrorCode.KAFKA_STORAGE_ERROR))

    async def test(producer: Producer) -> None:
        receipt = await producer.send("orders", "x" * 1000, partition=0)
        calls = {
            "send": lambda: producer.send("orders", "y" * 1000, partition=0),
            "flush": lambda: producer.flush(timeout=1),
            "close": lambda: producer.close(timeout=1),
            "receipt": lambda: _awaited(receipt),
        }
        with pytest.raises(kind) as raised:
            await calls[wait]()
        assert "the last error was: orders-0" in str(raised.value)
        assert str(raised.value).endswith("check the broker's log and disks [KAFKA_STORAGE_ERROR]")
        assert isinstance(raised.value.__cause__, errors.StorageFailed)
        world.answer(ProduceRequest, world.logs.produce)  # so that close has nothing to report

    world.with_producer(test, **options)


async def _awaited(receipt: Any) -> None:
    await receipt


def test_a_timeout_names_an_unreachable_node(world: World) -> None:
    async def test(producer: Producer) -> None:
        await (await producer.send("orders", "warm", partition=0))
        world.kill(1)
        await producer.send("orders", "a", partition=0)
        with pytest.raises(
            errors.TimedOut, match=r"1 record\(s\) were not acknowledged in time; the last error"
        ):
            await producer.flush(timeout=5)

    with pytest.raises(errors.ClientClosed, match="the last error was"):
        world.with_producer(test)


def test_a_topic_that_does_not_exist_is_reported_to_the_sender(world: World) -> None:
    async def test(producer: Producer) -> None:
        with pytest.raises(errors.UnknownTopicOrPartition, match="nowhere"):
            await producer.send("nowhere", "a")
        assert world.loop.time() < 10

    world.with_producer(test, max_block_ms=3000)


def test_an_unreachable_cluster_is_reported_with_addresses(world: World) -> None:
    async def test(producer: Producer) -> None:
        world.kill(1)
        with pytest.raises(errors.NoBrokersAvailable, match="node1:9092"):
            await producer.send("orders", "a")

    world.with_producer(test, max_block_ms=2000)


BAD = [
    ({"topic": 5, "value": b"v"}, errors.BadArgument, "topic must be a string"),
    ({"topic": "", "value": b"v"}, errors.BadArgument, "must not be empty"),
    ({"topic": "orders", "value": 5}, errors.SerializationFailed, "must be bytes or str"),
    ({"topic": "orders", "value": b"v", "key": 5.5}, errors.SerializationFailed, "the key 5.5"),
    ({"topic": "orders", "value": "\ud800"}, errors.SerializationFailed, "surrogates"),
    ({"topic": "orders", "value": b"v", "partition": 7}, errors.BadArgument, "7 does not exist"),
    ({"topic": "orders", "value": b"v", "partition": 2**40}, errors.BadArgument, "partition 10995"),
    (
        {"topic": "orders", "value": b"v", "partition": "0"},
        errors.BadArgument,
        "partition must be an integer",
    ),
    ({"topic": "orders", "value": b"v", "headers": 5}, errors.BadArgument, "headers|iterable"),
    ({"topic": "orders", "value": b"v", "headers": {"a": 5}}, errors.BadArgument, "header a must be bytes"),
    ({"topic": "orders", "value": b"v", "headers": {"\ud800": b""}}, errors.BadArgument, "surrogates"),
    ({"topic": "orders", "value": b"v", "headers": [("a",)]}, errors.BadArgument, "pairs"),
    ({"topic": "orders", "value": b"v", "timestamp_ms": -5}, errors.BadArgument, "milliseconds"),
    ({"topic": "orders", "value": b"v", "timestamp_ms": "now"}, errors.BadArgument, "milliseconds"),
    ({"topic": "orders", "value": b"v" * 2_000_000}, errors.RecordTooLarge, r"max\.request\.size"),
]


@pytest.mark.parametrize(("arguments", "kind", "message"), BAD, ids=lambda each: str(each)[:40])
@pytest.mark.parametrize("is_warm", [True, False])
def test_bad_input_raises_one_clear_exception(
    world: World, arguments: dict[str, Any], kind: type[Exception], message: str, is_warm: bool
) -> None:
    async def test(producer: Producer) -> None:
        if is_warm:
            await producer.send("orders", "warm")
        with pytest.raises(kind, match=message):
            await producer.send(**arguments)

    world.with_producer(test, max_block_ms=2000)


def test_headers_of_a_generator_are_kept_while_send_blocks(world: World) -> None:
    async def test(producer: Producer) -> None:
        for number in range(20):
            await producer.send("orders", "x" * 200, headers=(pair for pair in [("n", str(number))]))

    world.with_producer(test, buffer_memory=1000, batch_size=500)

    headers = [record.headers for log in world.logs.partitions.values() for record in log.records]
    assert sorted(headers) == sorted((("n", str(number).encode()),) for number in range(20))


@pytest.mark.parametrize("headers", [None, {"a": b"1"}])
def test_the_size_limit_of_a_record_is_the_same_on_every_path(world: World, headers: Any) -> None:
    """They differed by a few bytes, and between the two a `send` would have looped forever."""
    largest = 1000 - 61 - 31 - 1 - (0 if headers is None else 4)

    async def test(producer: Producer) -> None:
        for _ in range(2):  # the first time the topic is unknown, and the slow path is taken
            assert (await (await producer.send("orders", "x" * largest, headers=headers))).offset >= 0
        for _ in range(2):
            with pytest.raises(errors.RecordTooLarge):
                await producer.send("orders", "x" * (largest + 1), headers=headers)

    world.with_producer(test, max_request_size=1000, max_block_ms=1000, linger_ms=0)


def test_a_failing_serializer_is_reported_with_its_cause(world: World) -> None:
    async def test(producer: Producer) -> None:
        await producer.send("orders", {"id": 1})
        with pytest.raises(errors.SerializationFailed, match="not JSON serializable") as caught:
            await producer.send("orders", {1, 2})
        assert isinstance(caught.value.__cause__, TypeError)
        with pytest.raises(errors.SerializationFailed):
            await producer.send("elsewhere", {1, 2})

    world.topics["elsewhere"] = {0: Led(leader=1)}
    world.with_producer(test, serializer="json")


def test_a_producer_used_on_another_loop_raises_instead_of_hanging() -> None:
    producer = Producer("127.0.0.1:1", max_block_ms=100)
    with pytest.raises(errors.NoBrokersAvailable):
        asyncio.run(producer.send("orders", "a"))

    for call in (producer.send("orders", "b"), producer.flush(), producer.partitions_for("orders")):
        with pytest.raises(errors.IllegalState, match="loop"):
            asyncio.run(call)


def test_a_closed_producer_rejects_calls(world: World) -> None:
    async def test(producer: Producer) -> None:
        await producer.send("orders", "a")
        await producer.close()
        for call in (producer.send("orders", "b"), producer.flush(), producer.partitions_for("orders")):
            with pytest.raises(errors.ClientClosed):
                await call
        await producer.close()

    world.with_producer(test)


def test_closing_sends_buffered_records(world: World) -> None:
    async def test(producer: Producer) -> None:
        await producer.send("orders", "a", partition=0)

    world.with_producer(test, linger_ms=60_000, delivery_timeout_ms=120_000)
    assert world.logs["orders", 0].values == ["a"]


def test_closing_without_time_reports_unsent_records(world: World) -> None:
    async def test(producer: Producer) -> None:
        await (await producer.send("orders", "warm", partition=0))
        world.answer(ProduceRequest, lambda request, node: NOTHING)
        receipt = await producer.send("orders", "a", partition=0)
        with pytest.raises(errors.ClientClosed, match="before the record was sent"):
            await producer.close(timeout=1)
        assert receipt.done()

    world.with_producer(test)


@pytest.mark.parametrize("way", ["flush", "close"])
def test_a_failure_whose_receipt_was_not_used_is_raised_once(world: World, way: str) -> None:
    def script(count: int, request: Any) -> Any:
        return world.logs.refuse(request, ErrorCode.INVALID_TIMESTAMP) if count in (1, 2) else None

    async def test(producer: Producer) -> None:
        asked = await producer.send("orders", "a", partition=0)
        with pytest.raises(errors.InvalidTimestamp):
            await asked
        await producer.flush()
        await producer.send("orders", "b", partition=0)
        with pytest.raises(errors.InvalidTimestamp):
            await getattr(producer, way)()
        if way == "flush":
            await producer.flush()

    world.before_produce(script)
    world.with_producer(test)


def test_a_rejected_producer_id_fails_waiting_batches(world: World) -> None:
    world.answer(
        InitProducerIdRequest,
        lambda request, node: InitProducerIdResponse(
            error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, producer_epoch=-1
        ),
    )

    async def test(producer: Producer) -> None:
        with pytest.raises(errors.ClusterAuthorizationFailed):
            await (await producer.send("orders", "a"))

    world.with_producer(test)


def test_a_throttled_producer_waits(world: World) -> None:
    def script(count: int, request: Any) -> Any:
        answer = world.logs.produce(request, None)
        answer.throttle_time_ms = 5000 if count == 1 else 0
        return answer

    async def test(producer: Producer) -> None:
        await (await producer.send("orders", "a", partition=0))
        began = world.loop.time()
        await (await producer.send("orders", "b", partition=0))
        assert 4.9 <= world.loop.time() - began < 5.1

    world.before_produce(script)
    world.with_producer(test)


def test_a_topic_with_added_partitions_uses_them(world: World) -> None:
    async def test(producer: Producer) -> None:
        await (await producer.send("orders", "a", partition=0))
        world.topics["orders"][2] = Led(leader=1, epoch=1)
        assert len(await producer.partitions_for("orders")) == 2
        await producer._core.client.refresh()
        assert (await (await producer.send("orders", "b", partition=2))).partition == 2

    world.with_producer(test)


def test_an_unused_topic_leaves_the_metadata_until_it_is_used_again(world: World) -> None:
    async def test(producer: Producer) -> None:
        world.topics["other"] = {0: Led(leader=1, epoch=1)}
        await (await producer.send("orders", "a", partition=0))
        for _ in range(4):
            await (await producer.send("other", "x"))
            await asyncio.sleep(10)
            await producer._core.client.refresh()
        assert list(producer._core.intake.topics) == ["other"]
        assert (await (await producer.send("orders", "b", partition=0))).offset == 1

    world.with_producer(test, metadata_max_idle_ms=15_000)


def test_metrics_are_counted(world: World) -> None:
    world.logs["orders", 0].batch_bytes_max = 300

    async def test(producer: Producer) -> None:
        for _ in range(10):
            await producer.send("orders", "x" * 50, partition=0)
        await producer.flush()
        counts = producer.metrics()
        assert counts["record-error-total"] == counts["requests-in-flight"] == 0
        assert counts["batch-split-total"] > 0
        assert counts["request-total"] == len(world.produced())
        assert counts["buffer-available-bytes"] == counts["buffer-total-bytes"] == 32 << 20

    world.with_producer(test)


class Seen:
    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.acknowledged: list[Any] = []
        self.is_closed = False

    def on_send(self, record: Any) -> Any:
        import dataclasses

        self.sent.append(record)
        if record.value == "raise":
            raise ValueError("no")
        return dataclasses.replace(record, value=record.value.upper())

    def on_acknowledgement(self, delivery: Any, error: Any) -> None:
        self.acknowledged.append((delivery and delivery.offset, type(error)))

    def close(self) -> None:
        self.is_closed = True


def test_interceptors_see_every_record_and_may_change_it(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    seen = Seen()

    def script(count: int, request: Any) -> Any:
        return world.logs.refuse(request, ErrorCode.INVALID_TIMESTAMP) if count == 2 else None

    async def test(producer: Producer) -> None:
        await producer.send("orders", "a", partition=0)
        await (await producer.send("orders", "raise", partition=0))
        await producer.send("orders", "b", partition=0)
        with pytest.raises(errors.InvalidTimestamp):
            await producer.flush()

    world.before_produce(script)
    world.with_producer(test, interceptor_classes=[seen])
    assert world.logs["orders", 0].values == ["A", "raise"]
    assert seen.acknowledged == [(0, type(None)), (1, type(None)), (None, errors.InvalidTimestamp)]
    assert seen.is_closed
    assert "an interceptor failed" in caplog.text


def test_custom_partitioners_choose(world: World) -> None:
    async def test(producer: Producer) -> None:
        for number in range(4):
            await producer.send("orders", str(number), key=str(number))

    chosen = []

    def choose(key: bytes | None, partitions: Any, available: Any) -> int:
        chosen.append((key, list(partitions), list(available)))
        return 1

    world.with_producer(test, partitioner_class=choose)
    assert world.logs["orders", 1].values == list("0123")
    assert chosen[0] == (b"0", [0, 1], [0, 1])


def test_an_invalid_choice_of_a_partitioner_is_reported(world: World) -> None:
    async def test(producer: Producer) -> None:
        with pytest.raises(errors.BadArgument, match="chose partition 9 of 2"):
            await producer.send("orders", "a")

    world.with_producer(test, partitioner_class=lambda *arguments: 9)


def test_round_robin_takes_turns(world: World) -> None:
    async def test(producer: Producer) -> None:
        for number in range(6):
            await producer.send("orders", str(number), key="same")

    world.with_producer(test, partitioner_class="org.apache.kafka.clients.producer.RoundRobinPartitioner")
    assert [world.logs["orders", index].values for index in range(2)] == [["0", "2", "4"], ["1", "3", "5"]]


@pytest.mark.parametrize("count", [1, 2])
def test_topics_go_by_id_if_the_broker_supports_it(count: int) -> None:
    world = World(has_topic_ids=True)

    async def test(producer: Producer) -> None:
        receipts = [await producer.send("orders", "a", partition=index) for index in range(count)]
        assert [(await receipt).partition for receipt in receipts] == list(range(count))

    world.with_producer(test)
    [request] = world.produced()
    assert [topic.topic_id for topic in request.topic_data] == [world.topic_ids["orders"]]
