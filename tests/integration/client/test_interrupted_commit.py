"""Ctrl-C during the commit of a consume-transform-produce loop."""

from __future__ import annotations

import asyncio
import signal
import threading
from typing import Any

import pytest

from penstock import Consumer, Producer
from penstock.client.producer.transactor import Transactor
from penstock.testing import Broker


def test_an_interrupted_commit_does_not_rewind_the_consumer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit succeeded, but the messages were delivered again: the output was written twice."""
    end = Transactor._end
    commits = 0

    async def interrupted(self: Transactor, *, is_commit: bool, deadline_ms: int) -> Any:
        nonlocal commits
        identity = await end(self, is_commit=is_commit, deadline_ms=deadline_ms)
        commits += is_commit
        if commits == 1:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            await asyncio.Event().wait()  # the producer never gets this response
        return identity

    monkeypatch.setattr(Transactor, "_end", interrupted)
    with Broker() as broker, Producer(broker.bootstrap_servers) as writer:
        for number in range(3):
            writer.send("input", str(number), partition=0).result(timeout=30)
        with (
            Consumer(
                "input",
                bootstrap_servers=broker.bootstrap_servers,
                group="g",
                enable_auto_commit=False,
                auto_offset_reset="earliest",
            ) as consumer,
            Producer(broker.bootstrap_servers, transactional_id="writer") as producer,
        ):
            messages = []
            while len(messages) < 3:
                messages += consumer.poll(timeout=1)

            with pytest.raises(KeyboardInterrupt), producer.transaction(consumer=consumer):
                producer.send("output", "processed")

            producer.commit()  # shows that the first one succeeded
            writer.send("input", "3", partition=0).result(timeout=30)
            while not (following := consumer.poll(timeout=1)):
                pass
            assert [message.value for message in following] == [b"3"]
