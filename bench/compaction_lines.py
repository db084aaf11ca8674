"""The lines of log compaction: how fast a topic is compacted, and what other topics notice of it."""

from __future__ import annotations

import random
import statistics
import time
from pathlib import Path

from bench.line import Group, Line
from bench.memory import back_page_cache
from bench.peers import ApacheKafka, Peer, Penstock
from bench.wire import Wire, new_name, produce, produce_frame
from penstock.records import kernel

MIB = 1 << 20
TOTAL_BYTES = 1 << 30
SEGMENT_BYTES = 100 * MIB
BATCH_BYTES = 64 << 10
BATCHES = 2_000  # different ones; they are sent again and again
KEYS = 1_000_000
VALUE_BYTES = 80  # with the key, some 100 bytes a record
LIMIT_S = 600

SETTINGS = {
    "log.cleaner.backoff.ms": "100",  # else both would sleep 15 s before they notice that there is work
    "log.cleaner.io.max.bytes.per.second": "1000000000000",
}


class CompactingKafka(ApacheKafka):
    def __init__(self) -> None:
        super().__init__(settings=SETTINGS)


class CompactingPenstock(Penstock):
    def __init__(self) -> None:
        super().__init__(settings=SETTINGS)


def compaction(peer: Peer) -> dict[str, float]:
    """Fill a topic, change its policy to compaction, and wait until the cleaner has done its work. Meanwhile another
    topic takes one record after the other."""
    topic, other = new_name("compacted"), new_name("other")
    folder = peer.folder / "data"
    back_page_cache(peer.folder, 2 * TOTAL_BYTES)
    with Wire(peer.port) as wire:
        wire.create_topic(other)
        wire.create_topic(
            topic,
            configs={
                "segment.bytes": str(SEGMENT_BYTES),
                "min.cleanable.dirty.ratio": "0.01",
            },
        )
        sent_bytes = 0
        frames = [produce_frame(topic, batch) for batch in _batches()]
        while sent_bytes < TOTAL_BYTES:
            for frame in frames:
                wire.pump(frame, requests=1, in_flight=1)
                sent_bytes += len(frame)
        wanted_offset = max(int(path.stem) for path in (folder / f"{topic}-0").glob("*.log"))

        frame = produce(other, 1).frame
        latencies = wire.round_trips(frame, requests=1000)  # warm
        latencies.clear()
        began = time.perf_counter()
        wire.alter_topic(topic, {"cleanup.policy": "compact"})
        while _cleaned_offset(folder, topic) < wanted_offset:
            if time.perf_counter() - began > LIMIT_S:
                raise RuntimeError(f"{topic} was not compacted in {LIMIT_S} s")
            latencies += wire.round_trips(frame, requests=20)
            time.sleep(0.01)
        seconds = time.perf_counter() - began
        wire.delete_topic(topic)
    return {
        "compaction of 1 GiB, a million keys": sent_bytes / 1e6 / seconds,
        "one-record latency while compacting, p99": statistics.quantiles(latencies, n=100)[-1],
    }


def _batches() -> list[bytes]:
    chosen = random.Random(1)
    now_ms = time.time_ns() // 1_000_000
    count = BATCH_BYTES // (VALUE_BYTES + 20)
    return [
        bytes(
            kernel.build_batch(
                [(now_ms, b"%012d" % chosen.randrange(KEYS), bytes(VALUE_BYTES), ()) for _ in range(count)]
            )
        )
        for _ in range(BATCHES)
    ]


def _cleaned_offset(folder: Path, topic: str) -> int:
    """What the checkpoint file says, which both write; -1 before that."""
    try:
        lines = (folder / "cleaner-offset-checkpoint").read_text().splitlines()
    except FileNotFoundError:
        return -1
    return max((int(line.split()[2]) for line in lines if line.startswith(f"{topic} 0 ")), default=-1)


COMPACTION_LINES = [
    Group(
        "compaction",
        compaction,
        [
            Line("compaction of 1 GiB, a million keys", "MB/s", True, 1.5),
            Line("one-record latency while compacting, p99", "µs", False, 1.0),
        ],
        1,
        kinds=(CompactingKafka, CompactingPenstock),
    ),
]
