"""The choice of a node for requests that any broker can answer."""

from __future__ import annotations

import random

import pytest

from penstock.client import bootstrap as module
from penstock.client.addresses import (
    RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY,
    USE_ALL_DNS_IPS,
    Address,
    canonical,
)
from penstock.client.bootstrap import Bootstrap
from penstock.client.errors import Disconnected


def bootstrap(*servers: str, lookup: str = USE_ALL_DNS_IPS) -> Bootstrap:
    return Bootstrap(servers, lookup=lookup, may_return=True, rng=random.Random(1))


def test_servers_have_negative_ids_in_order() -> None:
    nodes = bootstrap("a:1", "b:2", "a:1").nodes
    assert {node_id: str(node) for node_id, node in nodes.items()} == {-1: "a:1", -2: "b:2"}


async def test_names_are_not_expanded_by_default() -> None:
    servers = bootstrap("localhost:9092")
    await servers.expand()
    assert [node.host for node in servers.nodes.values()] == ["localhost"]


async def test_names_are_expanded_to_the_full_names_of_all_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"kafka": ["one.example.org", "two.example.org"], "same": ["two.example.org"]}

    async def look_up(address: Address) -> list[Address]:
        if address.host not in names:
            raise OSError("no such name")
        return [Address(name, address.port) for name in names[address.host]]

    monkeypatch.setattr(module, "canonical", look_up)
    servers = bootstrap("kafka:1", "wrong:1", "same:1", lookup=RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY)
    await servers.expand()
    assert [str(node) for node in servers.nodes.values()] == ["one.example.org:1", "two.example.org:1"]


async def test_unresolvable_names_are_a_retriable_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def know_nothing(address: Address) -> list[Address]:
        raise OSError("no such name")

    monkeypatch.setattr(module, "canonical", know_nothing)
    servers = bootstrap("nobody:1", lookup=RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY)
    with pytest.raises(Disconnected, match="no such name") as raised:
        await servers.expand()
    assert raised.value.retriable


async def test_this_machine_has_a_full_name() -> None:
    assert all(
        address.port == 9092 and address.host for address in await canonical(Address("127.0.0.1", 9092))
    )
