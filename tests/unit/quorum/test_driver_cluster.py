"""Three drivers elect a leader, replicate, and survive the loss of one."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.metadata.image import EMPTY_IMAGE, MetadataImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from penstock.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from penstock.protocol.messages.update_raft_voter import KRaftVersionFeature, UpdateRaftVoterRequest
from penstock.protocol.messages.update_raft_voter import Listener as UpdatedListener
from penstock.protocol.messages.vote import VoteRequest
from penstock.quorum.core import CommittedRecordsLost
from penstock.quorum.driver import CorruptMetadataLog, NotLeader, QuorumRefused
from penstock.quorum.log import data_batches
from penstock.quorum.messages import FetchRequest, Peer
from penstock.quorum.messages import VoteRequest as VoteOfCandidate
from penstock.quorum.peers import Sender
from penstock.quorum.settings import QuorumSettings
from penstock.quorum.voters import KRaftVersions, ReplicaKey
from penstock.quorum.wire import encode_request
from unit.quorum.clusters import Cluster, Member, virtual
from unit.quorum.fakes import MemoryLog, SlowWorkers


@virtual
async def test_three_voters_elect_a_leader_and_replicate(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    await cluster.start()

    leader = await cluster.leader()
    assert leader.quorum is not None
    last_offset = leader.quorum.append([b"a", b"b"])
    followers = [member for member in cluster if member is not leader]
    await cluster.until(
        lambda: all(member.values == [b"a", b"b"] for member in followers), "all have replayed"
    )

    assert leader.values == [], "the leader has applied its own records"
    for member in cluster:
        assert member.recorder.high_watermarks[-1] == last_offset + 1
        assert member.log.batches == leader.log.batches
        assert member.recorder.leaders[-1] == (leader.node_id, leader.quorum.epoch)
    await cluster.stop()


@virtual
async def test_a_commit_reaches_a_follower_within_round_trips(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    await cluster.start()
    leader = await cluster.leader()
    await asyncio.sleep(1)
    assert leader.quorum is not None
    loop = asyncio.get_running_loop()

    began = loop.time()
    leader.quorum.append([b"a"])
    follower = next(member for member in cluster if member is not leader)
    while follower.values != [b"a"]:
        await asyncio.sleep(0.0005)

    # The fetch that waits gets the record (1 way), the next one acknowledges (1), its answer has the commit (1).
    assert loop.time() - began < 4.5 * cluster.network.delay_s
    await cluster.stop()


@virtual
async def test_the_others_elect_a_leader_if_the_leader_crashes(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    await cluster.start()
    first = await cluster.leader()
    assert first.quorum is not None
    first.quorum.append([b"committed"])
    await cluster.until(
        lambda: all(len(member.values) == 1 for member in cluster if member is not first), "copied"
    )

    first.crash()
    second = await cluster.leader()
    assert second.quorum is not None
    second.quorum.append([b"later"])
    third = next(member for member in cluster if member not in (first, second))
    await cluster.until(lambda: third.values == [b"committed", b"later"], "the third has both")
    await first.start()
    await cluster.until(lambda: first.values == [b"committed", b"later"], "the first has both")

    assert second.recorder.elections == [second.quorum.epoch]
    await cluster.stop()


@virtual
async def test_a_leader_without_followers_resigns_and_its_records_are_truncated(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    await cluster.start()
    first = await cluster.leader()
    assert first.quorum is not None
    cluster.network.isolate(first.node_id)
    first.quorum.append([b"lost"])

    second = await cluster.leader(but=(first.node_id,))
    assert second.quorum is not None
    second.quorum.append([b"kept"])
    await cluster.until(lambda: first.recorder.has_resigned, "the first has resigned")
    with pytest.raises(NotLeader):
        first.quorum.append([b"too late"])
    cluster.network.heal()
    await cluster.until(lambda: first.values == [b"kept"], "the first has caught up")

    assert first.log.truncations
    assert first.log.batches == second.log.batches
    await cluster.stop()


@virtual
async def test_a_leader_that_loses_its_epoch_while_it_replays_is_not_announced(tmp_path: Path) -> None:
    """It was announced while the new epoch was being saved. The controller wrote the first records of the cluster, got
    NOT_CONTROLLER, and its node stopped with "This is a bug"."""
    cluster = Cluster(tmp_path)
    workers = {member.node_id: SlowWorkers() for member in cluster}
    for member in cluster:
        member.log.read_s = 0.1
        await member.start(cluster.voters, workers=workers[member.node_id])
    await cluster.until(lambda: any(member.log.high_watermark for member in cluster), "committed")
    first = next(member for member in cluster if member.log.high_watermark)
    assert first.quorum is not None
    second = next(member for member in cluster if member is not first)
    epoch = first.quorum.epoch
    vote = VoteOfCandidate(
        1, epoch + 1, second.voter.key, first.voter.key, last_epoch=epoch, last_offset=first.log.end_offset
    )
    request = encode_request(vote, Sender("cluster", 1000, 1000), Peer(first.node_id, "", 0))

    workers[first.node_id].owed_s = 0.5  # the save takes longer than the replay
    answered = asyncio.ensure_future(first.quorum.handle(request, version=2))
    await asyncio.sleep(0.3)

    assert not answered.done()
    assert first.recorder.elections == []
    await cluster.stop()


@virtual
async def test_a_leader_that_stops_is_followed_at_once(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    await cluster.start()
    first = await cluster.leader()
    loop = asyncio.get_running_loop()
    began = loop.time()

    await first.stop()
    await cluster.leader(but=(first.node_id,))

    assert loop.time() - began < 0.5, "no election timeout passed"
    await cluster.stop()


@virtual
async def test_an_observer_finds_the_leader_and_replays(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    await cluster.start()
    leader = await cluster.leader()
    assert leader.quorum is not None
    leader.quorum.append([b"a"])

    broker = Member(9, tmp_path / "9", cluster.network)
    bootstrap = (("host1", 9093), ("host2", 9093))
    await broker.start(settings=QuorumSettings(bootstrap=bootstrap), is_controller=False)
    await cluster.until(lambda: broker.values == [b"a"], "the broker has the record")

    status = leader.quorum.status()
    assert [observer.key for observer in status.observers] == [broker.voter.key]
    assert status.observers[0].end_offset >= 0
    assert [voter.key.node_id for voter in status.voters] == [1, 2, 3]
    broker.crash()
    await cluster.stop()


@virtual
async def test_a_follower_of_a_leader_that_cuts_its_responses_within_a_batch_catches_up(
    tmp_path: Path,
) -> None:
    """As Kafka does when it fills a response up to the limit of the fetch."""
    cluster = Cluster(tmp_path)
    await cluster.start()
    leader = await cluster.leader()
    assert leader.quorum is not None
    lagging = next(member for member in cluster if member is not leader)
    lagging.crash()
    for number in range(20):
        leader.quorum.append([b"value %d" % number])
    load, limit_bytes = leader.log.load, 500

    async def load_cut(offset: int, *, max_bytes: int, end_offset: int) -> bytes:
        return (await load(offset, max_bytes=max_bytes, end_offset=end_offset))[:limit_bytes]

    leader.log.load = load_cut  # type: ignore[method-assign]

    await lagging.start()
    await cluster.until(lambda: lagging.log.batches == leader.log.batches, "the follower has all records")

    assert leader.log.size_bytes > 2 * limit_bytes
    assert lagging.quorum is not None
    assert lagging.quorum.failure is None
    await cluster.stop()


def image_at(member: Member) -> MetadataImage:
    """An image with one feature per replayed or appended value, as a controller would have it."""
    batches = data_batches(b"".join(member.log.batches), start_offset=0, end_offset=member.log.high_watermark)
    features = {value.decode(): 1 for batch in batches for value in batch.values}
    offset, epoch = (batches[-1].last_offset, batches[-1].epoch) if batches else (-1, 0)
    return replace(EMPTY_IMAGE, features=features, offset=offset, epoch=epoch)


@virtual
async def test_a_follower_that_is_behind_the_log_fetches_the_snapshot(tmp_path: Path) -> None:
    settings = QuorumSettings(snapshot_after_bytes=200, snapshot_fetch_bytes_max=100, retention_bytes=1)
    cluster = Cluster(tmp_path, settings=settings)
    await cluster.start()
    leader = await cluster.leader()
    assert leader.quorum is not None
    lagging = next(member for member in cluster if member is not leader)
    lagging.crash()
    await asyncio.sleep(1)
    for number in range(20):
        leader.image = image_at(leader)
        leader.quorum.append([b"feature-%d" % number])
        await asyncio.sleep(0.05)
    await cluster.until(lambda: leader.log.start_offset > 10, "the log is deleted below a snapshot")

    await lagging.start(settings=settings)
    await cluster.until(lambda: bool(lagging.recorder.snapshots), "the snapshot is loaded")
    await cluster.until(
        lambda: lagging.log.end_offset == leader.log.end_offset, "the rest of the log is fetched, too"
    )

    snapshot_id = lagging.recorder.snapshots[-1]
    assert lagging.log.start_offset == snapshot_id.end_offset
    assert lagging.recorder.high_watermarks[-1] == leader.quorum.high_watermark
    # The records of the image are features, so they differ from the appended values; those after it do not.
    later = [
        batch.values for batch in lagging.recorder.replayed if batch.last_offset >= snapshot_id.end_offset
    ]
    assert later == [[b"feature-%d" % number] for number in range(20 - len(later), 20)]

    lagging.crash()
    await lagging.start(settings=settings)
    assert lagging.recorder.snapshots == [snapshot_id], "the snapshot is loaded from the own disk"
    await cluster.stop()


@virtual
async def test_a_restarted_follower_stops_if_the_leader_has_lost_what_was_committed_before(
    tmp_path: Path,
) -> None:
    """Two of three controllers with static voters come back with empty disks, and elect one of them."""
    cluster = Cluster(tmp_path)
    await cluster.start()
    leader = await cluster.leader()
    assert leader.quorum is not None
    for number in range(5):
        leader.quorum.append([b"%d" % number])
    await asyncio.sleep(1)
    kept = next(member for member in cluster if member is not leader)
    committed_offset = kept.log.high_watermark
    for member in cluster:
        member.crash()
        if member is not kept:
            shutil.rmtree(member.folder)
            member.log = MemoryLog()
            await member.start(cluster.voters)
    for _ in range(2):  # until the epoch of the new log is above that of the old one
        wiped = await cluster.leader()
        await wiped.stop()
        await wiped.start(cluster.voters)
    await cluster.leader()

    kept.log.committed_offset = committed_offset
    quorum = await kept.start(cluster.voters)

    with pytest.raises(CommittedRecordsLost, match=f"committed up to {committed_offset}"):
        await asyncio.wait_for(quorum.ended, timeout=10)
    assert kept.log.truncations == []
    assert kept.values == [b"%d" % number for number in range(5)]
    await cluster.stop()


@virtual
async def test_a_node_replays_what_was_committed_before_it_finds_the_leader(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    await cluster.start()
    leader = await cluster.leader()
    assert leader.quorum is not None
    leader.quorum.append([b"a"])
    follower = next(member for member in cluster if member is not leader)
    await cluster.until(lambda: follower.values == [b"a"], "the record is committed")
    follower.log.committed_offset = follower.log.high_watermark
    for member in cluster:
        member.crash()

    await follower.start()
    await asyncio.sleep(0.1)

    assert follower.values == [b"a"]
    assert follower.recorder.high_watermarks == [follower.log.committed_offset]
    await cluster.stop()


@virtual
async def test_a_node_with_a_damaged_snapshot_does_not_start_and_says_what_to_do(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, count=1, settings=QuorumSettings(snapshot_after_bytes=200))
    await cluster.start()
    node = await cluster.leader()
    assert node.quorum is not None
    for number in range(10):
        node.image = image_at(node)
        node.quorum.append([b"feature-%d" % number])
        await asyncio.sleep(0.05)
    node.crash()
    newest = max(node.folder.glob("*.checkpoint"))
    data = bytearray(newest.read_bytes())
    data[-5] ^= 1
    newest.write_bytes(data)

    with pytest.raises(CorruptMetadataLog, match=r"damaged.*restore the folder.*do not just delete it"):
        await node.start()


@virtual
async def test_a_node_with_a_damaged_log_does_not_start_and_says_what_to_do(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, count=1)
    await cluster.start()
    node = await cluster.leader()
    assert node.quorum is not None
    node.quorum.append([b"value"])
    await asyncio.sleep(0.1)
    node.crash()
    damaged = bytearray(node.log.batches[-1])
    damaged[-3] ^= 1
    node.log.batches[-1] = bytes(damaged)

    with pytest.raises(CorruptMetadataLog, match=r"the metadata log in .* is damaged"):
        await node.start()


@virtual
async def test_a_request_of_another_cluster_is_rejected_and_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster(tmp_path)
    await cluster.start()
    leader = await cluster.leader()
    assert leader.quorum is not None
    request = VoteRequest(cluster_id="other", voter_id=1, topics=[])

    for _ in range(3):
        response = await leader.quorum.handle(request, version=2)
        assert response.error_code is ErrorCode.INCONSISTENT_CLUSTER_ID

    assert [record.levelname for record in caplog.records if "cluster other" in record.message] == ["WARNING"]
    await cluster.stop()


@virtual
async def test_a_disk_that_fails_ends_the_quorum_of_that_node_only(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    await cluster.start()
    first = await cluster.leader()
    assert first.quorum is not None
    first.log.failure = OSError(5, "input/output error")
    first.quorum.append([b"a"])

    with pytest.raises(OSError, match="input/output error"):
        await first.quorum.ended
    assert first.recorder.has_resigned
    second = await cluster.leader(but=(first.node_id,))
    assert second.quorum is not None
    second.quorum.append([b"b"])
    third = next(member for member in cluster if member not in (first, second))
    await cluster.until(lambda: b"b" in third.values, "the others go on")
    await cluster.stop()


@virtual
async def test_a_node_formatted_for_another_cluster_gives_up_with_a_message(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster(tmp_path)
    cluster[3].cluster_id = "other"
    await cluster.start()

    stranger = cluster[3].quorum
    assert stranger is not None
    with pytest.raises(
        QuorumRefused, match=r"host1:9093, host2:9093 belong to another cluster.*cluster id other"
    ):
        await stranger.ended
    leader = await cluster.leader(but=(3,))
    assert leader.quorum is not None
    leader.quorum.append([b"a"])
    other = next(member for member in cluster if member not in (leader, cluster[3]))
    await cluster.until(lambda: other.values == [b"a"], "the other two go on")

    warnings = [
        record.message for record in caplog.records if "host3:9093 belongs to another" in record.message
    ]
    assert len(warnings) <= 2, "once for each of the other two"
    await cluster.stop()


@virtual
async def test_a_log_that_cannot_be_read_for_a_follower_ends_the_quorum_of_that_node(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    await cluster.start()
    first = await cluster.leader()
    assert first.quorum is not None
    quorum = first.quorum

    async def fail(offset: int, *, max_bytes: int, end_offset: int) -> bytes:
        raise OSError(5, "input/output error")

    first.log.load = fail  # type: ignore[method-assign]
    quorum.append([b"a"])

    with pytest.raises(OSError, match="input/output error"):
        await quorum.ended
    await cluster.leader(but=(first.node_id,))
    await cluster.stop()


@virtual
async def test_a_controller_joins_as_a_voter_and_the_leader_is_removed(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    await cluster.start()
    first = await cluster.leader()
    assert first.quorum is not None
    fourth = Member(4, tmp_path / "4", cluster.network)
    await fourth.start(settings=QuorumSettings(bootstrap=(("host1", 9093),)))
    cluster.members.append(fourth)
    await cluster.until(
        lambda: fourth.log.end_offset == first.log.end_offset, "the new controller has caught up"
    )

    added = await first.quorum.handle(
        AddRaftVoterRequest(
            cluster_id="cluster",
            timeout_ms=5000,
            voter_id=4,
            voter_directory_id=fourth.voter.key.directory_id,
            listeners=[Listener(name="CONTROLLER", host="host4", port=9093)],
        ),
        version=1,
    )
    assert (added.error_code, added.error_message) == (ErrorCode.NONE, None)
    removed = await first.quorum.handle(
        RemoveRaftVoterRequest(
            cluster_id="cluster",
            voter_id=first.node_id,
            voter_directory_id=first.voter.key.directory_id,
        ),
        version=0,
    )
    assert removed.error_code is ErrorCode.NONE
    second = await cluster.leader(but=(first.node_id,))
    assert second.quorum is not None
    second.quorum.append([b"a"])
    await cluster.until(
        lambda: all(b"a" in member.values for member in cluster if member is not second),
        "all have the record",
    )

    status = second.quorum.status()
    assert [voter.key.node_id for voter in status.voters] == [n for n in (1, 2, 3, 4) if n != first.node_id]
    assert [observer.key.node_id for observer in status.observers] == [first.node_id]
    await cluster.stop()


@virtual
async def test_a_voter_that_supports_other_kraft_versions_does_not_end_the_leader(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    await cluster.start()
    leader = await cluster.leader()
    assert leader.quorum is not None
    other = next(member for member in cluster if member is not leader)
    versions = KRaftVersions(0, 2)

    updated = await leader.quorum.handle(
        UpdateRaftVoterRequest(
            cluster_id="cluster",
            current_leader_epoch=leader.quorum.epoch,
            voter_id=other.node_id,
            voter_directory_id=other.voter.key.directory_id,
            listeners=[UpdatedListener(name="CONTROLLER", host=f"host{other.node_id}", port=9093)],
            k_raft_version_feature=KRaftVersionFeature(
                min_supported_version=versions.lowest, max_supported_version=versions.highest
            ),
        ),
        version=0,
    )
    await cluster.until(
        lambda: all(member.log.end_offset == leader.log.end_offset for member in cluster), "all have it"
    )

    assert updated.error_code is ErrorCode.NONE
    assert leader.quorum.failure is None
    for member in cluster:
        assert member.quorum is not None
        (found,) = (voter for voter in member.quorum.status().voter_details if voter.key == other.voter.key)
        assert found.kraft_versions == versions
    await cluster.stop()


@virtual
async def test_a_slow_read_of_the_log_does_not_meet_a_truncation(tmp_path: Path) -> None:
    """Replays and fetches that are under way when the log is truncated neither fail nor return other records."""
    cluster = Cluster(tmp_path)
    await cluster.start()
    for member in cluster:
        member.log.read_s = 0.03
    for round_ in range(4):
        leader = await cluster.leader()
        assert leader.quorum is not None
        for number in range(5):
            leader.quorum.append([b"%d/%d" % (round_, number)])
            await asyncio.sleep(0.01)
        cluster.network.isolate(leader.node_id)
        leader.quorum.append([b"lost"])
        second = await cluster.leader(but=(leader.node_id,))
        assert second.quorum is not None
        second.quorum.append([b"%d" % round_])
        cluster.network.heal()
        await cluster.until(
            lambda: len({member.log.end_offset for member in cluster}) == 1, "all logs are equally long"
        )

    assert all(member.quorum is not None and member.quorum.failure is None for member in cluster)
    assert cluster[1].log.batches == cluster[2].log.batches == cluster[3].log.batches
    assert sum(len(member.log.truncations) for member in cluster) > 0
    await cluster.stop()


@virtual
async def test_a_fetch_of_records_that_were_just_deleted_is_answered_without_records(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    await cluster.start()
    leader = await cluster.leader()
    assert leader.quorum is not None
    for number in range(5):
        leader.quorum.append([b"%d" % number])
    await asyncio.sleep(1)
    leader.log.read_s = 0.05
    request = encode_request(
        FetchRequest(1, leader.quorum.epoch, ReplicaKey(9), fetch_offset=0, last_fetched_epoch=0),
        Sender("cluster", 1000, 1000),
        Peer(leader.node_id, "", 0),
    )

    asked = asyncio.ensure_future(leader.quorum.handle(request, version=18))
    await asyncio.sleep(0.01)
    leader.log.delete_before(5)
    response = await asked

    (partition,) = response.responses[0].partitions
    assert (partition.error_code, bytes(partition.records)) == (ErrorCode.NONE, b"")
    assert leader.quorum.failure is None
    await cluster.stop()
