"""Runs one workload with one client, in its own process: `python -m bench.client_runs WHAT aiokafka PORT TOPIC`.

Prints one figure. Every client has its fastest settings, with acks=all, a linger of five milliseconds, batches of up to
a megabyte, and no delivery callbacks. Penstock's client has its defaults, which are idempotent. For the latency of one
record there is no linger, and each send waits for its acknowledgement.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

VALUE = b"x" * 100
SECONDS = 2.0  # about how long each client is measured
WARMING_RECORDS = 20_000
TABLE_ROWS = 10_000
BATCH_BYTES = 1_000_000
LINGER_MS = 5
WARMING_SENDS = 500
SENDS = 2_000


def produce_penstock(bootstrap: str, topic: str) -> float:
    """The defaults."""
    from penstock import Producer

    with Producer(bootstrap) as producer:
        send = producer.send

        def run(count: int) -> None:
            for _ in range(count):
                send(topic, VALUE)
            producer.flush()

        return rate(run)


def produce_penstock_aio(bootstrap: str, topic: str) -> float:
    """The defaults, on uvloop."""
    import uvloop

    from penstock.aio import Producer

    async def measure() -> float:
        async with Producer(bootstrap) as producer:
            send = producer.send

            async def run(count: int) -> None:
                for _ in range(count):
                    await send(topic, VALUE)
                await producer.flush()

            return await rate_of_async(run)

    return uvloop.run(measure())


def produce_penstock_table(bootstrap: str, topic: str) -> float:
    """The defaults, from columns of Arrow."""
    from penstock import Producer

    table = arrow_table()
    with Producer(bootstrap) as producer:

        def run(count: int) -> None:
            for _ in range(count // TABLE_ROWS):
                producer.send_arrow(table, topic=topic)
            producer.flush()

        return rate(run)


def produce_penstock_aio_table(bootstrap: str, topic: str) -> float:
    """The defaults, from columns of Arrow, on uvloop."""
    import uvloop

    from penstock.aio import Producer

    table = arrow_table()

    async def measure() -> float:
        async with Producer(bootstrap) as producer:

            async def run(count: int) -> None:
                for _ in range(count // TABLE_ROWS):
                    await producer.send_arrow(table, topic=topic)
                await producer.flush()

            return await rate_of_async(run)

    return uvloop.run(measure())


def arrow_table() -> Any:
    """The batch size of Spark."""
    import pyarrow

    return pyarrow.table({"value": pyarrow.array([VALUE] * TABLE_ROWS, pyarrow.binary())})


def produce_confluent(bootstrap: str, topic: str) -> float:
    """Not idempotent, as by default, which is faster by a fifth. A queue so large that no call has to wait; librdkafka
    sends on a thread of its own, which needs no lock of the interpreter."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "linger.ms": LINGER_MS,
            "batch.size": BATCH_BYTES,
            "batch.num.messages": 100_000,
            "queue.buffering.max.messages": 10_000_000,
            "queue.buffering.max.kbytes": 2_000_000,
        }
    )
    send = producer.produce

    def run(count: int) -> None:
        for _ in range(count):
            send(topic, VALUE)
        producer.flush()

    return rate(run)


def produce_aiokafka(bootstrap: str, topic: str) -> float:
    """Not idempotent, with which it is faster; on uvloop, as are the other two."""
    import uvloop
    from aiokafka import AIOKafkaProducer

    async def measure() -> float:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, acks="all", linger_ms=LINGER_MS, max_batch_size=BATCH_BYTES
        )
        await producer.start()
        try:

            async def run(count: int) -> None:
                for _ in range(count):
                    await producer.send(topic, VALUE)
                await producer.flush()

            return await rate_of_async(run)
        finally:
            await producer.stop()

    return uvloop.run(measure())


def produce_kafka_python(bootstrap: str, topic: str) -> float:
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        acks="all",
        linger_ms=LINGER_MS,
        batch_size=BATCH_BYTES,
        max_request_size=2 * BATCH_BYTES,
    )

    def run(count: int) -> None:
        for _ in range(count):
            producer.send(topic, VALUE)
        producer.flush()

    try:
        return rate(run)
    finally:
        producer.close()


