"""Consuming with Penstock's client and with others, on one Penstock broker.

Each client runs in its own process, one at a time, alternating, and reads the same records of 100 bytes: as objects,
and into Arrow if it can. The time is from the creation of the consumer to its last record, without imports. Ratios
are those of one run, because the machine is shared.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

from bench.line import Group, Line
from bench.peers import ROOT, Peer
from bench.wire import Wire, new_name, produce

RECORD_COUNT = 2_000_000
# Slow ones read less, or the benchmark would be about them.
SLOW_COUNT = 400_000
BATCH_BYTES = 256 << 10
LIMIT_S = 120

OBJECTS = "consume as objects"
ASYNC_OBJECTS = "consume as objects, asyncio"
ARROW = "consume into Arrow"


def penstock_objects(bootstrap: str, topic: str, count: int) -> None:
    from penstock import Consumer

    with Consumer(topic, bootstrap_servers=bootstrap) as consumer:
        for _ in consumer:
            count -= 1
            if not count:
                return


def penstock_asyncio(bootstrap: str, topic: str, count: int) -> None:
    import uvloop

    from penstock.aio import Consumer

    async def run(left: int) -> None:
        async with Consumer(topic, bootstrap_servers=bootstrap) as consumer:
            async for _ in consumer:
                left -= 1
                if not left:
                    return

    uvloop.run(run(count))


def penstock_arrow(bootstrap: str, topic: str, count: int) -> None:
    from penstock import Consumer

    with Consumer(topic, bootstrap_servers=bootstrap) as consumer:
        assert consumer.read(limit=count).to_arrow().num_rows == count


def confluent(bootstrap: str, topic: str, count: int) -> None:
    from confluent_kafka import Consumer

    settings = {"bootstrap.servers": bootstrap, "group.id": "bench", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    consumer.subscribe([topic])
    while count > 0:
        count -= len([each for each in consumer.consume(500, 1.0) if each.error() is None and each.value()])
    consumer.close()


def aiokafka(bootstrap: str, topic: str, count: int) -> None:
    import uvloop
    from aiokafka import AIOKafkaConsumer

    async def run(left: int) -> None:
        consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest")
        await consumer.start()
        while left > 0:
            for messages in (await consumer.getmany(timeout_ms=1000, max_records=500)).values():
                left -= len(messages)
        await consumer.stop()

    uvloop.run(run(count))


def kafka_python(bootstrap: str, topic: str, count: int) -> None:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", group_id=None)
    while count > 0:
        for messages in consumer.poll(timeout_ms=1000).values():
            count -= len(messages)
    consumer.close()


Read = Callable[[str, str, int], None]

OURS: dict[str, Read] = {
    OBJECTS: penstock_objects,
    ASYNC_OBJECTS: penstock_asyncio,
    ARROW: penstock_arrow,
}
TARGETS = {OBJECTS: 1.5, ASYNC_OBJECTS: 1.5, ARROW: 10.0}
OTHERS: dict[str, tuple[Read, int]] = {
    "confluent-kafka": (confluent, RECORD_COUNT),
    "aiokafka": (aiokafka, RECORD_COUNT),
    "kafka-python": (kafka_python, SLOW_COUNT),
}


def fill(port: int) -> str:
    """A topic of one partition with enough records for all clients."""
    topic = new_name("consume")
    with Wire(port) as wire:
        wire.create_topic(topic)
        made = produce(topic, BATCH_BYTES)
        requests = RECORD_COUNT // made.record_count + 1
        wire.pump(made.frame, requests=requests, in_flight=5)
    return topic


def consume(peer: Peer) -> dict[str, float]:
    """Records a second of every client, and ours over the best of the others."""
    topic = fill(peer.port)
    figures = {
        f"{OBJECTS}, {name}": _run(name, peer.port, topic, count) for name, (_, count) in OTHERS.items()
    }
    best = max(figures.values())
    for line in OURS:
        ours = _run(line, peer.port, topic, RECORD_COUNT)
        figures[f"{line}, penstock"] = ours
        figures[f"{line}, over the best"] = ours / best
    with Wire(peer.port) as wire:
        wire.delete_topic(topic)
    return figures


def _run(name: str, port: int, topic: str, count: int) -> float:
    command = [sys.executable, "-m", "bench.consuming", name, str(port), topic, str(count)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode != 0:
        raise RuntimeError(f"{name} failed:\n{done.stderr[-3000:]}")
    return float(done.stdout)


def _measure(name: str, port: str, topic: str, count: int) -> None:
    """Runs in a separate process: reads once to warm up (imports, memory), then once more to measure."""
    read = OURS[name] if name in OURS else OTHERS[name][0]
    bootstrap = f"127.0.0.1:{port}"
    read(bootstrap, topic, count)
    began = time.perf_counter()
    read(bootstrap, topic, count)
    print(count / (time.perf_counter() - began))


CONSUMING_LINES = [
    Group(
        "consumers",
        consume,
        [
            *(Line(f"{OBJECTS}, {name}", "records/s", True) for name in OTHERS),
            *(
                line
                for name, target in TARGETS.items()
                for line in (
                    Line(f"{name}, penstock", "records/s", True),
                    Line(f"{name}, over the best", "x", True, target),
                )
            ),
        ],
        5,
        between_clients=True,
    ),
]


if __name__ == "__main__":
    _measure(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
