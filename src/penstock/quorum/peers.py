"""Sends the requests of the quorum to other nodes. Nothing is retried here: the core decides what to send again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from penstock.net.node_connections import NodeAddress, NodeConnections
from penstock.net.request_errors import Disconnected, RequestFailed
from penstock.quorum.messages import Peer

PURPOSE = "quorum"

OnDone = Callable[[Any, RequestFailed | None], None]
"""Called once, with the response or with the error."""


class Sender(NamedTuple):
    """What the requests of this node have in common."""

    cluster_id: str
    fetch_bytes_max: int
    snapshot_bytes_max: int


class Peers(Protocol):
    def send(self, peer: Peer, request: Any, *, timeout_ms: int, on_done: OnDone) -> None: ...

    async def close(self) -> None:
        """Requests without a response are forgotten."""
        ...


class NoPeers:
    """For a quorum of one voter without other nodes."""

    def send(self, peer: Peer, request: Any, *, timeout_ms: int, on_done: OnDone) -> None:
        asyncio.get_running_loop().call_soon(on_done, None, Disconnected("this node has no connections"))

    async def close(self) -> None:
        pass


class NetworkPeers:
    def __init__(self, connections: NodeConnections) -> None:
        self._connections = connections
        self._asking: set[asyncio.Task[None]] = set()

    def send(self, peer: Peer, request: Any, *, timeout_ms: int, on_done: OnDone) -> None:
        task = asyncio.get_running_loop().create_task(
            self._ask(peer, request, timeout_ms, on_done), name=f"quorum request to node {peer.node_id}"
        )
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def close(self) -> None:
        asking = list(self._asking)
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    async def _ask(self, peer: Peer, request: Any, timeout_ms: int, on_done: OnDone) -> None:
        try:
            response = await self._connections.ask(
                NodeAddress(*peer), PURPOSE, request, timeout_s=timeout_ms / 1000
            )
        except RequestFailed as error:
            on_done(None, error)
        else:
            on_done(response, None)


def is_process_gone(error: RequestFailed) -> bool:
    """Whether the other process refused or closed the connection: it is stopped or was killed. After a timeout, or if
    there is no route, it may still be alive."""
    if not isinstance(error, Disconnected):
        return False
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, TimeoutError):
            return False
        if isinstance(cause, OSError):
            return isinstance(cause, ConnectionError)
        cause = cause.__cause__
    return True
