"""The cost of the log in addition to the system calls: appends, reads, a clean start.

    python bench/micro/storage.py [--folder DIR]

Prints microseconds per call, the best of several rounds. The folder should be on a memory file system, so that the disk
does not dominate the measurement.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import resource
import shutil
import tempfile
import time
from collections.abc import Callable

from penstock.protocol.types import random_uuid
from penstock.records import kernel
from penstock.records.batch import NewRecord
from penstock.records.control import TxnMarkerEntry, end_transaction_batch
from penstock.runtime.clock import SystemClock
from penstock.runtime.disk import RealDisk
from penstock.runtime.workers import ThreadWorkers
from penstock.storage.directory import LogDirectory
from penstock.storage.directory_io import DirectoryIO, OpenFiles
from penstock.storage.log import Log
from penstock.storage.settings import LogSettings, StoreSettings

CALLS = 20_000
ROUNDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", default="/dev/shm" if os.path.isdir("/dev/shm") else None)
    arguments = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="penstock-bench-", dir=arguments.folder)
    try:
        asyncio.run(measure(folder))
    finally:
        shutil.rmtree(folder)


async def measure(folder: str) -> None:
    directory = open_directory(os.path.join(folder, "data"))
    rng = random.Random(1)
    for size in (100, 1000, 16_000):
        log = directory.create(f"plain-{size}", 0, random_uuid(rng), LogSettings())
        written, bare = time_appends(log, size, folder)
        print(f"append, batch of {size:>6} bytes: {written:6.2f} us, of which the write {bare:5.2f} us")
    log = directory.create("idempotent", 0, random_uuid(rng), LogSettings())
    written, bare = time_appends(log, 100, folder, producer_id=1)
    print(f"append, idempotent producer  : {written:6.2f} us, of which the write {bare:5.2f} us")
    log = directory.create("transactional", 0, random_uuid(rng), LogSettings())
    print(f"transaction of one batch     : {time_transactions(log):6.2f} us")
    print(f"aborted ones of 1,000        : {time_aborted(log):6.2f} us")
    time_reads(directory.logs["plain-1000", 0])
    await directory.close()
    await time_start(folder, rng)


def open_directory(path: str) -> LogDirectory:
    io = DirectoryIO(
        path,
        disk=RealDisk(),
        workers=ThreadWorkers(2),
        clock=SystemClock(),
        rng=random.Random(0),
        open_files=OpenFiles(500),
    )
    directory = LogDirectory(io, settings=StoreSettings())
    directory.open(cluster_id="bench", node_id=1)
    return directory


def time_appends(log: Log, size: int, folder: str, *, producer_id: int = -1) -> tuple[float, float]:
    now_ms = time.time_ns() // 1_000_000
    fields = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0} if producer_id >= 0 else {}
    batch = kernel.build_batch([NewRecord(now_ms, None, bytes(size - 70))], **fields)
    view = memoryview(batch)
    header = kernel.read_header(view, 0)
    sequence = 0

    def one() -> None:
        nonlocal sequence, header
        if producer_id >= 0:
            header = header._replace(base_sequence=sequence)
            sequence += 1
        log.append(view, [header], leader_epoch=0, now_ms=now_ms)

    bare_file = RealDisk().open(os.path.join(folder, "bare"), create=True)
    return best(one), best(lambda: bare_file.append((view,)))


def time_transactions(log: Log) -> float:
    """A guard, a batch of 100 bytes and a marker; every tenth is aborted."""
    now_ms = time.time_ns() // 1_000_000
    fields = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    view = memoryview(kernel.build_batch([NewRecord(now_ms, None, bytes(30))], **fields))
    header = kernel.read_header(view, 0)
    count = 0

    def one() -> None:
        nonlocal count
        count += 1
        begun = header._replace(base_sequence=count)
        guard = log.producers.start_verification(1, 0, count, is_version_2=False, now_ms=now_ms)
        log.append(view, [begun], leader_epoch=0, now_ms=now_ms, guard=guard)
        marker = TxnMarkerEntry(1, 0, 0, count % 10 != 0, 1)
        batch = memoryview(
            end_transaction_batch(
                is_commit=marker.is_commit,
                producer_id=1,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp_ms=now_ms,
            )
        )
        log.append_marker(batch, kernel.read_header(batch, 0), marker, leader_epoch=0, now_ms=now_ms)
        log.high_watermark = log.end_offset

    return best(one)


def time_aborted(log: Log) -> float:
    rng = random.Random(3)

    def one() -> None:
        offset = rng.randrange(log.end_offset - 2000)
        log.reader.aborted_transactions(offset, offset + 2000)

    return best(one, calls=2000)


def time_reads(log: Log) -> None:
    end = log.end_offset
    rng = random.Random(2)

    def tail() -> None:
        log.read(end - 1, max_bytes=1 << 20, end_offset=end, at_least_one=True)

    offset = 0

    def sequential() -> None:
        nonlocal offset
        found = log.read(offset, max_bytes=1 << 20, end_offset=end, at_least_one=True)
        assert found is not None
        offset = (offset + found.size // 1000) % (end - 2000)

    def anywhere() -> None:
        log.read(rng.randrange(end), max_bytes=1 << 20, end_offset=end, at_least_one=True)

    def by_time() -> None:
        log.reader.offset_for_timestamp(0, end_offset=end)

    for name, work in (
        ("read at the tail", tail),
        ("read on, 1 MiB", sequential),
        ("read anywhere, 1 MiB", anywhere),
        ("look up a time", by_time),
    ):
        print(f"{name:<29}: {best(work, calls=2000):6.2f} us")


async def time_start(folder: str, rng: random.Random, *, partitions: int = 2000) -> None:
    path = os.path.join(folder, "many")
    directory = open_directory(path)
    batch = kernel.build_batch([NewRecord(1, None, bytes(100))])
    started = time.perf_counter()
    for partition in range(partitions):
        log = directory.create("many", partition, random_uuid(rng), LogSettings())
        log.append(memoryview(batch), [kernel.read_header(batch, 0)], leader_epoch=0, now_ms=1)
    print(f"create {partitions} partitions       : {time.perf_counter() - started:6.2f} s")
    started = time.perf_counter()
    await directory.close()
    print(f"close them                   : {time.perf_counter() - started:6.2f} s")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    directory = open_directory(path)
    started = time.perf_counter()
    await directory.load(lambda _: LogSettings())
    print(f"load them, clean             : {time.perf_counter() - started:6.2f} s")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"memory for them              : {grown / partitions:6.2f} KiB each")
    await directory.close()


def best(work: Callable[[], object], *, calls: int = CALLS) -> float:
    """Microseconds per call in the fastest of several rounds."""
    fastest = float("inf")
    for _ in range(ROUNDS):
        started = time.perf_counter()
        for _ in range(calls):
            work()
        fastest = min(fastest, time.perf_counter() - started)
    return fastest / calls * 1e6


if __name__ == "__main__":
    main()