def one_penstock(bootstrap: str, topic: str) -> float:
    from penstock import Producer

    with Producer(bootstrap, linger_ms=0) as producer:
        return median_us(lambda: producer.send(topic, VALUE).result())


def one_penstock_aio(bootstrap: str, topic: str) -> float:
    import uvloop

    from penstock.aio import Producer

    async def measure() -> float:
        async with Producer(bootstrap, linger_ms=0) as producer:

            async def send_one() -> None:
                await (await producer.send(topic, VALUE))

            return await median_us_of_async(send_one)

    return uvloop.run(measure())


def one_confluent(bootstrap: str, topic: str) -> float:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    delivered: list[Any] = []

    def send_one() -> None:
        delivered.clear()
        producer.produce(topic, VALUE, callback=lambda error, message: delivered.append(error))
        while not delivered:
            producer.poll(1)

    return median_us(send_one)


def one_aiokafka(bootstrap: str, topic: str) -> float:
    import uvloop
    from aiokafka import AIOKafkaProducer

    async def measure() -> float:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=0)
        await producer.start()
        try:
            return await median_us_of_async(lambda: producer.send_and_wait(topic, VALUE))
        finally:
            await producer.stop()

    return uvloop.run(measure())


def one_kafka_python(bootstrap: str, topic: str) -> float:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=0)
    try:
        return median_us(lambda: producer.send(topic, VALUE).get())
    finally:
        producer.close()


def median_us(send_one: Callable[[], object]) -> float:
    """Microseconds from a send to the word that it was written."""
    times = []
    for _ in range(WARMING_SENDS + SENDS):
        began = time.perf_counter()
        send_one()
        times.append(time.perf_counter() - began)
    return statistics.median(times[WARMING_SENDS:]) * 1e6


async def median_us_of_async(send_one: Callable[[], Awaitable[object]]) -> float:
    times = []
    for _ in range(WARMING_SENDS + SENDS):
        began = time.perf_counter()
        await send_one()
        times.append(time.perf_counter() - began)
    return statistics.median(times[WARMING_SENDS:]) * 1e6


def rate(run: Callable[[int], None]) -> float:
    """Records a second, for as many as take about `SECONDS`."""
    run(WARMING_RECORDS)
    began = time.perf_counter()
    run(WARMING_RECORDS)
    count = _count(time.perf_counter() - began)
    began = time.perf_counter()
    run(count)
    return count / (time.perf_counter() - began)


async def rate_of_async(run: Callable[[int], object]) -> float:
    await run(WARMING_RECORDS)  # type: ignore[misc]
    began = time.perf_counter()
    await run(WARMING_RECORDS)  # type: ignore[misc]
    count = _count(time.perf_counter() - began)
    began = time.perf_counter()
    await run(count)  # type: ignore[misc]
    return count / (time.perf_counter() - began)


def _count(warming_s: float) -> int:
    count = max(WARMING_RECORDS, min(4_000_000, int(WARMING_RECORDS * SECONDS / warming_s)))
    return count - count % TABLE_ROWS


RUNS: dict[tuple[str, str], Callable[[str, str], float]] = {
    ("produce from objects", "penstock"): produce_penstock,
    ("produce from objects", "penstock.aio"): produce_penstock_aio,
    ("produce from objects", "confluent-kafka"): produce_confluent,
    ("produce from objects", "aiokafka"): produce_aiokafka,
    ("produce from objects", "kafka-python"): produce_kafka_python,
    ("one record, wait for it", "penstock"): one_penstock,
    ("one record, wait for it", "penstock.aio"): one_penstock_aio,
    ("one record, wait for it", "confluent-kafka"): one_confluent,
    ("one record, wait for it", "aiokafka"): one_aiokafka,
    ("one record, wait for it", "kafka-python"): one_kafka_python,
    ("produce from Arrow", "penstock"): produce_penstock_table,
    ("produce from Arrow", "penstock.aio"): produce_penstock_aio_table,
}


def main() -> None:
    what, client, port, topic = sys.argv[1:]
    print(json.dumps(RUNS[what, client](f"127.0.0.1:{port}", topic)))


if __name__ == "__main__":
    main()
