"""Coordinators of groups and transactions: looked up once, cached until they move. No I/O.

Brokers before Kafka 3.0 are asked for one key at a time, later ones for many (KIP-699); both responses are read here.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from penstock.client.cluster import Node
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest

BATCHED_VERSION = 4

# Errors of a node that is not the coordinator, or not yet.
MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
PASSING = MOVED | {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}


class CoordinatorKind(enum.IntEnum):
    """Kinds of coordinators; the numbers are those of FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


class Found(NamedTuple):
    key: str
    node: Node
    error: ErrorCode
    message: str | None


class Coordinators:
    """The known coordinators, by kind and key."""

    def __init__(self) -> None:
        self._known: dict[tuple[CoordinatorKind, str], Node] = {}

    def get(self, kind: CoordinatorKind, key: str) -> Node | None:
        return self._known.get((kind, key))

    def put(self, kind: CoordinatorKind, key: str, node: Node) -> None:
        self._known[kind, key] = node

    def forget(self, kind: CoordinatorKind, key: str) -> None:
        self._known.pop((kind, key), None)

    def forget_node(self, node_id: int) -> None:
        """The node cannot be reached: its coordinators will move."""
        for known in [each for each, node in self._known.items() if node.id == node_id]:
            del self._known[known]


def requests(kind: CoordinatorKind, keys: Sequence[str], version: int) -> list[FindCoordinatorRequest]:
    """The requests that find all keys with a broker of this version."""
    if version >= BATCHED_VERSION:
        return [FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys))]
    return [FindCoordinatorRequest(key=key, key_type=kind) for key in keys]


def found(keys: Sequence[str], version: int, responses: Iterable[Any]) -> list[Found]:
    """The results of the responses to `requests`."""
    if version >= BATCHED_VERSION:
        return [
            Found(each.key, Node(each.node_id, each.host, each.port), each.error_code, each.error_message)
            for response in responses
            for each in response.coordinators
        ]
    return [
        Found(key, Node(each.node_id, each.host, each.port), each.error_code, each.error_message)
        for key, each in zip(keys, responses, strict=True)
    ]
