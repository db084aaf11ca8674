"""DescribeTopicPartitions: pages and cursors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.broker.handlers.describe_topic_partitions import handle
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)

Context = Callable[..., Any]


def ask(
    *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsRequest:
    return DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )


def pages(response: DescribeTopicPartitionsResponse) -> list[tuple[str | None, list[int]]]:
    return [
        (topic.name, [partition.partition_index for partition in topic.partitions])
        for topic in response.topics
    ]


def next_of(response: DescribeTopicPartitionsResponse) -> tuple[str, int] | None:
    cursor = response.next_cursor
    return None if cursor is None else (cursor.topic_name, cursor.partition_index)


@pytest.fixture(autouse=True)
def topics(cluster: Any) -> None:
    cluster.add_topic("b", partitions=3)
    cluster.add_topic("a", partitions=2)


async def test_all_topics_come_in_the_order_of_their_names(broker: Any, context: Context) -> None:
    response = handle(broker, ask(), context(version=0))

    assert pages(response) == [("a", [0, 1]), ("b", [0, 1, 2])]
    assert next_of(response) is None


async def test_walking_with_the_cursor_shows_every_partition_once(broker: Any, context: Context) -> None:
    seen: list[tuple[str | None, int]] = []
    cursor: tuple[str, int] | None = None
    for _ in range(10):
        response = handle(broker, ask(limit=2, cursor=cursor), context(version=0))
        seen += [(name, index) for name, indexes in pages(response) for index in indexes]
        cursor = next_of(response)
        if cursor is None:
            break

    assert seen == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2)]


async def test_a_page_that_ends_with_a_topic_points_to_the_next_one(broker: Any, context: Context) -> None:
    assert next_of(handle(broker, ask(limit=2), context(version=0))) == ("b", 0)


async def test_the_brokers_own_limit_counts_too(broker: Any, context: Context) -> None:
    broker.settings = type(broker.settings).load({"max.request.partition.size.limit": "1"})

    response = handle(broker, ask(limit=2000), context(version=0))

    assert pages(response) == [("a", [0])]
    assert next_of(response) == ("a", 1)


async def test_a_limit_of_0_still_returns_one_partition(broker: Any, context: Context) -> None:
    assert pages(handle(broker, ask(limit=-5), context(version=0))) == [("a", [0])]


async def test_named_topics_that_do_not_exist_are_errors(broker: Any, context: Context) -> None:
    response = handle(broker, ask("b", "absent", "in/valid"), context(version=0))

    assert {topic.name: topic.error_code for topic in response.topics} == {
        "absent": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "b": ErrorCode.NONE,
        "in/valid": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }


async def test_a_cursor_to_a_deleted_topic_continues_with_the_next_topic(
    broker: Any, context: Context
) -> None:
    assert pages(handle(broker, ask(cursor=("aa", 7)), context(version=0))) == [("b", [0, 1, 2])]


async def test_a_cursor_past_the_last_partition_continues_with_the_next_topic(
    broker: Any, context: Context
) -> None:
    assert pages(handle(broker, ask(cursor=("a", 9)), context(version=0))) == [("a", []), ("b", [0, 1, 2])]


@pytest.mark.parametrize("cursor", [("a", -1), ("c", 0)])
async def test_a_cursor_that_leads_nowhere_is_refused(
    broker: Any, context: Context, cursor: tuple[str, int]
) -> None:
    response = handle(broker, ask("a", "b", cursor=cursor), context(version=0))

    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        ("a", ErrorCode.INVALID_REQUEST),
        ("b", ErrorCode.INVALID_REQUEST),
    ]
    assert next_of(response) is None
