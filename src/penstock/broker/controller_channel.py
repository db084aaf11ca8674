"""Requests to the active controller: a local call if this node is it, otherwise over the wire.

The quorum reports the leader. A request is retried, with a backoff, while there is no leader, the leader answers
NOT_CONTROLLER, or the connection is lost; it is sent at once when another node leads. As in Kafka, a request whose
response was lost is sent again, although it may have been carried out: the second one may get an error such as
TOPIC_ALREADY_EXISTS. Every other response ends it, and so does the deadline.

Requests that may wait for a commit have other connections than heartbeats, because a controller responds in order.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Any

from penstock.broker.context import THIS_NODE, RequestContext
from penstock.broker.controller_handlers import TABLE
from penstock.broker.controller_server import ControllerServer
from penstock.broker.envelopes import unwrap_response, wrap_request
from penstock.metadata.errors import Refused
from penstock.net.node_connections import NodeAddress, NodeConnections
from penstock.net.request_errors import RequestFailed, UnsupportedVersion
from penstock.protocol.apis import ApiKey, api
from penstock.protocol.declare import declaration_of
from penstock.protocol.errors import ErrorCode, MalformedMessage
from penstock.runtime.backoff import Backoff

logger = logging.getLogger(__name__)

FORWARD_TIMEOUT_MS = 60_000  # for requests without a timeout of their own, as in Kafka
REQUEST_TIMEOUT_MS = 30_000  # the default of request.timeout.ms
RETRY_MS, RETRY_MAX_MS = 20, 500

FORWARDING = "forwarding"
PURPOSES = {
    ApiKey.BROKER_REGISTRATION: "broker heartbeats",
    ApiKey.BROKER_HEARTBEAT: "broker heartbeats",
    ApiKey.ALTER_PARTITION: "alter partition",
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: "directory assignments",
}
"""The connection of each request; all others share that of forwarded ones."""


class ControllerChannel:
    def __init__(
        self,
        *,
        node_id: int,
        local: ControllerServer | None,
        leader: Callable[[], NodeAddress | None],
        connections: NodeConnections,
        rng: random.Random,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> None:
        """`local` is the controller of this node, if it has that role. `leader` is the present leader of the quorum and
        its controller listener, or None if there is none; this node's id means a local call."""
        self._node_id = node_id
        self._local = local
        self._leader = leader
        self._connections = connections
        self._backoff = Backoff(RETRY_MS, RETRY_MAX_MS, draw=rng.random)
        self._request_timeout_s = request_timeout_ms / 1000
        self._last_leader: NodeAddress | None = None
        self._changed: asyncio.Future[None] | None = None
        """Done at the next change of the leader."""
        self._is_closed = False

    async def ask(self, request: Any, *, timeout_ms: float) -> Any:
        """Send a request of this node itself; returns the response, which may have an error. Raises `Refused` if no
        active controller has responded in time."""
        key = _key_of(request)
        context = RequestContext(key, api(key).last_version, 0, None, "", "", THIS_NODE, None)

        async def send(leader: NodeAddress, timeout_s: float) -> Any:
            response = await self._connections.ask(
                leader, PURPOSES.get(key, FORWARDING), request, timeout_s=timeout_s
            )
            if _is_not_controller(response):
                raise _not_active(leader)
            return response

        return await self._run(request, context, send, timeout_ms)

    async def forward(self, request: Any, context: RequestContext) -> Any:
        """The response to a client's request. It reports the error if there is no active controller."""
        timeout_ms = getattr(request, "timeout_ms", 0)
        timeout_ms = min(timeout_ms, FORWARD_TIMEOUT_MS) if timeout_ms > 0 else FORWARD_TIMEOUT_MS
        try:
            return await self._run(
                request, context, lambda *to: self._send_envelope(request, context, *to), timeout_ms
            )
        except Refused as refused:
            return TABLE.refuse(request, refused, context)

    def close(self) -> None:
        """This node stops: requests in progress and later ones are refused at once."""
        self._is_closed = True
        self._wake()

    def leader_changed(self) -> None:
        """The quorum has another leader, or none: the requests in progress go to the new one at once, even if the old
        one does not respond any more."""
        leader, before = self._leader(), self._last_leader
        self._last_leader = leader
        if before is not None and before != leader and before.node_id != self._node_id:
            for purpose in dict.fromkeys([FORWARDING, *PURPOSES.values()]):
                self._connections.drop(before.node_id, purpose)
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, None
        if changed is not None:
            changed.set_result(None)

    # -- one request

    async def _run(
        self, request: Any, context: RequestContext, send: Callable[..., Any], timeout_ms: float
    ) -> Any:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        failures = 0
        while True:
            leader = self._leader()
            try:
                if leader is None:
                    raise Refused(ErrorCode.NOT_CONTROLLER, "There is no active controller at the moment.")
                if leader.node_id == self._node_id:
                    return await self._call(request, context, deadline)
                remaining_s = min(deadline - loop.time(), self._request_timeout_s)
                return await send(leader, remaining_s)
            except UnsupportedVersion as error:
                raise Refused(
                    ErrorCode.UNSUPPORTED_VERSION, f"The active controller is too old: {error}"
                ) from error
            except RequestFailed as error:
                reason = str(error)
            except Refused as refused:
                if refused.error is not ErrorCode.NOT_CONTROLLER or self._is_ending():
                    raise
                reason = refused.message
            if self._is_ending():
                raise Refused(ErrorCode.NOT_CONTROLLER, "This node is stopping.")
            failures += 1
            name = api(context.api_key).name
            logger.debug("%s is sent again to the active controller: %s", name, reason)
            await self._pause(leader, failures, deadline)
            if loop.time() >= deadline:
                raise Refused(
                    ErrorCode.REQUEST_TIMED_OUT,
                    f"No active controller responded to {name} within {timeout_ms:.0f} ms: {reason}",
                )

    async def _call(self, request: Any, context: RequestContext, deadline: float) -> Any:
        """Call the controller of this node. Raises `Refused` only for NOT_CONTROLLER, as over the wire."""
        assert self._local is not None, "a node without the controller role cannot lead the quorum"
        try:
            async with asyncio.timeout_at(deadline):
                return await TABLE.call(self._local, request, context)
        except TimeoutError as error:
            raise Refused(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{api(context.api_key).name} did not finish in time; it may still take effect.",
            ) from error
        except Refused as refused:
            if refused.error is ErrorCode.NOT_CONTROLLER:
                raise
            return TABLE.refuse(request, refused, context)

    async def _send_envelope(
        self, request: Any, context: RequestContext, leader: NodeAddress, timeout_s: float
    ) -> Any:
        envelope = await self._connections.ask(
            leader, FORWARDING, wrap_request(request, context), timeout_s=timeout_s
        )
        error = envelope.error_code
        if error is ErrorCode.NOT_CONTROLLER:
            raise _not_active(leader)
        if error is ErrorCode.UNSUPPORTED_VERSION:
            # The client's version is one that this broker offers, so the client is not to blame.
            raise Refused(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"The active controller, {leader}, does not support version {context.version} of "
                f"{api(context.api_key).name}.",
            )
        if error is not ErrorCode.NONE:
            raise Refused(error, f"The active controller, {leader}, rejected the forwarded request.")
        try:
            return unwrap_response(envelope, context)
        except MalformedMessage as malformed:
            raise Refused(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"The response of the active controller, {leader}, cannot be read: {malformed}",
            ) from malformed

    async def _pause(self, tried: NodeAddress | None, failures: int, deadline: float) -> None:
        """Wait for the backoff, for another leader, or for the deadline."""
        loop = asyncio.get_running_loop()
        if self._leader() != tried:
            return
        if self._changed is None:
            self._changed = loop.create_future()
        wait_s = min(self._backoff.wait_ms(failures) / 1000, max(0.0, deadline - loop.time()))
        await asyncio.wait([self._changed], timeout=wait_s)

    def _is_ending(self) -> bool:
        """Whether this node stops, or is about to because its metadata log failed: retries are useless."""
        return self._is_closed or (self._local is not None and self._local.quorum.failure is not None)


def _key_of(request: Any) -> ApiKey:
    key = declaration_of(type(request)).key
    assert key is not None, f"{type(request).__name__} is not a request"
    return api(key).key


def _not_active(leader: NodeAddress) -> Refused:
    return Refused(ErrorCode.NOT_CONTROLLER, f"{leader} is not the active controller.")


def _is_not_controller(response: Any) -> bool:
    """Whether the response, or all results in it, have the error NOT_CONTROLLER."""
    error = getattr(response, "error_code", None)
    if error is not None:
        return error is ErrorCode.NOT_CONTROLLER
    results = getattr(response, "topics", None) or getattr(response, "responses", None) or ()
    return any(getattr(result, "error_code", None) is ErrorCode.NOT_CONTROLLER for result in results)
