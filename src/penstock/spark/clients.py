"""Clients that a process keeps between tasks: to connect anew for each of them would cost more than a small batch does.

    with clients.consumer(settings) as consumer:
        ...

Spark runs many tasks in one Python process, one after another. A client is taken from the pool or made, belongs to the
block alone, goes back at its end, and is thrown away where the block ended with an exception: nobody knows its state
then. Clients do not survive a fork; a child begins with an empty pool, and what is its parent's it leaves alone.

Invariant: a client is in the pool or with one user, never both.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from penstock.config.tables.clients import ADMIN, CONSUMER, PRODUCER

if TYPE_CHECKING:  # each kind is loaded where it is used: the driver's process of a query must be up at once
    from penstock import Admin, Consumer, Producer
    from penstock.client.settings import ClientSettings

IDLE_MAX = 8  # of a process, over all settings; the one that was used longest ago is closed

# Tasks read what is there already: a request that waits for more would only hold up the next task's.
WAITS: dict[str, object] = {"fetch.max.wait.ms": "20"}

Settings = Mapping[str, object]
_Key = tuple[str, frozenset[tuple[str, object]]]


class Closing(Protocol):
    def close(self) -> None: ...


Client = TypeVar("Client", bound=Closing)


class Pool:
    """The clients of one process that nobody uses just now."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._idle: list[tuple[_Key, Any]] = []

    @contextlib.contextmanager
    def lend(
        self, kind: str, settings: Settings, make: Callable[[], Client], *, is_new: bool = False
    ) -> Iterator[Client]:
        key = kind, frozenset(settings.items())
        client = None if is_new else self._take(key)
        if client is None:
            client = make()
        try:
            yield client
        except BaseException:
            with contextlib.suppress(Exception):  # what went wrong is on its way already
                client.close()
            raise
        for old in self._give_back(key, client):
            old.close()

    def clear(self) -> None:
        """Close all that are idle."""
        with self._lock:
            self._leave_parents_behind()
            idle, self._idle = self._idle, []
        for _, client in idle:
            client.close()

    def _take(self, key: _Key) -> Any:
        with self._lock:
            self._leave_parents_behind()
            for index in range(len(self._idle) - 1, -1, -1):
                if self._idle[index][0] == key:
                    return self._idle.pop(index)[1]
        return None

    def _give_back(self, key: _Key, client: Any) -> list[Any]:
        with self._lock:
            self._leave_parents_behind()
            self._idle.append((key, client))
            kept = self._idle[-IDLE_MAX:]
            surplus = [old for _, old in self._idle[: -len(kept)]]
            self._idle = kept
        return surplus

    def _leave_parents_behind(self) -> None:
        if os.getpid() != self._process:
            self._process = os.getpid()
            self._idle = []


POOL = Pool()
os.register_at_fork(after_in_child=lambda: _begin_anew())


def _begin_anew() -> None:
    """A lock that another thread of the parent held would stay locked for ever."""
    POOL._lock = threading.Lock()


def consumer(settings: Settings, *, is_new: bool = False) -> contextlib.AbstractContextManager[Consumer]:
    """One without a group, which reads what it is told to and commits nothing; none of those that were kept, if it is
    to be new."""
    from penstock import Consumer

    own = _of_consumer(settings)
    return POOL.lend("consumer", own, lambda: Consumer(settings=own), is_new=is_new)


def _of_consumer(settings: Settings) -> dict[str, object]:
    own = WAITS | _of_table(settings, CONSUMER) | {"auto.offset.reset": "none", "enable.auto.commit": "false"}
    own.pop("group.id", None)
    return own


def producer(settings: Settings) -> contextlib.AbstractContextManager[Producer]:
    from penstock import Producer

    own = _of_table(settings, PRODUCER)
    return POOL.lend("producer", own, lambda: Producer(settings=own))


def admin(settings: Settings) -> contextlib.AbstractContextManager[Admin]:
    from penstock import Admin

    own = _of_table(settings, ADMIN)
    return POOL.lend("admin", own, lambda: Admin(settings=own))


def check_consumer(settings: Settings) -> None:
    """Raise BadConfiguration where a consumer would. Like the others it reads no files, which may be with the tasks
    alone, and connects to nothing."""
    from penstock.client.settings import ConsumerSettings

    _check_login(ConsumerSettings.of(settings=_of_consumer(settings)))


def check_producer(settings: Settings, *, is_transactional: bool = False) -> None:
    from penstock.client.errors import BadConfiguration
    from penstock.client.settings import ProducerSettings

    checked = ProducerSettings.of(settings=_of_table(settings, PRODUCER))
    _check_login(checked)
    if is_transactional and not checked.get("enable.idempotence"):
        raise BadConfiguration(
            "enable.idempotence: exactly-once needs it, and with it acks=all and retries of at least 1"
        )
    partitioner = checked.get("partitioner.class")
    if isinstance(partitioner, str) and not {".", ":"}.intersection(partitioner):  # else tasks import it
        from penstock.client.producer.partitioners import partitioner_of

        try:
            partitioner_of(partitioner)
        except BadConfiguration as error:
            raise BadConfiguration(f"partitioner.class: {error}") from None


def check_admin(settings: Settings) -> None:
    from penstock.client.settings import AdminSettings

    _check_login(AdminSettings.of(settings=_of_table(settings, ADMIN)))


def _check_login(settings: ClientSettings) -> None:
    if settings.get("security.protocol").startswith("SASL"):
        from penstock.client.security.protocol import Security

        Security(settings)


def known(settings: Settings, kind: type[ClientSettings]) -> dict[str, object]:
    """Without what only clients of another kind know: one set of options serves them all. What none of them knows
    is left, so that the client refuses it."""
    return _of_table(settings, kind.table())


def _of_table(settings: Settings, own: Collection[str]) -> dict[str, object]:
    others = {*ADMIN, *CONSUMER, *PRODUCER}.difference(own)
    return {name: value for name, value in settings.items() if name not in others}
