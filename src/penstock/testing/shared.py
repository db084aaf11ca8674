"""One broker for a whole test session, with unique names for each test.

    session = SharedSession(settings={"num.partitions": 3})
    with session.share() as shared:          # what the fixture `penstock_shared` does for each test
        orders = shared.topic("orders")      # "orders-1", which no other test has

Starting a broker takes about a quarter of a second, creating a topic a few milliseconds, so a suite with hundreds
of tests is faster with one broker. Only names keep tests apart. A test that stops the broker or injects faults
needs its own `Broker`.

Invariant: after `share`, the topics and groups that it named are deleted and its clients are closed.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from penstock.testing.broker import Broker
from penstock.testing.clients import Clients

if TYPE_CHECKING:
    from penstock import Admin

CLEAN_UP_SECONDS = 10.0


class SharedSession:
    """The broker of a session. It starts with the first test that uses it."""

    def __init__(self, *, settings: Mapping[str, object] | None = None) -> None:
        self.broker = Broker(settings=settings)
        self._admin = self.broker.admin()
        self._numbers = itertools.count(1)

    @contextmanager
    def share(self) -> Iterator[SharedBroker]:
        """The broker, for one test."""
        if not self.broker.is_running:  # an earlier test has stopped it
            self.broker.start()
        shared = SharedBroker(self.broker, self._admin, number=next(self._numbers))
        try:
            yield shared
        finally:
            shared.clean_up()

    def close(self) -> None:
        self.broker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SharedBroker(Clients):
    """The shared broker as one test sees it: the fixture `penstock_shared`."""

    def __init__(self, broker: Broker, admin: Admin, *, number: int) -> None:
        super().__init__()
        self._broker = broker
        self._admin = admin
        self._number = number
        self._topics: dict[str, str] = {}
        self._groups: dict[str, str] = {}

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect: `127.0.0.1:port`."""
        return self._broker.bootstrap_servers

    def name(self, name: str) -> str:
        """This name, made unique: for transactional ids and anything else that tests must not share."""
        return f"{name}-{self._number}"

    def topic(
        self,
        name: str = "topic",
        *,
        partitions: int | None = None,
        config: Mapping[str, object] | None = None,
        create: bool = True,
    ) -> str:
        """The unique name of this test's topic. The same argument returns the same topic.

        The topic is created unless `create` is False, and always deleted after the test.
        """
        if not name:
            raise ValueError("a topic needs a name; omit the argument to call it topic")
        if name not in self._topics:
            if create:
                self._admin.create_topic(self.name(name), partitions, config=config)
            self._topics[name] = self.name(name)
        return self._topics[name]

    def group(self, name: str = "group") -> str:
        """The unique name of this test's group. The same argument returns the same group."""
        return self._groups.setdefault(name, self.name(name))

    def clean_up(self) -> None:
        """Close this test's clients and delete its topics and groups."""
        self.close_clients()
        # Errors are ignored: a topic may never have been created, or the test has deleted it itself.
        for delete, names in (
            (self._admin.delete_groups, self._groups),
            (self._admin.delete_topics, self._topics),
        ):
            if names and self._broker.is_running:
                with contextlib.suppress(Exception):
                    delete(list(names.values()), timeout=CLEAN_UP_SECONDS)
        self._groups.clear()
        self._topics.clear()

    def __repr__(self) -> str:
        return f"<SharedBroker {self.bootstrap_servers}, names end in -{self._number}>"
