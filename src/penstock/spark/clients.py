"""A pool of clients that a process keeps between tasks. Connecting for every task would cost more than a small batch.

    with clients.consumer(settings) as consumer:
        ...

Spark runs many tasks in one Python process, one after another. A client is taken from the pool or created, belongs to
the block, and returns to the pool at its end. If the block raises, the client is closed, because its state is unknown.
Clients do not survive a fork: a child process starts with an empty pool and never touches its parent's clients.

Invariant: a client is in the pool or with one user, never both.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from penstock.config.tables.clients import ADMIN, CONSUMER, PRODUCER

if TYPE_CHECKING:  # each kind is imported on first use: the driver's process of a query must start fast
    from penstock import Admin, Consumer, Producer
    from penstock.client.settings import ClientSettings

IDLE_MAX = 8  # per process, over all settings; the least recently used client is closed

# Tasks read records that exist already. A fetch that waits for more would delay the next task.
FETCH_WAIT: dict[str, object] = {"fetch.max.wait.ms": "20"}

Settings = Mapping[str, object]
_Key = tuple[str, frozenset[tuple[str, object]]]


class Closeable(Protocol):
    def close(self) -> None: ...


Client = TypeVar("Client", bound=Closeable)


class Pool:
    """The idle clients of one process."""

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
            with contextlib.suppress(Exception):  # the first error is being raised
                client.close()
            raise
        for old in self._give_back(key, client):
            old.close()

    def clear(self) -> None:
        """Close all idle clients."""
        with self._lock:
            self._forget_parents_clients()
            idle, self._idle = self._idle, []
        for _, client in idle:
            client.close()

    def _take(self, key: _Key) -> Any:
        with self._lock:
            self._forget_parents_clients()
            for index in range(len(self._idle) - 1, -1, -1):
                if self._idle[index][0] == key:
                    return self._idle.pop(index)[1]
        return None

    def _give_back(self, key: _Key, client: Any) -> list[Any]:
        with self._lock:
            self._forget_parents_clients()
            self._idle.append((key, client))
            kept = self._idle[-IDLE_MAX:]
            surplus = [old for _, old in self._idle[: -len(kept)]]
            self._idle = kept
        return surplus

    def _forget_parents_clients(self) -> None:
        if os.getpid() != self._process:
            self._process = os.getpid()
            self._idle = []


POOL = Pool()
os.register_at_fork(after_in_child=lambda: _replace_lock())


def _replace_lock() -> None:
    """A lock that another thread of the parent held would never be released in the child."""
    POOL._lock = threading.Lock()


def consumer(settings: Settings, *, is_new: bool = False) -> contextlib.AbstractContextManager[Consumer]:
    """A consumer without a group: it reads assigned partitions and commits nothing. `is_new` never takes one from the
    pool."""
    from penstock import Consumer

    own = _consumer_settings(settings)
    return POOL.lend("consumer", own, lambda: Consumer(settings=own), is_new=is_new)


def _consumer_settings(settings: Settings) -> dict[str, object]:
    own = (
        FETCH_WAIT
        | _known_settings(settings, CONSUMER)
        | {"auto.offset.reset": "none", "enable.auto.commit": "false"}
    )
    own.pop("group.id", None)
    return own


def producer(settings: Settings) -> contextlib.AbstractContextManager[Producer]:
    from penstock import Producer

    own = _known_settings(settings, PRODUCER)
    return POOL.lend("producer", own, lambda: Producer(settings=own))


def admin(settings: Settings) -> contextlib.AbstractContextManager[Admin]:
    from penstock import Admin

    own = _known_settings(settings, ADMIN)
    return POOL.lend("admin", own, lambda: Admin(settings=own))


def check_consumer(settings: Settings) -> None:
    """Raise BadConfiguration for settings that a consumer would reject. Like the other checks, it reads no files, which
    may exist only where tasks run, and opens no connection."""
    from penstock.client.settings import ConsumerSettings

    _check_login(ConsumerSettings.of(settings=_consumer_settings(settings)))


def check_producer(settings: Settings, *, is_transactional: bool = False) -> None:
    from penstock.client.errors import BadConfiguration
    from penstock.client.settings import ProducerSettings

    checked = ProducerSettings.of(settings=_known_settings(settings, PRODUCER))
    _check_login(checked)
    if is_transactional and not checked.get("enable.idempotence"):
        raise BadConfiguration(
            "enable.idempotence: exactly-once needs true, with acks=all and retries of at least 1"
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

    _check_login(AdminSettings.of(settings=_known_settings(settings, ADMIN)))


def _check_login(settings: ClientSettings) -> None:
    if settings.get("security.protocol").startswith("SASL"):
        from penstock.client.security.protocol import Security

        Security(settings)


def known(settings: Settings, kind: type[ClientSettings]) -> dict[str, object]:
    """The settings without those that only other kinds of clients know: one set of options serves all of them. A
    setting that no client knows stays, so that the client rejects it."""
    return _known_settings(settings, kind.table())


def _known_settings(settings: Settings, own: Collection[str]) -> dict[str, object]:
    others = {*ADMIN, *CONSUMER, *PRODUCER}.difference(own)
    return {name: value for name, value in settings.items() if name not in others}
