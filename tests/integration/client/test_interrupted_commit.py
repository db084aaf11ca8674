"""Ctrl-C during the commit of a read-process-write loop."""

from __future__ import annotations

import asyncio
import signal
import threading
from typing import Any

import pytest

from penstock import Consumer, Producer
from penstock.client.producer.transactor import Transactor
from penstock.testing import Broker


def test_a_commit_that_is_interrupted_does_not_rewind_the_consumer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit went through, but the messages were given again: the output was written twice."""
    tell_end = Transactor._tell_end
    commits = 0

    async def interrupted(self: Transactor, *, is_commit: bool, deadline_ms: int) -> Any:
        nonlocal commits
        identity = await tell_end(self, is_commit=is_commit, deadline_ms=deadline_ms)
        commits += is_commit
        if commits == 1:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            await asyncio.Event().wait()  # the producer never sees this answer
        return identity

    monkeypatch.setattr(Transactor, "_tell_end", interrupted)
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

            producer.commit()  # tells that the first one went through
            writer.send("input", "3", partition=0).result(timeout=30)
            while not (following := consumer.poll(timeout=1)):
                pass
            assert [message.value for message in following] == [b"3"]
