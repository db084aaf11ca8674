"""The demo without Spark: a producer and a consumer.

The producer writes as fast as it can for a few seconds, then slowly. The consumer follows and checks that it gets every
record once and in order.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from penstock.cli.demo.broker import ENDING
from penstock.cli.output import sparkline
from penstock.client.connection import ClientConnection
from penstock.net.sockets import SocketNetwork
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.types import Uuid
from penstock.records import kernel

TOPIC = "orders"
PARTITIONS = 3
BATCH_RECORDS = 500
IN_FLIGHT = 4
BURST_S = 8.0
SLOW_PAUSE_S = 0.25


@dataclass(slots=True)
class Progress:
    """The progress of both sides; the screen shows it."""

    produced: int = 0
    produced_bytes: int = 0
    consumed: int = 0
    next_offsets: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(PARTITIONS), 0))
    out_of_order: int = 0
    delays_ms: deque[float] = field(default_factory=lambda: deque(maxlen=200))
    rates: deque[float] = field(default_factory=lambda: deque(maxlen=48))
    last_event: str = ""
    peak_rate: float = 0.0
    began: float = field(default_factory=time.perf_counter)
    is_bursting: bool = True


async def run_broker_demo(console: Console, port: int, seconds: float | None) -> int:
    """Produce and consume until the time is over, or Ctrl-C. Returns the exit status."""
    progress = Progress()
    network = SocketNetwork()
    admin = await ClientConnection.open(network, "127.0.0.1", port, client_id="demo-admin")
    topic_id = await _create_topic(admin)
    producing = asyncio.ensure_future(_produce(network, port, topic_id, progress))
    consuming = asyncio.ensure_future(_consume(network, port, topic_id, progress))
    watching = asyncio.ensure_future(_watch(console, port, progress, seconds))
    loop = asyncio.get_running_loop()
    for number in ENDING:
        loop.add_signal_handler(number, watching.cancel)
    work = {producing, consuming, watching}
    done, _ = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
    for task in work:
        task.cancel()
    await asyncio.gather(*work, return_exceptions=True)
    admin.close()
    for task in done - {watching}:
        if not task.cancelled() and (error := task.exception()) is not None:
            console.print(f"[red]the demo failed: {error}[/]")
            return 1
    _print_summary(console, progress)
    return 1 if progress.out_of_order else 0


# -- the work


async def _create_topic(admin: ClientConnection) -> Uuid:
    topic = CreatableTopic(
        name=TOPIC, num_partitions=PARTITIONS, replication_factor=1, assignments=[], configs=[]
    )
    created = await admin.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
    if (error := created.topics[0].error_code) != ErrorCode.NONE:
        raise RuntimeError(f"cannot create the topic {TOPIC}: {error.name}")
    while True:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False)
        found = (await admin.ask(request)).topics[0]
        if found.error_code == ErrorCode.NONE and len(found.partitions) == PARTITIONS:
            return Uuid(found.topic_id)
        await asyncio.sleep(0.05)


async def _produce(network: SocketNetwork, port: int, topic_id: Uuid, progress: Progress) -> None:
    connection = await ClientConnection.open(network, "127.0.0.1", port, client_id="demo-producer")
    rng = random.Random()
    in_flight: deque[asyncio.Future[object]] = deque()
    turn = 0
    while True:
        progress.is_bursting = time.perf_counter() - progress.began < BURST_S
        batch = kernel.build_batch(_events(rng, first=turn * BATCH_RECORDS))
        data = PartitionProduceData(index=turn % PARTITIONS, records=batch)
        request = ProduceRequest(
            transactional_id=None,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[TopicProduceData(name=TOPIC, topic_id=topic_id, partition_data=[data])],
        )
        in_flight.append(connection.send(request))
        if len(in_flight) >= IN_FLIGHT or not progress.is_bursting:
            response = await in_flight.popleft()
            error = response.responses[0].partition_responses[0].error_code  # type: ignore[attr-defined]
            if error != ErrorCode.NONE:
                raise RuntimeError(f"the broker rejected a batch: {error.name}")
        progress.produced += BATCH_RECORDS
        progress.produced_bytes += len(batch)
        turn += 1
        await asyncio.sleep(0 if progress.is_bursting else SLOW_PAUSE_S)


def _events(rng: random.Random, *, first: int) -> list[tuple[int, bytes, bytes, tuple[()]]]:
    now_ms = time.time_ns() // 1_000_000
    return [
        (
            now_ms,
            b"customer-%d" % rng.randrange(1000),
            json.dumps(
                {"order": number, "item": rng.choice(ITEMS), "cents": rng.randrange(100, 9000)}
            ).encode(),
            (),
        )
        for number in range(first, first + BATCH_RECORDS)
    ]


ITEMS = ("valve", "turbine", "sluice gate", "trash rack", "surge tank", "draft tube")


async def _consume(network: SocketNetwork, port: int, topic_id: Uuid, progress: Progress) -> None:
    connection = await ClientConnection.open(network, "127.0.0.1", port, client_id="demo-consumer")
    while True:
        wanted = [
            FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
            for index, offset in progress.next_offsets.items()
        ]
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=8 << 20,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[FetchTopic(topic=TOPIC, topic_id=topic_id, partitions=wanted)],
            forgotten_topics_data=[],
            rack_id="",
        )
        response = await connection.ask(request)
        for partition in (found for topic in response.responses for found in topic.partitions):
            if partition.error_code != ErrorCode.NONE:
                raise RuntimeError(f"the broker rejected a fetch: {partition.error_code.name}")
            if partition.records:
                _take(partition.partition_index, memoryview(partition.records), progress)


def _take(index: int, records: memoryview, progress: Progress) -> None:
    now_ms = time.time_ns() // 1_000_000
    for header in kernel.read_headers(records):
        if header.base_offset != progress.next_offsets[index]:
            progress.out_of_order += 1
        progress.next_offsets[index] = header.next_offset
        progress.consumed += header.record_count
        progress.delays_ms.append(now_ms - header.max_timestamp)
    first = next(iter(kernel.iterate_records(records, 0)))
    progress.last_event = f"{bytes(first.key or b'').decode()}  {bytes(first.value or b'').decode()}"


# -- the screen


async def _watch(console: Console, port: int, progress: Progress, seconds: float | None) -> None:
    before, before_at = 0, time.perf_counter()
    is_slow_announced = False
    with (
        Live(console=console, auto_refresh=False, transient=False)
        if console.is_terminal
        else _Plain() as live
    ):
        while seconds is None or time.perf_counter() - progress.began < seconds:
            await asyncio.sleep(0.25 if console.is_terminal else 1.0)
            now = time.perf_counter()
            rate = (progress.consumed - before) / (now - before_at)
            before, before_at = progress.consumed, now
            progress.rates.append(rate)
            progress.peak_rate = max(progress.peak_rate, rate)
            if isinstance(live, Live):
                live.update(_screen(port, progress, seconds), refresh=True)
            elif progress.is_bursting or seconds is not None:
                console.print(_line(progress, rate), soft_wrap=True)
            if not (isinstance(live, Live) or progress.is_bursting or is_slow_announced):
                is_slow_announced = True
                console.print("full speed until now; slow from here on")


class _Plain:
    """Replaces the live screen if there is no terminal: one line a second."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def _screen(port: int, progress: Progress, seconds: float | None) -> Panel:
    table = Table.grid(padding=(0, 3))
    table.add_column(style="dim")
    table.add_column(justify="right")
    table.add_column(style="dim")
    rate = progress.rates[-1] if progress.rates else 0.0
    table.add_row("produced", f"{progress.produced:,}", f"{progress.produced_bytes / 1e6:,.1f} MB, acks=all")
    table.add_row("consumed", f"{progress.consumed:,}", f"lag {progress.produced - progress.consumed:,}")
    table.add_row("rate", f"{rate:,.0f}/s", sparkline(progress.rates))
    table.add_row("delay", f"{_median(progress.delays_ms):.0f} ms", "from produce to consume, median")
    table.add_row(
        "in order", "[green]yes[/]" if not progress.out_of_order else "[red]NO[/]", "every offset once"
    )
    phase = "full speed" if progress.is_bursting else "slow"
    until = "Ctrl-C stops it" if seconds is None else f"stops after {seconds:.0f} s"
    hint = Text(f"kcat -b 127.0.0.1:{port} -t {TOPIC} -C -o -5 -e", style="cyan")
    latest = Text(progress.last_event[:76], style="dim")
    shown = Group(table, Text(), latest, Text(), Text("try the broker yourself:", style="dim"), hint)
    return Panel(shown, title=f"penstock demo, {phase}", subtitle=until, width=84)


def _line(progress: Progress, rate: float) -> str:
    seconds = time.perf_counter() - progress.began
    return (
        f"{seconds:5.1f} s  produced {progress.produced:>10,}  consumed {progress.consumed:>10,}"
        f"  {rate:>9,.0f}/s  delay {_median(progress.delays_ms):.0f} ms"
    )


def _print_summary(console: Console, progress: Progress) -> None:
    verdict = "every record once and in order" if not progress.out_of_order else "RECORDS OUT OF ORDER"
    console.print(
        f"{progress.produced:,} records produced, {progress.consumed:,} consumed, "
        f"peak {progress.peak_rate:,.0f}/s; {verdict}",
        soft_wrap=True,
    )


def _median(values: deque[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else 0.0
