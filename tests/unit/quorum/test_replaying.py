"""Committed records reach the listener in order, each once, whatever happens to the log meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from penstock.quorum.log import DataBatch, build_data_batch
from penstock.quorum.messages import LeaderAndEpoch, SnapshotId
from penstock.quorum.replaying import Replayer
from unit.quorum.fakes import MemoryLog, Recorder


class Bench:
    def __init__(self) -> None:
        self.log = MemoryLog()
        self.recorder = Recorder()
        self.epoch: int | None = None
        """In which this node leads, as the core says; None: in all."""
        self.replayer = Replayer(
            self.log, self.recorder, start_offset=0, is_leader_of=lambda epoch: self.epoch in (None, epoch)
        )
        self.task = asyncio.ensure_future(self.replayer.run())

    def append(self, *values: bytes, epoch: int = 1) -> None:
        for value in values:
            self.log.append(build_data_batch([value], timestamp_ms=0), epoch=epoch)

    @property
    def values(self) -> list[bytes]:
        return [value for batch in self.recorder.replayed for value in batch.values]


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    yield bench
    bench.task.cancel()


async def test_only_committed_records_are_replayed(bench: Bench) -> None:
    bench.append(b"a", b"b", b"c")
    bench.replayer.committed(2)
    await settle()
    assert bench.values == [b"a", b"b"]
    assert bench.recorder.high_watermarks == [2]

    bench.replayer.committed(3)
    await settle()
    assert bench.values == [b"a", b"b", b"c"]
    assert bench.recorder.high_watermarks == [2, 3]


async def test_a_leader_is_announced_after_everything_before_its_epoch(bench: Bench) -> None:
    bench.append(b"a", b"b")
    bench.replayer.leads_from(2, 2)
    bench.append(b"leader change", epoch=2)
    bench.replayer.leader_changed(LeaderAndEpoch(1, 2))
    await settle()
    assert bench.recorder.elections == []
    assert bench.recorder.leaders == [(1, 2)]

    bench.replayer.committed(3)
    await settle()
    assert bench.values[:2] == [b"a", b"b"]
    assert bench.recorder.elections == [2]
    assert bench.recorder.high_watermarks == [3]


async def test_records_of_a_leader_are_replayed_if_another_commits_them(bench: Bench) -> None:
    bench.replayer.leads_from(1, 0)
    bench.append(b"leader change")
    bench.replayer.committed(1)
    await settle()
    bench.append(b"own", b"own, not committed")
    bench.replayer.committed(2)
    assert bench.recorder.high_watermarks == [1, 2]
    replayed = bench.values

    bench.replayer.leader_changed(LeaderAndEpoch(2, 2))
    assert bench.recorder.has_resigned
    bench.replayer.committed(3)
    await settle()

    assert bench.values == [*replayed, b"own, not committed"]


async def test_a_leadership_that_ended_before_it_was_announced_is_not_announced(bench: Bench) -> None:
    bench.replayer.leads_from(1, 0)
    bench.append(b"leader change")
    bench.replayer.committed(1)
    bench.replayer.resign()
    await settle()

    assert bench.recorder.elections == []
    assert not bench.recorder.has_resigned


async def test_a_leadership_that_is_about_to_end_is_not_announced(bench: Bench) -> None:
    bench.replayer.leads_from(1, 0)
    bench.append(b"leader change")
    bench.replayer.committed(1)
    bench.epoch = 2  # which is being saved: `resign` follows
    await settle()

    assert bench.recorder.elections == []
    assert bench.recorder.high_watermarks == [1]


async def test_a_replay_waits_for_a_truncation(bench: Bench) -> None:
    bench.append(b"a", b"b", b"not committed")
    async with bench.replayer.reading:
        truncation = asyncio.ensure_future(bench.log.truncate(2))
        bench.replayer.committed(2)
        await truncation
        assert bench.values == []
    await settle()

    assert bench.values == [b"a", b"b"]
    assert not bench.task.done()


async def test_a_snapshot_that_replaces_the_log_replaces_the_pending_replay(bench: Bench) -> None:
    bench.append(b"a", b"b")
    async with bench.replayer.reading:
        bench.replayer.committed(2)
        await settle()
        await bench.log.truncate_fully(10)
        bench.replayer.load_snapshot(iter([DataBatch(9, 1, [b"state"])]), SnapshotId(10, 1))
    await settle()
    assert bench.values == [b"state"]
    assert bench.recorder.high_watermarks == [10]

    bench.append(b"c")
    bench.replayer.committed(11)
    await settle()
    assert bench.values == [b"state", b"c"]
