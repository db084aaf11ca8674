"""Addresses of a cluster's first nodes: how `bootstrap.servers` is read, and how names become addresses.

A host is a name, an IPv4 address or an IPv6 address in brackets; the port must be there. A security protocol in
front (`PLAINTEXT://host:9092`) is read over, as Kafka does. What cannot be read is refused, and the words name it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple, TypeVar

T = TypeVar("T")

USE_ALL_DNS_IPS = "use_all_dns_ips"
RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY = "resolve_canonical_bootstrap_servers_only"

PORT_MAX = 65_535

_ENTRY = re.compile(
    r"(?:[A-Za-z_]+://)?(?:\[(?P<bracketed>[0-9A-Fa-f:.%_\w]+)\]|(?P<plain>[^\s:/\[\],]+)):(?P<port>[0-9]+)"
)


class BadAddress(ValueError):
    """An entry that is no `host:port`."""


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_addresses(entries: str | Iterable[str]) -> list[Address]:
    """The addresses in order, each once; BadAddress where one cannot be read or none is there."""
    if isinstance(entries, str):
        entries = entries.split(",")
    parsed = [parse_address(entry.strip()) for entry in entries if entry.strip()]
    if not parsed:
        raise BadAddress("no address is given: write host:port, and several with commas between them")
    return list(dict.fromkeys(parsed))


def parse_address(entry: str) -> Address:
    matched = _ENTRY.fullmatch(entry)
    if matched is None:
        raise BadAddress(f"{entry!r} is no address: {_what_is_wrong(entry)}")
    host, port = matched["bracketed"] or matched["plain"], int(matched["port"])
    if not 0 < port <= PORT_MAX:
        raise BadAddress(f"{entry!r} is no address: a port is a number from 1 to {PORT_MAX}")
    return Address(host, port)


def _what_is_wrong(entry: str) -> str:
    if is_numeric(entry) and ":" in entry:
        return f"write an IPv6 address in brackets and a port after it, as in [{entry}]:9092"
    if ":" not in entry:
        return f"the port is missing, as in {entry}:9092"
    return "write host:port, with an IPv6 address in brackets"


def is_numeric(host: str) -> bool:
    """Whether no name service is needed to reach it."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


async def resolve(host: str, port: int) -> list[str]:
    """Every address of the host, in the order of the system's preference; OSError where it has none."""
    if is_numeric(host):
        return [host]
    found = await _asked(partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM))
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def canonical(address: Address) -> list[Address]:
    """The full names of all addresses behind a name: what a server's Kerberos principal or certificate speaks of."""
    names = []
    for found in await resolve(address.host, address.port):
        name, _ = await _asked(partial(socket.getnameinfo, (found, address.port), socket.NI_NUMERICSERV))
        names.append(Address(name, address.port))
    return list(dict.fromkeys(names))


async def _asked(question: Callable[[], T]) -> T:
    """What the name service says, which may take a while."""
    try:
        # Not by the loop: uvloop would make libuv's pool of threads, which a forked child crashes of when it ends.
        return await asyncio.to_thread(question)
    except RuntimeError:  # the program ends, and there are no threads any more
        return question()
