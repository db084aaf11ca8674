"""Clients return to the pool after success, and are closed otherwise."""

from __future__ import annotations

import os
from typing import Any

import pytest

from penstock.client.settings import AdminSettings
from penstock.spark import clients
from penstock.spark.clients import IDLE_MAX, Pool

SETTINGS = {"bootstrap.servers": "localhost:1"}


class Client:
    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


def lend(pool: Pool, settings: dict[str, object] | None = None, **how: Any) -> Any:
    return pool.lend("consumer", settings or {}, Client, **how)


def test_the_next_task_gets_the_same_client() -> None:
    pool = Pool()
    with lend(pool) as first, lend(pool) as beside:
        assert first is not beside
    with lend(pool) as again:
        assert again in (first, beside)
    with lend(pool, {"a": 1}) as other:
        assert other not in (first, beside)


def test_a_client_is_closed_after_an_exception() -> None:
    pool = Pool()
    with pytest.raises(KeyError), lend(pool) as client:
        raise KeyError
    assert client.is_closed
    with lend(pool) as another:
        assert another is not client


def test_a_new_client_does_not_come_from_the_pool() -> None:
    pool = Pool()
    with lend(pool) as kept:
        pass
    with lend(pool, is_new=True) as new:
        assert new is not kept


def test_the_pool_keeps_a_limited_number_of_clients() -> None:
    pool = Pool()
    used = []
    for index in range(IDLE_MAX + 2):
        with lend(pool, {"index": index}) as client:
            used.append(client)
    assert [client.is_closed for client in used] == [True] * 2 + [False] * IDLE_MAX
    pool.clear()
    assert all(client.is_closed for client in used)


def test_a_forked_child_leaves_its_parents_clients_alone() -> None:
    pool = Pool()
    with lend(pool) as client:
        pass
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with lend(pool) as own:
            os.write(writer, b"same" if own is client else b"other")
        pool.clear()
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as reported:
        assert reported.read() == b"other"
    os.waitpid(child, 0)
    assert not client.is_closed


def test_one_set_of_settings_serves_clients_of_all_kinds() -> None:
    settings = {**SETTINGS, "group.id": "g", "linger.ms": "5", "fetch.max.bytes": "9"}

    assert clients.known(settings, AdminSettings) == SETTINGS
    with clients.consumer(settings) as consumer:
        assert consumer.settings.get("group.id") is None
        assert consumer.settings.get("auto.offset.reset") == "none"
        assert consumer.settings.get("fetch.max.bytes") == 9
    with clients.producer(settings) as producer:
        assert producer.settings.get("linger.ms") == 5
    clients.POOL.clear()
