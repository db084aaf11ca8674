"""AlterReplicaLogDirs: replicas move between directories while they serve."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from harness.datapath import Cluster, DataNode, make_batch, partition_record, real_runtime
from penstock.broker.handlers import alter_replica_log_dirs, describe_log_dirs
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from penstock.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from penstock.records import kernel

NOW = 1_700_000_000_000
Context = Callable[..., Any]


@pytest.fixture
async def roomy(cluster: Cluster, tmp_path: Path) -> AsyncIterator[DataNode]:
    """A node with two log directories; "orders" is in the first."""
    cluster.add_topic("orders")
    runtime = real_runtime()
    node = DataNode(cluster, [str(tmp_path / "one"), str(tmp_path / "two")], runtime)
    await node.start()
    yield node
    await node.stop()
    runtime.workers.close()


def alter(path: Path | str, *partitions: tuple[str, int]) -> AlterReplicaLogDirsRequest:
    return AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=str(path),
                topics=[AlterReplicaLogDirTopic(name=name, partitions=[index]) for name, index in partitions],
            )
        ]
    )


def errors(response: Any) -> dict[tuple[str, int], ErrorCode]:
    return {
        (topic.topic_name, partition.partition_index): partition.error_code
        for topic in response.results
        for partition in topic.partitions
    }


async def test_a_replica_moves_with_all_its_records_and_stays_available(
    roomy: DataNode, context: Context, tmp_path: Path
) -> None:
    partition = roomy.partition()
    for value in (b"a", b"b"):
        partition.append_as_leader(make_batch(value), acks=1, now_ms=NOW)

    response = alter_replica_log_dirs.handle(
        roomy.broker, alter(tmp_path / "two", ("orders", 0)), context(version=2)
    )
    partition.append_as_leader(make_batch(b"c"), acks=1, now_ms=NOW)
    move = roomy.logs.move_of("orders", 0)
    assert move is not None
    await move.wait()

    assert errors(response) == {("orders", 0): ErrorCode.NONE}
    assert roomy.partition() is partition
    assert partition.log.directory == str(tmp_path / "two")
    partition.append_as_leader(make_batch(b"d"), acks=1, now_ms=NOW)
    piece = partition.read(0, max_bytes=1 << 20, at_least_one=True)
    assert piece is not None
    data = piece.read()
    assert [header.base_offset for header in kernel.read_headers(data)] == [0, 1, 2, 3]
    assert not (tmp_path / "one" / "orders-0").exists()
    assert (tmp_path / "two" / "orders-0").is_dir()


async def test_a_move_in_progress_is_shown_as_a_future_replica(
    roomy: DataNode, context: Context, tmp_path: Path
) -> None:
    roomy.partition().append_as_leader(make_batch(b"a", b"b"), acks=1, now_ms=NOW)
    alter_replica_log_dirs.handle(roomy.broker, alter(tmp_path / "two", ("orders", 0)), context(version=2))
    move = roomy.logs.move_of("orders", 0)
    assert move is not None
    while move.copy is None and not move.is_done:
        await asyncio.sleep(0)

    response = describe_log_dirs.handle(roomy.broker, DescribeLogDirsRequest(topics=None), context(version=4))

    shown = {
        directory.log_dir: [part.is_future_key for topic in directory.topics for part in topic.partitions]
        for directory in response.results
    }
    assert shown == {str(tmp_path / "one"): [False], str(tmp_path / "two"): [True]}
    await move.wait()


async def test_moving_to_the_current_directory_changes_nothing(
    roomy: DataNode, context: Context, tmp_path: Path
) -> None:
    response = alter_replica_log_dirs.handle(
        roomy.broker, alter(tmp_path / "one", ("orders", 0)), context(version=1)
    )

    assert errors(response) == {("orders", 0): ErrorCode.NONE}
    assert roomy.logs.move_of("orders", 0) is None


async def test_a_replica_that_is_not_here_yet_is_created_where_it_was_asked_for(
    cluster: Cluster, roomy: DataNode, context: Context, tmp_path: Path
) -> None:
    cluster.add_topic("theirs", replicas=(2,))
    early = alter_replica_log_dirs.handle(
        roomy.broker, alter(tmp_path / "one", ("theirs", 0)), context(version=2)
    )
    assert errors(early) == {("theirs", 0): ErrorCode.REPLICA_NOT_AVAILABLE}

    cluster.publish(partition_record("theirs", 0, replicas=(2, 1), leader_epoch=1))

    assert roomy.partition("theirs").log.directory == str(tmp_path / "one")


async def test_an_invalid_move_is_refused(
    cluster: Cluster, roomy: DataNode, context: Context, tmp_path: Path
) -> None:
    def error(path: Path | str, topic: str, index: int = 0) -> ErrorCode:
        response = alter_replica_log_dirs.handle(
            roomy.broker, alter(path, (topic, index)), context(version=2)
        )
        return errors(response)[topic, index]

    assert error("/nowhere", "orders") == ErrorCode.LOG_DIR_NOT_FOUND
    assert error(tmp_path / "two", "absent") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert error(tmp_path / "two", "orders", 5) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    roomy.logs.directories[1].io.fail(OSError("broken"), "testing")
    assert error(tmp_path / "two", "orders") == ErrorCode.KAFKA_STORAGE_ERROR
    roomy.logs.directories[0].io.fail(OSError("broken"), "testing")
    assert error(tmp_path / "one", "orders") == ErrorCode.KAFKA_STORAGE_ERROR
