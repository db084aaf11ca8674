"""The comparison of replicas finds what it must, and nothing else."""

from __future__ import annotations

import struct

import pytest

from penstock.records import kernel
from penstock.records.batch import NewRecord
from penstock.storage.layout import LOG_SUFFIX, segment_file
from simulator.cluster import SimulatedCluster
from simulator.clusters.logs import LogMatching, check_replicas_equal, folders_of
from simulator.world import BrokenPromise

PARTITION = "orders-0"
FOLDER = f"/data/{PARTITION}"


def batch(offset: int, epoch: int, value: bytes) -> bytes:
    data = bytearray(kernel.build_batch([NewRecord(1_700_000_000_000, None, value)]))
    struct.pack_into(">q", data, 0, offset)
    struct.pack_into(">i", data, 12, epoch)
    return bytes(data)


def cluster_with(logs: dict[int, list[bytes]]) -> SimulatedCluster:
    cluster = SimulatedCluster(1)
    cluster.loop.close()  # nothing runs here
    for node_id, batches in logs.items():
        write_log(cluster, node_id, batches)
    return cluster


def write_log(cluster: SimulatedCluster, node_id: int, batches: list[bytes]) -> None:
    disk = cluster.nodes[node_id].disk
    disk.make_directory(FOLDER)
    disk.write_file(f"{FOLDER}/{segment_file(0, LOG_SUFFIX)}", b"".join(batches))


A0, B1, C1 = batch(0, 1, b"a"), batch(1, 1, b"b"), batch(1, 1, b"c")
D1 = batch(1, 2, b"d")


def test_equal_logs_agree() -> None:
    cluster = cluster_with({1: [A0, B1], 2: [A0, B1], 3: [A0]})

    LogMatching(cluster).check()
    check_replicas_equal(cluster, PARTITION, [1, 2], end_offset=2)
    check_replicas_equal(cluster, PARTITION, [1, 2, 3], end_offset=1)
    assert folders_of(cluster.nodes[1]) == [PARTITION]


def test_two_batches_of_one_epoch_at_one_offset_are_found() -> None:
    with pytest.raises(BrokenPromise, match="node 2 and node 1 have different batches at offset 1"):
        LogMatching(cluster_with({1: [A0, B1], 2: [A0, C1]})).check()


def test_a_batch_that_was_truncated_meanwhile_is_remembered() -> None:
    cluster = cluster_with({1: [A0, B1]})
    matching = LogMatching(cluster)
    matching.check()
    write_log(cluster, 1, [A0])
    write_log(cluster, 2, [A0, C1])

    with pytest.raises(BrokenPromise, match="different batches"):
        matching.check()


def test_another_epoch_at_the_same_offset_is_fine_above_the_high_watermark_only() -> None:
    cluster = cluster_with({1: [A0, B1], 2: [A0, D1]})

    LogMatching(cluster).check()
    check_replicas_equal(cluster, PARTITION, [1, 2], end_offset=1)
    with pytest.raises(BrokenPromise, match="differ below the high watermark 2"):
        check_replicas_equal(cluster, PARTITION, [1, 2], end_offset=2)


def test_an_in_sync_replica_whose_log_is_too_short_is_found() -> None:
    with pytest.raises(BrokenPromise, match="its log ends at 1, before the high watermark 2"):
        check_replicas_equal(cluster_with({1: [A0, B1], 2: [A0]}), PARTITION, [1, 2], end_offset=2)


def test_the_torn_end_of_the_log_of_a_dead_node_is_ignored() -> None:
    LogMatching(cluster_with({1: [A0, B1], 2: [A0, C1[:-1]]})).check()
