"""A follower that is far behind fetches a snapshot: slow disks, lost pieces, and elections meanwhile."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from penstock.protocol.messages import vote
from penstock.quorum.messages import NO_NODE
from penstock.quorum.settings import QuorumSettings
from unit.quorum.clusters import Cluster, Member, virtual
from unit.quorum.fakes import SlowSnapshotDisk, SlowWorkers
from unit.quorum.test_driver_cluster import image_at

SETTINGS = QuorumSettings(snapshot_after_bytes=200, snapshot_fetch_bytes_max=50, retention_bytes=1)
SLOW_SYNC_S = 3 * SETTINGS.timeouts.fetch_ms / 1000


async def cluster_with_a_lagging_member(folder: Path) -> tuple[Cluster, Member, Member]:
    """The cluster, its leader, and a member that is down and needs a snapshot when it comes back."""
    cluster = Cluster(folder, settings=SETTINGS)
    await cluster.start()
    leader = await cluster.leader()
    assert leader.quorum is not None
    lagging = next(member for member in cluster if member is not leader)
    lagging.crash()
    for number in range(20):
        for member in cluster:
            member.image = image_at(member)
        leader.quorum.append([b"feature-%d" % number])
        await asyncio.sleep(0.05)
    await cluster.until(
        lambda: all(member.log.start_offset > 10 for member in cluster if member is not lagging),
        "the logs are deleted below a snapshot",
    )
    cluster.network.sent.clear()
    return cluster, leader, lagging


async def start_with_a_slow_disk(member: Member) -> SlowSnapshotDisk:
    workers = SlowWorkers()
    disk = SlowSnapshotDisk(workers, SLOW_SYNC_S)
    await member.start(settings=SETTINGS, snapshot_disk=disk, workers=workers)
    return disk


def pieces_asked_for(cluster: Cluster, member: Member) -> int:
    return sum(
        sender == member.node_id and name == "FetchSnapshotRequest"
        for sender, _, name in cluster.network.sent
    )


def pieces_of(member: Member) -> int:
    """The number of requests that its newest snapshot takes."""
    size = os.path.getsize(max(member.folder.glob("*.checkpoint")))
    return -(-size // SETTINGS.snapshot_fetch_bytes_max)


def assert_caught_up(member: Member, leader: Member) -> None:
    assert member.quorum is not None
    assert member.quorum.failure is None
    assert member.log.end_offset == leader.log.end_offset
    assert not list(member.folder.glob("*.part")), "nothing of another attempt is left"


@virtual
async def test_a_snapshot_that_is_synced_more_slowly_than_the_fetch_timeout_is_installed(
    tmp_path: Path,
) -> None:
    cluster, leader, lagging = await cluster_with_a_lagging_member(tmp_path)

    disk = await start_with_a_slow_disk(lagging)
    await cluster.until(lambda: lagging.log.end_offset == leader.log.end_offset, "it has caught up")

    assert_caught_up(lagging, leader)
    assert disk.sync_count == 1
    assert pieces_asked_for(cluster, lagging) == pieces_of(leader), "every piece was fetched once"
    assert not any(
        sender == lagging.node_id and name == "VoteRequest" for sender, _, name in cluster.network.sent
    ), "it asked for no election: the leader was there all the time"
    await cluster.stop()


@virtual
async def test_others_elect_a_leader_while_a_snapshot_is_synced_and_it_is_installed_after_that(
    tmp_path: Path,
) -> None:
    cluster, leader, lagging = await cluster_with_a_lagging_member(tmp_path)
    loop = asyncio.get_running_loop()
    disk = await start_with_a_slow_disk(lagging)
    await cluster.until(lambda: disk.sync_count == 1, "all pieces are here")
    synced_at = loop.time() + SLOW_SYNC_S
    asked = pieces_asked_for(cluster, lagging)

    leader.crash()
    second = next(member for member in cluster if member not in (leader, lagging))
    assert lagging.quorum is not None
    follower = lagging.quorum
    await cluster.until(lambda: follower.leader.leader_id == second.node_id, "it has another leader")

    assert loop.time() < synced_at
    await cluster.until(lambda: lagging.log.end_offset == second.log.end_offset, "it has caught up")
    assert_caught_up(lagging, second)
    assert pieces_asked_for(cluster, lagging) == asked
    await cluster.stop()


@virtual
async def test_a_snapshot_that_is_complete_during_an_election_is_kept(tmp_path: Path) -> None:
    cluster, leader, lagging = await cluster_with_a_lagging_member(tmp_path)
    disk = await start_with_a_slow_disk(lagging)
    await cluster.until(lambda: disk.sync_count == 1, "all pieces are here")
    assert lagging.quorum is not None
    assert leader.quorum is not None
    asked = pieces_asked_for(cluster, lagging)

    await asyncio.sleep(SLOW_SYNC_S - 0.1)
    await lagging.quorum.handle(vote_of_a_stranger(leader.quorum.epoch + 1), version=2)
    cluster.network.isolate(lagging.node_id)
    await asyncio.sleep(0.5)
    assert lagging.quorum.leader.leader_id == NO_NODE
    assert not lagging.recorder.snapshots
    cluster.network.heal()
    await cluster.until(lambda: bool(lagging.recorder.snapshots), "the snapshot is installed")

    new_leader = await cluster.leader()
    await cluster.until(lambda: lagging.log.end_offset == new_leader.log.end_offset, "it has caught up")
    assert_caught_up(lagging, new_leader)
    assert pieces_asked_for(cluster, lagging) == asked
    await cluster.stop()


def vote_of_a_stranger(epoch: int) -> vote.VoteRequest:
    """Its log is empty, so it gets no vote, but its epoch counts."""
    partition = vote.VoteRequestPartition(
        partition_index=0,
        replica_epoch=epoch,
        replica_id=9,
        last_offset_epoch=0,
        last_offset=0,
    )
    topic = vote.VoteRequestTopic(topic_name="__cluster_metadata", partitions=[partition])
    return vote.VoteRequest(cluster_id="cluster", voter_id=-1, topics=[topic])


@virtual
async def test_a_lost_piece_is_fetched_again_and_not_the_whole_snapshot(tmp_path: Path) -> None:
    cluster, leader, lagging = await cluster_with_a_lagging_member(tmp_path)
    await lagging.start(settings=SETTINGS)
    await cluster.until(lambda: pieces_asked_for(cluster, lagging) > 2, "some pieces are here")

    cluster.network.fails += ["FetchSnapshotRequest"] * 3
    await cluster.until(lambda: lagging.log.end_offset == leader.log.end_offset, "it has caught up")

    assert_caught_up(lagging, leader)
    assert pieces_asked_for(cluster, lagging) == pieces_of(leader) + 3
    await cluster.stop()


@virtual
async def test_a_download_from_a_leader_that_crashes_starts_again_at_the_next_one(tmp_path: Path) -> None:
    cluster, leader, lagging = await cluster_with_a_lagging_member(tmp_path)
    await lagging.start(settings=SETTINGS)
    await cluster.until(lambda: pieces_asked_for(cluster, lagging) > 2, "some pieces are here")

    leader.crash()
    second = await cluster.leader(but=(leader.node_id,))
    await cluster.until(lambda: lagging.log.end_offset == second.log.end_offset, "it has caught up")

    assert_caught_up(lagging, second)
    assert lagging.recorder.snapshots
    await cluster.stop()


@virtual
async def test_a_node_that_stops_during_a_download_does_not_wait_for_a_hanging_disk(tmp_path: Path) -> None:
    cluster, _, lagging = await cluster_with_a_lagging_member(tmp_path)
    disk = await start_with_a_slow_disk(lagging)
    await cluster.until(lambda: disk.sync_count == 1, "all pieces are here")
    loop = asyncio.get_running_loop()
    began = loop.time()

    await lagging.stop()

    assert loop.time() - began < SLOW_SYNC_S / 2
    await cluster.stop()
