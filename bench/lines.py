"""The measurements: one function per line or group of lines. Each takes a running broker and returns named figures.

A line says whether more or less is better, and the target of its ratio (Penstock over Apache Kafka).
"""

from __future__ import annotations

import re
import socket
import statistics
import time
from collections.abc import Callable

from bench.client_lines import CLIENT_LINES
from bench.cluster_lines import CLUSTER_LINES
from bench.command_lines import COMMAND_LINES
from bench.compaction_lines import COMPACTION_LINES
from bench.consuming import CONSUMING_LINES
from bench.group_lines import CONSUMER_GROUP_LINES
from bench.line import Group, Line
from bench.many_connections import MANY_CONNECTION_LINES
from bench.memory import back_page_cache
from bench.peers import Peer, java
from bench.spark_lines import SPARK_LINES
from bench.transaction_lines import TRANSACTION_LINES
from bench.wire import VALUE_BYTES, Wire, fetch_frame, new_name, produce

GIB = 1 << 30


def raw_produce(batch_bytes: int, total_bytes: int) -> Callable[[Peer], dict[str, float]]:
    """Less than one segment in all: the sync of a full segment would measure the disk."""
    label = f"raw produce, {batch_bytes >> 10} KiB" if batch_bytes < 1 << 20 else "raw produce, 1 MiB"

    def measure(peer: Peer) -> dict[str, float]:
        topic = new_name("produce")
        with Wire(peer.port) as wire:
            wire.create_topic(topic)
            made = produce(topic, batch_bytes)
            requests = max(50, total_bytes // len(made.frame))
            back_page_cache(peer.folder, 2 * total_bytes)
            wire.pump(made.frame, requests=max(20, requests // 4), in_flight=5)
            seconds = wire.pump(made.frame, requests=requests, in_flight=5)
            wire.delete_topic(topic)
        return {label: requests * len(made.frame) / 1e6 / seconds}

    return measure


def raw_fetch(peer: Peer) -> dict[str, float]:
    topic = new_name("fetch")
    with Wire(peer.port) as wire:
        _fill(wire, topic, total_bytes=GIB // 2, batch_bytes=128 << 10)
        wire.drain(topic, start_offset=0, total_bytes=GIB // 8, per_response_bytes=1 << 20)
        total_bytes = GIB // 2 - (4 << 20)
        seconds = wire.drain(topic, start_offset=0, total_bytes=total_bytes, per_response_bytes=1 << 20)
        wire.delete_topic(topic)
    return {"raw fetch, 1 MiB at a time": total_bytes / 1e6 / seconds}


def latency(peer: Peer) -> dict[str, float]:
    topic = new_name("latency")
    with Wire(peer.port) as wire:
        wire.create_topic(topic)
        frame = produce(topic, 1).frame
        wire.round_trips(frame, requests=3000)
        times = sorted(wire.round_trips(frame, requests=10_000))
    return {
        "one-record latency, median": statistics.median(times),
        "one-record latency, p99": times[int(len(times) * 0.99)],
        "one-record latency, p99.9": times[int(len(times) * 0.999)],
    }


def small_pipelined(peer: Peer) -> dict[str, float]:
    topic = new_name("small")
    with Wire(peer.port) as wire:
        wire.create_topic(topic)
        frame = produce(topic, 1).frame
        wire.pump(frame, requests=10_000, in_flight=64)
        requests = 60_000
        seconds = wire.pump(frame, requests=requests, in_flight=64)
    return {"small pipelined requests": requests / seconds}


def java_tools(peer: Peer) -> dict[str, float]:
    topic = new_name("java")
    records = 3_000_000
    with Wire(peer.port) as wire:
        wire.create_topic(topic)
    printed = java(
        [
            "org.apache.kafka.tools.ProducerPerformance", "--topic", topic, "--num-records", str(records),
            "--record-size", str(VALUE_BYTES), "--throughput", "-1", "--bootstrap-server", f"127.0.0.1:{peer.port}",
            "--command-property", "acks=all", "batch.size=65536", "linger.ms=5",
        ],
        capture=True,
    )  # fmt: skip
    summary = [line for line in printed.splitlines() if "records sent" in line and "99.9th" in line][-1]
    produced = re.search(r"\(([\d.]+) MB/sec\)", summary)
    with Wire(peer.port) as wire:
        wire.await_coordinator()
    printed = java(
        [
            "org.apache.kafka.tools.ConsumerPerformance", "--topic", topic, "--num-records", str(records),
            "--group", topic, "--hide-header", "--bootstrap-server", f"127.0.0.1:{peer.port}",
        ],
        capture=True,
    )  # fmt: skip
    columns = printed.splitlines()[-1].split(
        ", "
    )  # start, end, MB, MB/s with joining the group, records, ...
    assert produced is not None, summary
    assert int(columns[4]) >= records, printed
    return {
        "Java producer (ProducerPerformance)": float(produced[1]) * 1.048576,
        "Java consumer (ConsumerPerformance)": float(columns[3]) * 1.048576,
    }


def start_and_memory(peer: Peer) -> dict[str, float]:
    """On its own broker, because it is restarted: first empty, then under load."""
    peer.stop()
    started_s = peer.start()
    time.sleep(2)
    idle_mb = peer.memory_mb()
    topic = new_name("load")
    with Wire(peer.port) as wire:
        wire.create_topic(topic)
        made = produce(topic, 128 << 10)
        wire.pump(made.frame, requests=4000, in_flight=5)
        loaded_mb = peer.memory_mb()
    return {
        "start to first answer": started_s * 1000,
        "memory, idle": idle_mb,
        "memory, under load": loaded_mb,
    }


def idle_connections(peer: Peer) -> dict[str, float]:
    topic = new_name("idle")
    before_mb = peer.memory_mb()
    connections = [socket.create_connection(("127.0.0.1", peer.port)) for _ in range(1000)]
    try:
        with Wire(peer.port) as wire:
            wire.create_topic(topic)
            frame = produce(topic, 1).frame
            wire.round_trips(frame, requests=1000)
            times = wire.round_trips(frame, requests=4000)
        return {
            "1,000 idle connections, latency median": statistics.median(times),
            "1,000 idle connections, memory": peer.memory_mb(),
            "1,000 idle connections, growth": max(0.1, peer.memory_mb() - before_mb),
        }
    finally:
        for connection in connections:
            connection.close()


def many_partitions(peer: Peer) -> dict[str, float]:
    topic = new_name("many")
    with Wire(peer.port) as wire:
        began = time.perf_counter()
        wire.create_topic(topic, partitions=2000)
        created_s = time.perf_counter() - began
        frames = [produce(topic, 1, partition=number).frame for number in range(2000)]
        began = time.perf_counter()
        for frame in frames:
            wire.round_trips(frame, requests=1)
        touched_s = time.perf_counter() - began
        memory_mb = peer.memory_mb()
    peer.stop()
    restarted_s = peer.start()
    return {
        "2,000 partitions, creation": created_s * 1000,
        "2,000 partitions, one record to each": touched_s * 1000,
        "2,000 partitions, memory": memory_mb,
        "2,000 partitions, restart": restarted_s * 1000,
    }


def tail_reads(gib: int) -> Callable[[Peer], dict[str, float]]:
    def measure(peer: Peer) -> dict[str, float]:
        topic = new_name("tail")
        with Wire(peer.port) as wire:
            _fill(wire, topic, total_bytes=gib * GIB, batch_bytes=1 << 20)
            end = wire.end_offset(topic)
            frame = fetch_frame(topic, end - 1, partition_bytes=1 << 16)
            wire.round_trips(frame, requests=50)
            times = wire.round_trips(frame, requests=500)
            earlier = fetch_frame(topic, end // 2, partition_bytes=1 << 16)
            spread = wire.round_trips(earlier, requests=200)
            wire.delete_topic(topic)
        return {
            f"reads at the tail of {gib} GiB": statistics.median(times),
            f"reads in the middle of {gib} GiB": statistics.median(spread),
        }

    return measure


def _fill(wire: Wire, topic: str, *, total_bytes: int, batch_bytes: int) -> None:
    wire.create_topic(topic)
    made = produce(topic, batch_bytes)
    wire.pump(made.frame, requests=total_bytes // len(made.frame) + 1, in_flight=5)


MIB = 1 << 20
GROUPS = [
    Group(
        "produce16k", raw_produce(16 << 10, 256 * MIB), [Line("raw produce, 16 KiB", "MB/s", True, 3.0)], 5
    ),
    Group(
        "produce128k", raw_produce(128 << 10, 512 * MIB), [Line("raw produce, 128 KiB", "MB/s", True, 2.0)], 5
    ),
    Group("produce1m", raw_produce(MIB, 640 * MIB), [Line("raw produce, 1 MiB", "MB/s", True, 2.0)], 5),
    Group("fetch", raw_fetch, [Line("raw fetch, 1 MiB at a time", "MB/s", True, 1.6)], 5),
    Group("small", small_pipelined, [Line("small pipelined requests", "requests/s", True, 4.0)], 5),
    Group(
        "latency",
        latency,
        [
            Line("one-record latency, median", "µs", False, 0.75),
            Line("one-record latency, p99", "µs", False, 0.9),
            Line("one-record latency, p99.9", "µs", False),
        ],
        5,
    ),
    *MANY_CONNECTION_LINES,
    *CLUSTER_LINES,
    *COMPACTION_LINES,
    Group(
        "java",
        java_tools,
        [
            Line("Java producer (ProducerPerformance)", "MB/s", True, 1.0),
            Line("Java consumer (ConsumerPerformance)", "MB/s", True, 1.0),
        ],
    ),
    *CONSUMER_GROUP_LINES,
    *TRANSACTION_LINES,
    *CLIENT_LINES,
    *CONSUMING_LINES,
    *COMMAND_LINES,
    *SPARK_LINES,
    Group(
        "start",
        start_and_memory,
        [
            Line("start to first answer", "ms", False, 0.2),
            Line("memory, idle", "MB", False, 0.2),
            Line("memory, under load", "MB", False),
        ],
    ),
    Group(
        "idle",
        idle_connections,
        [
            Line("1,000 idle connections, latency median", "µs", False),
            Line("1,000 idle connections, memory", "MB", False),
        ],
        1,
    ),
    Group(
        "partitions",
        many_partitions,
        [
            Line("2,000 partitions, creation", "ms", False),
            Line("2,000 partitions, one record to each", "ms", False),
            Line("2,000 partitions, memory", "MB", False),
            Line("2,000 partitions, restart", "ms", False),
        ],
        1,
    ),
    Group(
        "tail1",
        tail_reads(1),
        [
            Line("reads at the tail of 1 GiB", "µs", False),
            Line("reads in the middle of 1 GiB", "µs", False),
        ],
        1,
    ),
    Group(
        "tail20",
        tail_reads(20),
        [
            Line("reads at the tail of 20 GiB", "µs", False),
            Line("reads in the middle of 20 GiB", "µs", False),
        ],
        1,
        is_long=True,
    ),
]
