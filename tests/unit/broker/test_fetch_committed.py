"""Fetch with read_committed: the last stable offset, aborted transactions, and waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from harness.datapath import Cluster, DataNode, partition_record
from harness.fetching import NOW, append, fetch, only, values
from harness.partition_transactions import end, transactional, write
from penstock.broker.handlers.fetch import handle
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import PartitionData
from penstock.records.message_set import read_message_set

COMMITTED = 1
Context = Callable[..., Any]


def read(node: DataNode, context: Context, offset: int, *, version: int = 12, **fields: Any) -> PartitionData:
    request = fetch(("orders", 0, offset), isolation_level=COMMITTED, **fields)
    return only(handle(node.broker, request, context(version=version)))


def aborted(data: PartitionData) -> list[tuple[int, int]] | None:
    if data.aborted_transactions is None:
        return None
    return [(each.producer_id, each.first_offset) for each in data.aborted_transactions]


@pytest.mark.parametrize("version", [0, 2, 3])
async def test_old_consumers_wait_behind_a_marker_that_they_cannot_be_shown(
    node: DataNode, context: Context, version: int
) -> None:
    """Otherwise an empty response would be sent at once, again and again, until the next write."""
    write(node.partition(), 7, 0)
    end(node.partition(), 7)
    waiting = handle(node.broker, fetch(("orders", 0, 1), max_wait_ms=60_000), context(version=version))
    assert isinstance(waiting, asyncio.Future)
    end(node.partition(), 7)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not waiting.done()

    append(node, b"next", timestamp=NOW)

    records = read_message_set(only(await waiting).records).records
    assert [(record.offset, record.value) for record in records] == [(3, b"next")]


@pytest.mark.parametrize("version", [0, 2, 3])
async def test_old_consumers_get_past_more_markers_than_fit_into_a_response(
    node: DataNode, context: Context, version: int
) -> None:
    for _ in range(10):
        end(node.partition(), 7)
    append(node, b"next", timestamp=NOW)

    request = fetch(("orders", 0, 0), partition_max_bytes=200)
    data = only(handle(node.broker, request, context(version=version)))

    assert [record.offset for record in read_message_set(data.records).records] == [10]


@pytest.mark.parametrize("version", [4, 12, 18])
async def test_readers_of_committed_data_stop_at_the_last_stable_offset(
    node: DataNode, context: Context, version: int
) -> None:
    append(node, b"plain", timestamp=NOW)
    write(node.partition(), 7, 0, value=b"open")
    append(node, b"behind", timestamp=NOW)

    data = read(node, context, 0, version=version)
    assert (data.high_watermark, data.last_stable_offset) == (3, 1)
    assert (values(data), aborted(data)) == ([b"plain"], [])
    nothing = read(node, context, 1, version=version)
    assert (nothing.error_code, values(nothing), aborted(nothing)) == (ErrorCode.NONE, [], [])

    all_of_it = only(handle(node.broker, fetch(("orders", 0, 0)), context(version=version)))
    assert (values(all_of_it), aborted(all_of_it)) == ([b"plain", b"open", b"behind"], None)
    assert all_of_it.last_stable_offset == 1


async def test_only_aborted_transactions_in_the_returned_records_are_listed(
    node: DataNode, context: Context
) -> None:
    for producer_id in range(1, 5):
        write(node.partition(), producer_id, 0, value=b"x" * 50)
        end(node.partition(), producer_id, is_commit=producer_id == 2)

    assert aborted(read(node, context, 0)) == [(1, 0), (3, 4), (4, 6)]
    assert aborted(read(node, context, 2)) == [(3, 4), (4, 6)]
    assert aborted(read(node, context, 0, partition_max_bytes=len(transactional(1, 0, value=b"x" * 50)))) == [
        (1, 0)
    ]
    assert aborted(read(node, context, 0, partition_max_bytes=1)) == [(1, 0)], "the first batch all the same"
    assert aborted(read(node, context, 8)) == []


async def test_another_replica_is_sent_everything_whatever_it_asks_for(
    cluster: Cluster, node: DataNode, context: Context
) -> None:
    cluster.publish(partition_record("orders", 0, replicas=(1, 2)))
    write(node.partition(), 7, 0, value=b"open")

    data = read(node, context, 0, replica_id=2)

    assert (values(data), aborted(data)) == ([b"open"], None)


async def test_a_refusal_lists_no_aborted_transactions(node: DataNode, context: Context) -> None:
    data = read(node, context, 5)

    assert (data.error_code, data.last_stable_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert aborted(data) is None


# -- waiting


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_the_end_of_a_transaction_ends_the_wait(node: DataNode, context: Context) -> None:
    request = fetch(("orders", 0, 0), isolation_level=COMMITTED, max_wait_ms=60_000)
    waiting = handle(node.broker, request, context(version=12))
    assert isinstance(waiting, asyncio.Future)
    write(node.partition(), 7, 0, value=b"a")
    write(node.partition(), 7, 1, value=b"b")
    await settle()
    assert not waiting.done()

    end(node.partition(), 7, is_commit=True)

    assert values(only(await waiting))[:2] == [b"a", b"b"]


async def test_bytes_that_were_hidden_count_when_their_transaction_ends(
    node: DataNode, context: Context
) -> None:
    write(node.partition(), 7, 0, value=b"x" * 1000)
    size = len(transactional(7, 0, value=b"x" * 1000))
    request = fetch(("orders", 0, 0), isolation_level=COMMITTED, max_wait_ms=60_000, min_bytes=2 * size)
    waiting = handle(node.broker, request, context(version=12))
    write(node.partition(), 7, 1, value=b"x" * 1000)
    append(node, b"x" * 2000, timestamp=NOW)
    await settle()
    assert not waiting.done(), "nothing of it may be seen yet"

    end(node.partition(), 7, is_commit=False)

    assert aborted(only(await waiting)) == [(7, 0)]


async def test_a_wait_continues_if_a_marker_made_too_little_visible(node: DataNode, context: Context) -> None:
    write(node.partition(), 7, 0, value=b"x" * 1000)
    size = len(transactional(7, 0, value=b"x" * 1000))
    request = fetch(("orders", 0, 0), isolation_level=COMMITTED, max_wait_ms=60_000, min_bytes=2 * size)
    waiting = handle(node.broker, request, context(version=12))

    end(node.partition(), 7, is_commit=True)
    await settle()
    assert not waiting.done()
    append(node, b"x" * 1000, timestamp=NOW)

    assert len(values(only(await waiting))) == 3
