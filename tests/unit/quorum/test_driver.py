"""The quorum in motion, over a log in memory."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from penstock.protocol.types import Uuid
from penstock.quorum.driver import NotLeader, Quorum, QuorumRefused
from penstock.quorum.log import voters_in
from penstock.quorum.ready import HardState
from penstock.quorum.snapshots import Snapshots
from penstock.quorum.state_file import QuorumStateFile
from penstock.quorum.voters import ReplicaKey, Voter, VoterEndpoint, Voters
from penstock.records import kernel
from penstock.runtime.disk import RealDisk
from unit.quorum.fakes import FixedClock, InlineWorkers, MemoryLog, Recorder

ME = Voter(ReplicaKey(1, Uuid(b"disk".ljust(16, b"\0"))), (VoterEndpoint("CONTROLLER", "localhost", 9093),))


class Node:
    """The quorum driver: what survives a crash, and how it starts again."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)
        self.log = MemoryLog()
        self.state_file = QuorumStateFile(RealDisk(), str(folder))
        self.recorder = Recorder()
        self.quorum: Quorum

    async def start(self, me: Voter = ME) -> Quorum:
        self.recorder = Recorder()
        self.quorum = Quorum(
            me=me,
            log=self.log,
            state_file=self.state_file,
            snapshots=Snapshots(RealDisk(), self.folder),
            clock=FixedClock(),
            workers=InlineWorkers(),
            rng=random.Random(1),
            cluster_id="cluster",
            initial_voters=Voters([me]),
        )
        await self.quorum.start(self.recorder)
        return self.quorum

    async def settle(self) -> None:
        """Let the sync task run until it waits."""
        for _ in range(30):
            await asyncio.sleep(0)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


async def test_a_new_node_leads_epoch_1_and_writes_its_voters_down(node: Node) -> None:
    quorum = await node.start()

    assert quorum.is_leader
    assert quorum.epoch == 1
    assert node.state_file.load() == HardState(1, leader_id=1, voted=ME.key)
    header = kernel.read_header(node.log.batches[0])
    assert (header.is_control, header.record_count, header.leader_epoch) == (True, 3, 1)
    assert voters_in(b"".join(node.log.batches)) == [(2, Voters([ME]))]
    assert quorum.high_watermark == quorum.next_offset == 3
    assert node.recorder.high_watermarks == [3]
    await quorum.close()


async def test_every_start_leads_a_new_epoch(node: Node) -> None:
    for epoch in (1, 2, 3):
        quorum = await node.start()
        assert quorum.epoch == epoch
        await quorum.close()

    headers = [kernel.read_header(batch) for batch in node.log.batches]
    assert [(header.leader_epoch, header.record_count) for header in headers] == [(1, 3), (2, 1), (3, 1)]


async def test_an_epoch_is_not_used_twice_although_the_state_file_was_lost(
    node: Node, tmp_path: Path
) -> None:
    await (await node.start()).close()
    (tmp_path / "quorum-state").unlink()

    quorum = await node.start()

    assert quorum.epoch == 2
    await quorum.close()


async def test_appended_records_are_replayed_by_the_next_start(node: Node) -> None:
    quorum = await node.start()
    assert node.recorder.replayed == []
    assert quorum.append([b"a", b"b"]) == 4
    assert quorum.append([b"c"]) == 5
    await node.settle()
    assert node.recorder.high_watermarks == [3, 6]
    await quorum.close()

    quorum = await node.start()

    assert [(batch.last_offset, batch.epoch, batch.values) for batch in node.recorder.replayed] == [
        (4, 1, [b"a", b"b"]),
        (5, 1, [b"c"]),
    ]
    await quorum.close()


async def test_nothing_is_committed_before_a_sync_and_one_sync_commits_many_appends(node: Node) -> None:
    quorum = await node.start()
    node.log.sync_gate.clear()
    quorum.append([b"a"])
    await node.settle()
    for value in (b"b", b"c", b"d"):
        quorum.append([value])
    await node.settle()
    assert quorum.high_watermark == 3

    syncs_before = node.log.sync_count
    node.log.sync_gate.set()
    await node.settle()

    assert node.recorder.high_watermarks == [3, 4, 7]
    assert node.log.sync_count == syncs_before + 1
    await quorum.close()


async def test_a_power_cut_loses_only_uncommitted_records(node: Node) -> None:
    quorum = await node.start()
    quorum.append([b"kept"])
    await node.settle()
    node.log.sync_gate.clear()
    quorum.append([b"lost"])
    await node.settle()
    await quorum.close()
    node.log.cut_power()

    quorum = await node.start()

    assert [batch.values for batch in node.recorder.replayed] == [[b"kept"]]
    await quorum.close()


async def test_a_failed_disk_ends_the_leadership_with_the_reason(node: Node) -> None:
    quorum = await node.start()
    node.log.failure = OSError(5, "input/output error")
    quorum.append([b"a"])

    with pytest.raises(OSError, match="input/output error"):
        await quorum.ended

    assert node.recorder.has_resigned
    assert node.recorder.high_watermarks == [3]
    with pytest.raises(NotLeader):
        quorum.append([b"b"])
    await quorum.close()


async def test_a_node_that_closes_leads_no_more(node: Node) -> None:
    quorum = await node.start()

    await quorum.close()
    await quorum.close()

    assert await quorum.ended is None
    with pytest.raises(NotLeader):
        quorum.append([b"a"])


async def test_a_node_whose_disk_was_replaced_is_no_voter_any_more(node: Node) -> None:
    await (await node.start()).close()
    replaced = Voter(ReplicaKey(1, Uuid(b"new disk".ljust(16, b"\0"))))

    with pytest.raises(QuorumRefused, match="the only voter of the quorum is node 1 with another"):
        await node.start(replaced)


async def test_the_status_names_leader_voters_and_their_progress(node: Node) -> None:
    quorum = await node.start()
    node.log.sync_gate.clear()
    quorum.append([b"a"])

    status = quorum.status()

    assert (status.leader_id, status.epoch, status.high_watermark) == (1, 1, 3)
    assert [(progress.key, progress.end_offset) for progress in status.voters] == [(ME.key, 4)]
    assert status.voter_details == (ME,)
    await quorum.close()


async def test_an_append_that_fails_ends_the_leadership_at_once(node: Node) -> None:
    quorum = await node.start()
    node.log.append_failure = OSError(28, "no space left on device")

    with pytest.raises(NotLeader):
        quorum.append([b"a"])

    assert node.recorder.has_resigned
    with pytest.raises(OSError, match="no space left"):
        await quorum.ended
    await quorum.close()
