"""One broker for a whole test session, with names of its own for each test.

    session = SharedSession(settings={"num.partitions": 3})
    with session.share() as shared:          # what the fixture `penstock_shared` does for each test
        orders = shared.topic("orders")      # "orders-1", which no other test has

Starting a broker takes about a quarter of a second, creating a topic some milliseconds: a suite with hundreds of tests
is faster with one broker. Tests are kept apart by names alone, so a test that stops the broker or scripts its faults
needs a `Broker` of its own.

Invariant: after `share`, the topics and groups whose names it gave out are deleted, and its clients are closed.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from penstock.testing.broker import Broker
from penstock.testing.clients import Clients

if TYPE_CHECKING:
    from penstock import Admin

CLEAN_UP_SECONDS = 10.0


class SharedSession:
    """The broker of a session. It is made with the first test that asks for it."""

    def __init__(self, *, settings: Mapping[str, object] | None = None) -> None:
        self.broker = Broker(settings=settings)
        self._admin = self.broker.admin()
        self._numbers = itertools.count(1)

    @contextmanager
    def share(self) -> Iterator[SharedBroker]:
        """The broker for the length of one test."""
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
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
        """This name, made unique: for transactional ids and whatever else is not to be shared with other tests."""
        return f"{name}-{self._number}"

    def topic(
        self,
        name: str = "topic",
        *,
        partitions: int | None = None,
        config: Mapping[str, object] | None = None,
        create: bool = True,
    ) -> str:
        """A topic of this test's own: its unique name. The same name gives the same topic.

        It is created unless `create` is False, and deleted after the test in any case.
        """
        if not name:
            raise ValueError("a topic needs a name; without an argument it is called topic")
        if name not in self._topics:
            if create:
                self._admin.create_topic(self.name(name), partitions, config=config)
            self._topics[name] = self.name(name)
        return self._topics[name]

    def group(self, name: str = "group") -> str:
        """The unique name of a group of this test's own. The same name gives the same group."""
        return self._groups.setdefault(name, self.name(name))

    def clean_up(self) -> None:
        """Close this test's clients and delete its topics and groups."""
        self.close_clients()
        # Some of them may never have existed, or a test has deleted them itself: that is no failure of the test.
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
        return f"<SharedBroker {self.bootstrap_servers}, names end with -{self._number}>"
