"""The formats of listeners, advertised listeners, voters and other addresses."""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.config.errors import BadSetting

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SERVED_PROTOCOLS = ("PLAINTEXT",)  # TLS and SASL are not implemented in the broker yet

# NAME://host:port. A host is a name, an IPv4 address or an IPv6 address in brackets; it may be empty.
LISTENER = re.compile(r"([^:/\s]+)://(?:\[([0-9a-fA-F:.%]+)\]|([^:\[\]/\s]*)):(-?[0-9]{1,9})")
HOST_AND_PORT = re.compile(r"(?:\[([0-9a-fA-F:.%]+)\]|([^:\[\]@/\s]+)):([0-9]{1,9})")
VOTER = re.compile(rf"([0-9]{{1,10}})@{HOST_AND_PORT.pattern}")
IPV4 = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}")

PORT_MAX = 65535
UNROUTABLE = "0.0.0.0"


@dataclass(frozen=True, slots=True)
class Listener:
    """An address with its listener name and security protocol."""

    name: str
    host: str
    """Empty means all interfaces; in an advertised listener, the host name of the machine."""
    port: int
    security_protocol: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_protocol_map(text: str) -> dict[str, str]:
    """`listener.security.protocol.map`: listener name to security protocol, both in capitals."""
    key = "listener.security.protocol.map"
    protocols: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, separator, protocol = (part.strip() for part in entry.rpartition(":"))
        if not separator or not name or protocol.upper() not in SECURITY_PROTOCOLS:
            raise BadSetting(
                key, text, f"must be a list of NAME:PROTOCOL with one of {', '.join(SECURITY_PROTOCOLS)}"
            )
        protocols[name.upper()] = protocol.upper()
    return protocols


def parse_listeners(key: str, entries: tuple[str, ...], protocols: dict[str, str]) -> tuple[Listener, ...]:
    """Parse the listeners of the setting `key`. Their names must be unique."""
    listeners = tuple(_parse_listener(key, entry, protocols) for entry in entries)
    names = [listener.name for listener in listeners]
    for listener in listeners:
        if names.count(listener.name) > 1:
            raise BadSetting(
                key, ",".join(entries), f"the listener name {listener.name} is used more than once"
            )
    return listeners


def _parse_listener(key: str, entry: str, protocols: dict[str, str]) -> Listener:
    match = LISTENER.fullmatch(entry)
    if match is None:
        raise BadSetting(
            key, entry, "must be of the form NAME://host:port, such as PLAINTEXT://127.0.0.1:9092"
        )
    name, address, host, port = match[1].upper(), match[2], match[3], int(match[4])
    if not 0 <= port <= PORT_MAX:
        raise BadSetting(key, entry, f"the port must be between 0 and {PORT_MAX}")
    if name not in protocols:
        known = ", ".join(protocols)
        raise BadSetting(
            key,
            entry,
            f"the listener name {name} is unknown: use one of {known}, or add {name}:PLAINTEXT to "
            "listener.security.protocol.map",
        )
    return Listener(name, address or host, port, protocols[name])


def check_ports_differ(key: str, listeners: tuple[Listener, ...]) -> None:
    """Two listeners can share a port only if one is for IPv4 and the other for IPv6."""
    by_port: dict[int, list[Listener]] = {}
    for listener in listeners:
        if listener.port != 0:
            by_port.setdefault(listener.port, []).append(listener)
    for port, sharing in by_port.items():
        families = {_family(listener.host) for listener in sharing}
        if len(sharing) > 1 and (len(sharing) > 2 or families != {"IPv4", "IPv6"}):
            both = ",".join(map(str, sharing))
            raise BadSetting(
                key,
                both,
                f"port {port} is used more than once; only one IPv4 and one IPv6 address can share a port",
            )


def is_host_and_port(text: str) -> bool:
    match = HOST_AND_PORT.fullmatch(text)
    return match is not None and int(match[3]) <= PORT_MAX


def is_voter(text: str) -> bool:
    match = VOTER.fullmatch(text)
    return match is not None and int(match[1]) < 2**31 and int(match[4]) <= PORT_MAX


def _family(host: str) -> str:
    if ":" in host:
        return "IPv6"
    return "IPv4" if IPV4.fullmatch(host) else "name"
