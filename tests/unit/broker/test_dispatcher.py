"""The dispatcher, where an answer comes later."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.broker.dispatcher import Dispatcher, Route
from penstock.protocol.apis import ApiKey


class Peer:
    peer = "10.0.0.7:5000"

    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


async def test_a_late_answer_that_cannot_be_encoded_is_logged_and_closes_the_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It used to be dropped without a word in the log."""
    dispatcher = Dispatcher(None)  # type: ignore[arg-type]
    peer: Any = Peer()
    answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()

    def encode(response: object) -> list[Any]:
        raise ValueError("an error code of straw")

    later = dispatcher._finish_later(Route(ApiKey.FETCH, 12), encode, answer, peer)
    answer.set_result("response")

    assert await later is None
    assert peer.is_closed
    assert "version 12 of 10.0.0.7:5000 failed" in caplog.text
    assert "an error code of straw" in caplog.text
