"""Chooses the node for requests that any broker can answer: a known node, or a bootstrap server.

Bootstrap servers have negative ids, as in Kafka's client. They are used until the first metadata arrives, and again if
no known node can be reached: the whole cluster may have moved (KIP-899, KIP-1102).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock.client.addresses import (
    RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY,
    Address,
    canonical,
    parse_addresses,
)
from penstock.client.cluster import Node
from penstock.client.errors import Disconnected, PenstockError
from penstock.client.transport import Link, Transport


class Bootstrap:
    """The bootstrap servers, and the choice between them and the known nodes."""

    def __init__(self, servers: Iterable[str], *, lookup: str, may_return: bool, rng: random.Random) -> None:
        self._addresses = parse_addresses(servers)
        self._to_be_expanded = lookup == RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY
        self._may_return = may_return
        self._random = rng
        self._has_returned = False
        self.nodes = _numbered(self._addresses)

    async def expand(self) -> None:
        """Replace names by the full names of all their addresses, once, if `client.dns.lookup` says so."""
        if not self._to_be_expanded:
            return
        found: list[Address] = []
        failure: OSError | None = None
        for address in self._addresses:
            try:
                found += await canonical(address)
            except OSError as error:  # one name may be wrong if another one is right
                failure = error
        if not found:
            raise Disconnected(f"no host name in bootstrap.servers can be resolved: {failure}") from failure
        self._to_be_expanded = False
        self.nodes = _numbered(list(dict.fromkeys(found)))

    def return_to(self) -> bool:
        """Use only bootstrap servers until one responds; False if the settings forbid it."""
        self._has_returned |= self._may_return
        return self._may_return

    def answered(self) -> None:
        """Metadata has arrived."""
        self._has_returned = False

    def choose(self, known: Mapping[int, Node], transport: Transport) -> tuple[int, bool]:
        """The id of a connected node with few requests in flight; else of one that may be tried now, or soonest.

        Also returns whether this is a return to the bootstrap servers because no known node can be reached.
        """
        links = {node_id: transport.link(node_id) for node_id in known}
        returns = False
        if not links or self._has_returned:
            links = {node_id: transport.link(node_id) for node_id in self.nodes}
        elif self._may_return and all(map(_is_lost, links.values())):
            links |= {node_id: transport.link(node_id) for node_id in self.nodes}
            returns = True
        ready = {node_id: link for node_id, link in links.items() if link is not None and link.is_ready}
        if ready:
            return min(ready, key=lambda node_id: ready[node_id].in_flight), returns
        order = self._random.sample(list(links), len(links))
        return min(order, key=lambda node_id: _may_be_tried_at(links[node_id])), returns

    def adopt(self, brokers: Sequence[Any], transport: Transport) -> None:
        """Keep a bootstrap connection under the id of its node once that is known, and close one that matches no
        node."""
        for node_id, node in self.nodes.items():
            for broker in brokers:
                if (broker.host, broker.port) == (node.host, node.port):
                    found = Node(broker.node_id, broker.host, broker.port, broker.rack)
                    transport.adopt(broker.node_id, found, of=node_id)
            link = transport.link(node_id)
            if link is not None and link.opening is None and not link.in_flight:
                transport.drop(node_id)

    def why_not(self, transport: Transport, waited_ms: int) -> dict[str, str] | None:
        """Why each server cannot be used; None if one is connected."""
        links = {str(node): transport.link(node_id) for node_id, node in self.nodes.items()}
        if any(link is not None and link.connection is not None for link in links.values()):
            return None
        return {address: _why(link, waited_ms) for address, link in links.items()}


def _numbered(addresses: Sequence[Address]) -> dict[int, Node]:
    return {-1 - index: Node(-1 - index, each.host, each.port) for index, each in enumerate(addresses)}


def _is_lost(link: Link | None) -> bool:
    return link is not None and link.connection is None and link.failures > 0


def _may_be_tried_at(link: Link | None) -> float:
    if link is None:
        return 0.0
    if link.connection is not None:
        return link.connection.muted_until
    return link.retry_at


def _why(link: Link | None, waited_ms: int) -> str:
    if link is None:
        return "not tried yet"
    failure: PenstockError | None = link.failure
    return f"no response within {waited_ms} ms" if failure is None else failure.detail or str(failure)
