"""The dispatcher, with late responses."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from penstock.broker import controller_handlers
from penstock.broker.dispatcher import Dispatcher, Route
from penstock.broker.handler_table import ServedApi
from penstock.broker.handlers import TABLE
from penstock.protocol.apis import ApiKey


def test_alter_partition_is_served_from_the_version_that_names_topics_by_id() -> None:
    """v0 and v1 were advertised, but every partition got UNKNOWN_TOPIC_ID."""
    assert controller_handlers.TABLE.versions(ApiKey.ALTER_PARTITION) == range(2, 4)
    assert ServedApi(ApiKey.ALTER_PARTITION, 2, 3) in controller_handlers.TABLE.apis


class Peer:
    peer = "10.0.0.7:5000"

    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


async def test_a_late_response_that_cannot_be_encoded_is_logged_and_closes_the_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It used to be dropped without a word in the log."""
    dispatcher = Dispatcher(None, TABLE)  # type: ignore[arg-type]
    peer: Any = Peer()
    answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()

    def encode(response: object) -> list[Any]:
        raise ValueError("an error code of straw")

    later = dispatcher._finish_later(Route(TABLE, ApiKey.FETCH, 12), encode, answer, peer)
    answer.set_result("response")

    assert await later is None
    assert peer.is_closed
    assert "version 12 from 10.0.0.7:5000 failed; this is a bug" in caplog.text
    assert "an error code of straw" in caplog.text


async def test_a_response_that_is_cancelled_before_it_begins_leaves_no_warning(
    recwarn: pytest.WarningsRecorder,
) -> None:
    """At a node's stop: "coroutine was never awaited"."""
    dispatcher = Dispatcher(None, TABLE)  # type: ignore[arg-type]
    peer: Any = Peer()

    async def respond() -> object:
        return "response"

    later = dispatcher._finish_later(Route(TABLE, ApiKey.FETCH, 12), lambda response: [], respond(), peer)
    later.cancel()
    with pytest.raises(asyncio.CancelledError):
        await later

    gc.collect()
    assert not recwarn.list
