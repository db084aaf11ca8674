"""An async producer that was not closed, while its broker or its event loop does not respond."""

from __future__ import annotations

import asyncio
import logging
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from harness.scripted_cluster import NOTHING, Led, ScriptedCluster
from harness.scripted_log import ScriptedLogs
from penstock.aio import Producer
from penstock.client.producer import unclosed
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest
from penstock.protocol.messages.produce import ProduceRequest


def test_closing_takes_no_longer_than_the_timeout_in_total(caplog: pytest.LogCaptureFixture) -> None:
    """The flush and the close had 30 s each, so a program took a minute to end."""
    world = ScriptedCluster()
    world.topics["orders"] = {0: Led(leader=next(iter(world.nodes)), epoch=1)}
    world.answer(InitProducerIdRequest, ScriptedLogs().init_producer_id)
    world.answer(ProduceRequest, lambda request, node: NOTHING)

    async def main() -> None:
        producer = Producer(world.bootstrap, network=world.network, clock=world.clock)
        await producer.send("orders", "a")
        began_s = world.loop.time()

        await unclosed._UNCLOSED[producer._core].close()

        assert world.loop.time() - began_s <= unclosed.EXIT_TIMEOUT_MS / 1000 + 1

    try:
        world.run(main)
    finally:
        world.loop.close()
    assert "a producer was not closed, and its records were not written" in caplog.text


def test_records_are_reported_as_lost_if_the_loop_of_another_thread_is_busy(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The program ended after 30 s without a message."""
    core: Any = _Core()
    is_busy, may_end = threading.Event(), threading.Event()

    async def block() -> None:
        pending = unclosed._Unclosed(core)
        monkeypatch.setattr(unclosed, "_UNCLOSED", {core: pending})
        is_busy.set()
        may_end.wait(30)
        core.refusal = RuntimeError("closed")

    monkeypatch.setattr(unclosed, "EXIT_TIMEOUT_MS", 0)
    monkeypatch.setattr(unclosed, "GRACE_S", 0.0)
    thread = threading.Thread(target=lambda: asyncio.run(block()))
    thread.start()
    assert is_busy.wait(30)

    with caplog.at_level(logging.ERROR):
        unclosed._close_all()

    may_end.set()
    thread.join(30)
    assert "lost 7 record(s) for orders: the event loop was busy" in caplog.text


class _Core:
    """A core with seven records that have no outcome."""

    refusal: Exception | None = None
    accumulator = SimpleNamespace(record_count=7, lines=[SimpleNamespace(topic="orders")])
