"""Apache Kafka's DumpLogSegments reads every file of a log, whatever happened to the log.

Needs the jars of Apache Kafka (`.cache/kafka/libs`, or PENSTOCK_KAFKA_JARS). Without them it is skipped, but not in
CI.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.storage import (
    NOW_MS,
    QUIET,
    InlineWorkers,
    SetClock,
    append,
    append_in_transaction,
    append_marker,
    make_batch,
)
from oracle import jars as kafka_jars
from penstock.protocol.types import random_uuid
from penstock.records.batch import Compression
from penstock.runtime.disk import RealDisk
from penstock.storage.directory import LogDirectory
from penstock.storage.directory_io import DirectoryIO, OpenFiles
from penstock.storage.log import Log
from penstock.storage.settings import LogSettings

SETTINGS = LogSettings(segment_bytes=4000, index_interval_bytes=300, retention_ms=-1, file_delete_delay_ms=0)
SUFFIXES = (".log", ".index", ".timeindex", ".snapshot", ".txnindex")


@pytest.fixture(scope="module")
def jars() -> Path:
    return kafka_jars.libs()


@pytest.fixture
def rng() -> random.Random:
    return random.Random(7)


def open_directory(path: Path, rng: random.Random) -> LogDirectory:
    io = DirectoryIO(
        str(path),
        disk=RealDisk(),
        workers=InlineWorkers(),
        clock=SetClock(),
        rng=rng,
        open_files=OpenFiles(10),
    )
    directory = LogDirectory(io, settings=QUIET)
    directory.open(cluster_id="test", node_id=1)
    return directory


def fill(log: Log, rng: random.Random, batches: int) -> None:
    """Batches of all kinds, with timestamps that go forward and back; sometimes several at once."""
    sequence = max(0, getattr(log.producers.get(3), "last_sequence", -1) + 1)
    for step in range(batches):
        made = [
            make_batch(
                rng.randint(1, 9),
                timestamp=NOW_MS + step * 100 + rng.randint(-500, 500),
                value=bytes(rng.randint(0, 80)),
                compression=rng.choice([Compression.NONE, Compression.GZIP, Compression.LZ4]),
            )
            for _ in range(rng.choice([1, 1, 3]))
        ]
        append(log, *made, leader_epoch=step // 10)
        append(log, make_batch(2, producer_id=3, producer_epoch=0, base_sequence=sequence))
        sequence += 2


def files_of(folder: Path) -> Iterator[str]:
    yield from sorted(str(path) for path in folder.iterdir() if path.suffix in SUFFIXES)


def dump(jars: Path, files: list[str], *options: str) -> str:
    tool = ["java", "-cp", f"{jars}/*", "org.apache.kafka.tools.DumpLogSegments"]
    command = [*tool, "--files", ",".join(files), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert [line for line in done.stderr.splitlines() if not is_noise(line)] == []
    assert "isvalid: false" not in done.stdout
    return done.stdout


def is_noise(line: str) -> bool:
    """Its logging library, and a warning that it prints for every segment but the first, also for Kafka's own."""
    return line.startswith(("SLF4J", "Non-consecutive offsets in", "  -1 is followed by"))


