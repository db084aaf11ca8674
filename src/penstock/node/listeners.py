"""The listeners of a node: those of its broker, and those of its controller."""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence

from penstock.config.broker import BrokerSettings
from penstock.config.checks import connection_limits
from penstock.config.listeners import SECURITY_PROTOCOLS
from penstock.config.listeners import Listener as Address
from penstock.metadata.image import Endpoint
from penstock.net.connection import Server
from penstock.net.listener import ConnectionLimits, ConnectionTable, Listener
from penstock.node.errors import CannotStart
from penstock.runtime import Network


class NodeListeners:
    def __init__(self, network: Network, connections: ConnectionTable) -> None:
        self._network = network
        self._connections = connections
        self._listeners: list[tuple[Address, Listener]] = []

    async def bind(self, addresses: Sequence[Address], server: Server) -> None:
        """Bind listeners that `server` serves. They accept connections after `start`."""
        for address in addresses:
            listener = Listener(address.name, server, self._connections)
            try:
                await listener.bind(self._network, address.host, address.port)
            except OSError as error:
                remedy = "stop the other program, or " if error.errno == errno.EADDRINUSE else ""
                raise CannotStart(
                    f"cannot listen on {address}: {error.strerror or error}; "
                    f"{remedy}choose another address with --set listeners=... (with --nodes: --port)"
                ) from error
            self._listeners.append((address, listener))

    def start(self, addresses: Sequence[Address]) -> None:
        for address, listener in self._listeners:
            if address in addresses:
                listener.start()

    def stop_accepting(self) -> None:
        for _, listener in self._listeners:
            listener.stop_accepting()

    def bound(self, addresses: Sequence[Address]) -> tuple[str, ...]:
        """The addresses as they were bound, for people."""
        ports = {address: listener.port for address, listener in self._listeners}
        return tuple(
            str(Address(address.name, address.host, ports[address], address.security_protocol))
            for address in addresses
            if address in ports
        )

    def endpoint(self, advertised: Address) -> Endpoint:
        """The advertised endpoint: an empty host becomes the host name, port 0 the port that was bound."""
        port = advertised.port or next(
            listener.port for address, listener in self._listeners if address.name == advertised.name
        )
        host = advertised.host or socket.getfqdn()
        return Endpoint(advertised.name, host, port, SECURITY_PROTOCOLS.index(advertised.security_protocol))


def read_connection_limits(settings: BrokerSettings, *, connections_max: int | None) -> ConnectionLimits:
    """The limits of the settings, and of the descriptors of the process."""
    wanted: int = settings.get("max.connections")
    return ConnectionLimits(
        connections_max=wanted if connections_max is None else min(wanted, connections_max),
        connections_per_host_max=settings.get("max.connections.per.ip"),
        host_overrides=connection_limits(settings.get("max.connections.per.ip.overrides")),
        idle_ms_max=settings.get("connections.max.idle.ms"),
        frame_bytes_max=settings.get("socket.request.max.bytes"),
    )
