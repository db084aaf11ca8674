"""Fetch: leader epochs, followers and sessions, as seen by the handler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.datapath import Cluster, DataNode, partition_record
from harness.fetching import answers, append, fetch, only, values
from penstock.broker.handlers.fetch import handle
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import ForgottenTopic

LATEST = 18
Context = Callable[..., Any]


# -- leader epochs and followers


@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        (-1, ErrorCode.NONE),
        (4, ErrorCode.NONE),
        (3, ErrorCode.FENCED_LEADER_EPOCH),
        (5, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
async def test_readers_of_another_leadership_are_fenced(
    cluster: Cluster, node: DataNode, context: Context, epoch: int, error: ErrorCode
) -> None:
    cluster.publish(partition_record("orders", 0, leader_epoch=4))

    response = handle(node.broker, fetch(("orders", 0, 0), current_leader_epoch=epoch), context(version=9))

    assert only(response).error_code == error


@pytest.mark.parametrize(("version", "error"), [(10, ErrorCode.NOT_LEADER_OR_FOLLOWER), (11, ErrorCode.NONE)])
async def test_consumers_may_read_from_a_follower_since_version_11(
    cluster: Cluster, node: DataNode, context: Context, version: int, error: ErrorCode
) -> None:
    cluster.add_topic("copied", replicas=(2, 1))

    assert only(handle(node.broker, fetch(("copied", 0, 0)), context(version=version))).error_code == error


async def test_a_follower_reads_to_the_end_and_its_position_commits_records(
    cluster: Cluster, node: DataNode, context: Context
) -> None:
    cluster.add_topic("copied", replicas=(1, 2))
    partition = node.partition("copied")
    append(node, b"a", topic="copied")

    first = only(handle(node.broker, fetch(("copied", 0, 0), replica_id=2), context(version=15)))
    assert values(first) == [b"a"]
    assert partition.high_watermark == 0

    second = only(handle(node.broker, fetch(("copied", 0, 1), replica_id=2), context(version=12)))
    assert values(second) == []
    assert second.high_watermark == partition.high_watermark == 1


async def test_an_offset_out_of_range_commits_nothing(
    cluster: Cluster, node: DataNode, context: Context
) -> None:
    cluster.add_topic("copied", replicas=(1, 2))
    append(node, b"a", topic="copied")

    data = only(handle(node.broker, fetch(("copied", 0, 50), replica_id=2), context(version=12)))

    assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert node.partition("copied").high_watermark == 0


async def test_a_node_that_is_no_replica_is_turned_away(
    cluster: Cluster, node: DataNode, context: Context
) -> None:
    data = only(handle(node.broker, fetch(("orders", 0, 0), replica_id=7), context(version=12)))

    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_follower_gets_the_diverging_epoch(
    cluster: Cluster, node: DataNode, context: Context
) -> None:
    cluster.add_topic("copied", replicas=(1, 2))
    append(node, b"a", topic="copied")
    cluster.publish(partition_record("copied", 0, replicas=(1, 2), leader_epoch=2))
    append(node, b"b", topic="copied")
    request = fetch(("copied", 0, 2), replica_id=2, last_fetched_epoch=1, max_wait_ms=60_000)

    data = only(handle(node.broker, request, context(version=12)))

    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (0, 1)
    assert values(data) == []
    assert node.partition("copied").high_watermark == 0


async def test_a_follower_waits_for_uncommitted_records_too(
    cluster: Cluster, node: DataNode, context: Context
) -> None:
    cluster.add_topic("copied", replicas=(1, 2))
    waiting = handle(
        node.broker, fetch(("copied", 0, 0), replica_id=2, max_wait_ms=60_000), context(version=12)
    )

    append(node, b"a", topic="copied")

    assert values(only(await waiting)) == [b"a"]


# -- sessions


async def test_a_session_returns_only_partitions_with_news(
    cluster: Cluster, node: DataNode, context: Context
) -> None:
    cluster.publish(partition_record("orders", 1))
    opened = handle(
        node.broker, fetch(("orders", 0, 0), ("orders", 1, 0), session=(0, 0)), context(version=12)
    )
    session_id = opened.session_id
    assert session_id > 0
    assert len(answers(opened)) == 2

    append(node, b"a", index=1)
    second = handle(node.broker, fetch(session=(session_id, 1)), context(version=12))
    third = handle(node.broker, fetch(("orders", 1, 1), session=(session_id, 2)), context(version=12))

    assert [(data.partition_index, values(data)) for data in answers(second)] == [(1, [b"a"])]
    assert answers(third) == []
    assert second.session_id == third.session_id == session_id


async def test_a_session_waits_like_any_fetch(node: DataNode, context: Context) -> None:
    opened = handle(node.broker, fetch(("orders", 0, 0), session=(0, 0)), context(version=12))
    waiting = handle(
        node.broker, fetch(session=(opened.session_id, 1), max_wait_ms=60_000), context(version=12)
    )

    append(node, b"a")

    assert values(only(await waiting)) == [b"a"]


async def test_a_session_that_is_not_known_or_out_of_step_starts_over(
    node: DataNode, context: Context
) -> None:
    opened = handle(node.broker, fetch(("orders", 0, 0), session=(0, 0)), context(version=12))

    unknown = handle(node.broker, fetch(session=(77, 1)), context(version=12))
    skipped = handle(node.broker, fetch(session=(opened.session_id, 5)), context(version=12))

    assert unknown.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert skipped.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert unknown.responses == skipped.responses == []


async def test_a_session_by_id_sees_a_topic_that_appears_later(
    cluster: Cluster, node: DataNode, context: Context
) -> None:
    opened = handle(node.broker, fetch(("later", 0, 0), session=(0, 0)), context(version=13))
    assert only(opened).error_code == ErrorCode.UNKNOWN_TOPIC_ID

    cluster.add_topic("later")
    append(node, b"a", topic="later")
    second = handle(node.broker, fetch(session=(opened.session_id, 1)), context(version=13))

    assert values(only(second)) == [b"a"]


async def test_forgotten_partitions_are_forgotten(cluster: Cluster, node: DataNode, context: Context) -> None:
    cluster.publish(partition_record("orders", 1))
    opened = handle(
        node.broker, fetch(("orders", 0, 0), ("orders", 1, 0), session=(0, 0)), context(version=12)
    )
    append(node, b"a", index=0)
    append(node, b"b", index=1)
    request = fetch(session=(opened.session_id, 1))
    request.forgotten_topics_data = [ForgottenTopic(topic="orders", partitions=[0])]

    assert values(only(handle(node.broker, request, context(version=12)))) == [b"b"]
