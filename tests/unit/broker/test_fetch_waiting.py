"""Fetch: when a request waits, and what ends the wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from harness.datapath import Cluster, DataNode, partition_record
from harness.fetching import NOW, answers, append, fetch, only, values
from penstock.broker.handlers.fetch import handle
from penstock.protocol.errors import ErrorCode
from penstock.runtime.disk import RealFile
from penstock.runtime.network import FileSlice
from penstock.storage import pages
from penstock.storage.settings import LogSettings

LATEST = 18
Context = Callable[..., Any]


# -- waiting


async def test_a_fetch_waits_for_the_next_append(node: DataNode, context: Context) -> None:
    waiting = handle(node.broker, fetch(("orders", 0, 0), max_wait_ms=60_000), context(version=12))
    assert isinstance(waiting, asyncio.Future)

    append(node, b"a")

    assert values(only(await waiting)) == [b"a"]


async def test_a_fetch_waits_for_min_bytes(node: DataNode, context: Context) -> None:
    size = append(node, b"x" * 100)
    waiting = handle(
        node.broker, fetch(("orders", 0, 0), max_wait_ms=60_000, min_bytes=3 * size), context(version=12)
    )

    append(node, b"x" * 100)
    for _ in range(3):
        await asyncio.sleep(0)
    assert not waiting.done()
    append(node, b"x" * 100)

    assert len(values(only(await waiting))) == 3


async def test_a_fetch_does_not_wait_at_the_end_of_a_segment_while_there_is_another(
    cluster: Cluster, node: DataNode, context: Context
) -> None:
    for value in (b"a", b"b"):
        append(node, value, timestamp=NOW)
        node.partition().log.settings = LogSettings(segment_bytes=100)  # each batch needs its own
    assert len(node.partition().log.segments) == 2
    request = fetch(("orders", 0, 0), max_wait_ms=60_000, min_bytes=10_000)

    answer = handle(node.broker, request, context(version=12))

    assert values(only(answer)) == [b"a"]
    at_the_end = fetch(("orders", 0, 1), max_wait_ms=60_000, min_bytes=10_000)
    waiting = handle(node.broker, at_the_end, context(version=12))
    assert isinstance(waiting, asyncio.Future)
    waiting.cancel()


async def test_bytes_of_all_partitions_count_together(
    cluster: Cluster, node: DataNode, context: Context
) -> None:
    cluster.publish(partition_record("orders", 1))
    size = append(node, b"x" * 100)
    waiting = handle(
        node.broker,
        fetch(("orders", 0, 0), ("orders", 1, 0), max_wait_ms=60_000, min_bytes=2 * size),
        context(version=12),
    )

    append(node, b"y" * 100, index=1)

    assert [len(values(data)) for data in answers(await waiting)] == [1, 1]


async def test_after_max_wait_the_available_records_are_returned(node: DataNode, context: Context) -> None:
    append(node, b"a")
    request = fetch(("orders", 0, 0), max_wait_ms=1, min_bytes=10_000)

    assert values(only(await handle(node.broker, request, context(version=12)))) == [b"a"]


@pytest.mark.parametrize(("max_wait_ms", "min_bytes"), [(0, 1), (60_000, 0), (-1, 1)])
async def test_a_fetch_with_max_wait_0_does_not_wait(
    node: DataNode, context: Context, max_wait_ms: int, min_bytes: int
) -> None:
    request = fetch(("orders", 0, 0), max_wait_ms=max_wait_ms, min_bytes=min_bytes)

    assert values(only(handle(node.broker, request, context(version=12)))) == []


async def test_an_empty_fetch_gets_its_response_at_once(node: DataNode, context: Context) -> None:
    assert answers(handle(node.broker, fetch(max_wait_ms=60_000), context(version=12))) == []


async def test_an_error_ends_the_wait_of_the_others(node: DataNode, context: Context) -> None:
    request = fetch(("orders", 0, 99), max_wait_ms=60_000)

    response = handle(node.broker, request, context(version=12))

    assert only(response).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_an_unknown_topic_does_not_end_the_wait_of_the_others(node: DataNode, context: Context) -> None:
    request = fetch(("orders", 0, 0), ("absent", 0, 0), max_wait_ms=60_000)
    waiting = handle(node.broker, request, context(version=12))
    assert isinstance(waiting, asyncio.Future)

    append(node, b"a")

    known, unknown = answers(await waiting)
    assert values(known) == [b"a"]
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_unknown_topics_alone_are_not_worth_waiting_for(node: DataNode, context: Context) -> None:
    response = handle(node.broker, fetch(("absent", 0, 0), max_wait_ms=60_000), context(version=12))

    assert only(response).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_topic_that_is_deleted_ends_the_wait(
    cluster: Cluster, node: DataNode, context: Context
) -> None:
    waiting = handle(node.broker, fetch(("orders", 0, 0), max_wait_ms=60_000), context(version=12))

    cluster.delete_topic("orders")

    assert only(await waiting).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_leader_change_ends_the_wait_and_returns_the_new_leader(
    cluster: Cluster, node: DataNode, context: Context
) -> None:
    cluster.add_broker(2)
    cluster.add_topic("copied", replicas=(1, 2))
    request = fetch(("copied", 0, 0), max_wait_ms=60_000, current_leader_epoch=0)
    waiting = handle(node.broker, request, context(version=16))

    cluster.publish(partition_record("copied", 0, replicas=(1, 2), leader=2, leader_epoch=1))

    response = await waiting
    data = only(response)
    assert data.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (2, 1)
    assert [(at.node_id, at.host) for at in response.node_endpoints] == [(2, "plaintext-2")]


async def test_a_disconnected_client_leaves_no_wait_behind(node: DataNode, context: Context) -> None:
    waiting = handle(node.broker, fetch(("orders", 0, 0), max_wait_ms=60_000), context(version=12))

    waiting.cancel()
    await asyncio.sleep(0)

    assert not node.partition().purgatory.fetches


async def test_a_completed_fetch_leaves_no_wait_behind(node: DataNode, context: Context) -> None:
    waiting = handle(node.broker, fetch(("orders", 0, 0), max_wait_ms=60_000), context(version=12))
    append(node, b"a")
    await waiting

    await asyncio.sleep(0)

    assert not node.partition().purgatory.fetches


async def test_uncommitted_records_are_not_returned(
    cluster: Cluster, node: DataNode, context: Context
) -> None:
    cluster.add_topic("copied", replicas=(1, 2))
    append(node, b"a", topic="copied")

    assert values(only(handle(node.broker, fetch(("copied", 0, 0)), context(version=12)))) == []

    waiting = handle(node.broker, fetch(("copied", 0, 0), max_wait_ms=60_000), context(version=12))
    node.partition("copied").follower_fetched(2, end_offset=1, start_offset=0, leader_epoch=0, now_ms=NOW)
    assert values(only(await waiting)) == [b"a"]


# -- cold reads


def note_loads(monkeypatch: pytest.MonkeyPatch) -> list[FileSlice]:
    """Empties the page cache; returns the list of later reads."""
    loaded: list[FileSlice] = []
    load = pages.load

    def note(pieces: list[FileSlice]) -> list[tuple[FileSlice, OSError]]:
        loaded.extend(pieces)
        return load(pieces)

    monkeypatch.setattr(RealFile, "is_cached", lambda *_, **__: False)
    monkeypatch.setattr(pages, "load", note)
    return loaded


async def test_cold_pages_are_read_by_a_worker_before_the_response(
    node: DataNode, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(node, b"a")
    loaded = note_loads(monkeypatch)

    waiting = handle(node.broker, fetch(("orders", 0, 0)), context(version=12))
    assert isinstance(waiting, asyncio.Future)

    data = only(await waiting)
    assert values(data) == [b"a"]
    assert loaded == [data.records]


async def test_a_wait_that_ends_with_a_cold_slice_warms_it_too(
    node: DataNode, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = note_loads(monkeypatch)
    waiting = handle(node.broker, fetch(("orders", 0, 0), max_wait_ms=60_000), context(version=12))

    append(node, b"a")

    assert values(only(await waiting)) == [b"a"]
    assert len(loaded) == 1


async def test_a_timer_that_fires_a_moment_too_early_still_ends_the_wait(
    node: DataNode, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """uvloop counts whole milliseconds, so that the time of a timer may be a rounding error before its deadline."""
    loop = asyncio.get_running_loop()
    call_at = loop.call_at
    monkeypatch.setattr(
        loop, "call_at", lambda when, callback, *rest, **named: call_at(when - 0.01, callback, *rest, **named)
    )

    waiting = handle(node.broker, fetch(("orders", 0, 0), max_wait_ms=11), context(version=12))

    assert values(only(await asyncio.wait_for(waiting, 10))) == []
