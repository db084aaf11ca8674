"""Support for the compatibility tour: one way to call the sync and the asyncio client.

A step is written once, in async form. With `penstock` a call blocks and returns its result; with `penstock.aio` it
is awaited. `Face` hides the difference, and closes what a step has opened.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any

import penstock
import penstock.aio
from penstock import Delivery, Message, Receipt

FACES: Mapping[str, ModuleType] = {"sync": penstock, "aio": penstock.aio}
WAIT_SECONDS = 60.0


async def done(result: Any) -> Any:
    """The result of a call, of either client."""
    return await result if inspect.iscoroutine(result) else result


async def eventually(ask: Callable[[], Any], is_so: Callable[[Any], bool]) -> Any:
    """The first result that satisfies the condition: a broker applies the controller's changes a moment later."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_so(answer := await done(ask())):
        assert time.monotonic() < deadline, f"still {answer}"
        await asyncio.sleep(0.02)
    return answer


class Face:
    """The sync or asyncio clients, for one cluster."""

    def __init__(self, name: str, bootstrap: str) -> None:
        self.name = name
        self.bootstrap = bootstrap
        self._module = FACES[name]
        self._opened: list[Any] = []

    @property
    def is_sync(self) -> bool:
        return self.name == "sync"

    def producer(self, **options: Any) -> Any:
        return self._keep(self._module.Producer(self.bootstrap, **options))

    def consumer(self, *topics: Any, **options: Any) -> Any:
        options.setdefault("auto_offset_reset", "earliest")
        return self._keep(self._module.Consumer(*topics, bootstrap_servers=self.bootstrap, **options))

    def admin(self) -> Any:
        return self._keep(self._module.Admin(self.bootstrap))

    async def close(self) -> None:
        """Close what is still open, the last first. A client may be closed twice."""
        while self._opened:
            await done(self._opened.pop().close())

    async def send(self, producer: Any, topic: str, value: Any = None, **options: Any) -> Delivery:
        """Send one record and wait for it."""
        receipt: Receipt = await done(producer.send(topic, value, **options))
        return await self.delivery(receipt)

    async def delivery(self, receipt: Receipt) -> Delivery:
        if self.is_sync:
            return receipt.result(timeout=WAIT_SECONDS)
        async with asyncio.timeout(WAIT_SECONDS):
            return await receipt

    async def take(self, consumer: Any, count: int) -> list[Message]:
        """So many messages, by poll; fails if they do not arrive."""
        deadline = time.monotonic() + WAIT_SECONDS
        messages: list[Message] = []
        while len(messages) < count:
            assert time.monotonic() < deadline, f"{len(messages)} of {count} messages came"
            messages += await done(consumer.poll(0.1, max_records=count - len(messages)))
        return messages

    async def iterate(self, consumer: Any, count: int) -> list[Message]:
        """So many messages, by a loop over the consumer."""
        messages: list[Message] = []
        if self.is_sync:
            for message in consumer:
                messages.append(message)
                if len(messages) == count:
                    return messages
        async for message in consumer:
            messages.append(message)
            if len(messages) == count:
                break
        return messages

    async def read(self, consumer: Any, **options: Any) -> list[Message]:
        """All messages."""
        messages: list[Message] = await done(consumer.read(until="end", **options).to_messages())
        return messages

    @asynccontextmanager
    async def transaction(self, producer: Any) -> AsyncIterator[Any]:
        if self.is_sync:
            with producer.transaction() as transaction:
                yield transaction
        else:
            async with producer.transaction() as transaction:
                yield transaction

    def _keep(self, client: Any) -> Any:
        self._opened.append(client)
        return client