async def test_every_file_of_a_closed_log(jars: Path, tmp_path: Path, rng: random.Random) -> None:
    directory = open_directory(tmp_path / "data", rng)
    log = directory.create("plain", 0, random_uuid(rng), SETTINGS)
    fill(log, rng, 60)
    cut = directory.create("cut", 0, random_uuid(rng), SETTINGS)
    fill(cut, rng, 60)
    await cut.truncate(cut.end_offset // 3)
    fill(cut, rng, 20)
    trimmed = directory.create("trimmed", 0, random_uuid(rng), SETTINGS)
    fill(trimmed, rng, 60)
    trimmed.advance_start(trimmed.end_offset // 2)
    trimmed.enforce_retention(NOW_MS, high_watermark=trimmed.end_offset)
    await directory.close()

    files = [file for log in (log, cut, trimmed) for file in files_of(Path(log.folder))]

    assert len(log.segments) > 5
    listed = dump(jars, files, "--deep-iteration")
    assert listed.count("Dumping ") == len(files)
    assert "producerId: 3 producerEpoch: 0" in listed
    dump(jars, files, "--index-sanity-check")
    dump(jars, files, "--verify-index-only")


async def test_every_file_of_a_recovered_log(jars: Path, tmp_path: Path, rng: random.Random) -> None:
    killed = open_directory(tmp_path / "killed", rng)
    log = killed.create("orders", 0, random_uuid(rng), SETTINGS)
    fill(log, rng, 60)
    # As after kill -9 in the middle of a write: nothing is closed, and the last batch is incomplete.
    tail = Path(log.folder) / f"{log.segments.active.base_offset:020d}.log"
    found = tmp_path / "found"
    shutil.copytree(tmp_path / "killed", found)
    with (found / "orders-0" / tail.name).open("r+b") as file:
        file.truncate(file.seek(0, os.SEEK_END) - 10)

    recovered = open_directory(found, rng)
    (report,) = await recovered.load(lambda _: SETTINGS)
    log = recovered.logs["orders", 0]
    fill(log, rng, 10)
    await recovered.close()

    assert report.is_cut
    files = list(files_of(Path(log.folder)))
    dump(jars, files, "--deep-iteration")
    dump(jars, files, "--index-sanity-check")


async def test_aborted_transactions(jars: Path, tmp_path: Path, rng: random.Random) -> None:
    """Of a closed log, of a truncated one, and of one that recovery rebuilt after a kill."""
    directory = open_directory(tmp_path / "data", rng)
    closed = directory.create("closed", 0, random_uuid(rng), SETTINGS)
    expected = write_transactions(closed, rng)
    cut = directory.create("cut", 0, random_uuid(rng), SETTINGS)
    write_transactions(cut, rng)
    await cut.truncate(cut.end_offset // 2)
    killed = directory.create("killed", 0, random_uuid(rng), SETTINGS)
    write_transactions(killed, rng)
    found = tmp_path / "found"
    shutil.copytree(tmp_path / "data", found)
    await directory.close()
    recovered = open_directory(found, rng)
    await recovered.load(lambda _: SETTINGS)
    await recovered.close()

    files = [file for log in (closed, cut, killed) for file in files_of(Path(log.folder))]
    dump(jars, files, "--deep-iteration")
    listed = dump(jars, [f"{closed.folder}/{name}" for name in aborted_in(Path(closed.folder))])
    assert [line for line in listed.splitlines() if line.startswith("version: 0 ")] == expected
    assert listed.count("Dumping ") > 3
    for log in (closed, cut, killed):
        assert aborted_in(found / f"{log.topic}-0") == aborted_in(Path(log.folder))


def aborted_in(folder: Path) -> dict[str, bytes]:
    """Names and contents of the transaction indexes."""
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.txnindex"))}


def write_transactions(log: Log, rng: random.Random) -> list[str]:
    """Overlapping transactions of three producers; the aborted ones as the tool prints them."""
    sequences, begun, output = {1: 0, 2: 0, 3: 0}, {}, []
    for _ in range(300):
        producer_id = rng.choice([1, 2, 3])
        if producer_id in begun and rng.random() < 0.4:
            is_commit = rng.random() < 0.5
            marker_offset = append_marker(log, producer_id, is_commit=is_commit).first_offset
            first_offset = begun.pop(producer_id)
            stable_offset = min(begun.values(), default=marker_offset + 1)
            if not is_commit:
                output.append(
                    f"version: 0 producerId: {producer_id} firstOffset: {first_offset} "
                    f"lastOffset: {marker_offset} lastStableOffset: {stable_offset}"
                )
        else:
            offset = append_in_transaction(log, producer_id, sequences[producer_id]).first_offset
            begun.setdefault(producer_id, offset)
            sequences[producer_id] += 1
    return output
