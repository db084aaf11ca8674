"""Clients of a test's broker. They are closed with the test."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Unpack

if TYPE_CHECKING:
    from penstock import Admin, Consumer, Producer
    from penstock.client.options import AdminOptions, ConsumerOptions, ProducerOptions

CLOSE_SECONDS = 2.0  # for records that the test left unsent


class Clients(ABC):
    """Creates clients and closes them."""

    def __init__(self) -> None:
        self._closing: list[Callable[[], None]] = []

    @property
    @abstractmethod
    def bootstrap_servers(self) -> str:
        """Where clients connect: `127.0.0.1:port`."""

    def producer(self, **options: Unpack[ProducerOptions]) -> Producer:
        """A producer for this broker: `broker.producer(serializer="json")`."""
        from penstock import Producer

        producer = Producer(self.bootstrap_servers, **options)
        self._closing.append(partial(producer.close, CLOSE_SECONDS))
        return producer

    def consumer(self, *topics: str, **options: Unpack[ConsumerOptions]) -> Consumer:
        """A consumer of this broker's topics: `broker.consumer("orders", group="billing")`."""
        from penstock import Consumer

        options["bootstrap_servers"] = self.bootstrap_servers
        consumer = Consumer(*topics, **options)
        self._closing.append(partial(consumer.close, timeout=CLOSE_SECONDS))
        return consumer

    def admin(self, **options: Unpack[AdminOptions]) -> Admin:
        from penstock import Admin

        admin = Admin(self.bootstrap_servers, **options)
        self._closing.append(admin.close)
        return admin

    def close_clients(self) -> None:
        """Close all clients. Errors are ignored: a test that breaks its broker may leave broken clients."""
        closing, self._closing = self._closing, []
        for close in closing:
            with contextlib.suppress(Exception):
                close()
