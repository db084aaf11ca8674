"""Addresses of bootstrap servers: parses `bootstrap.servers` and resolves host names.

A host is a name, an IPv4 address, or an IPv6 address in brackets; the port is required. A security protocol in front
(`PLAINTEXT://host:9092`) is skipped, as in Kafka.
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
    """An entry is not `host:port`."""


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_addresses(entries: str | Iterable[str]) -> list[Address]:
    """The addresses in order, without duplicates; BadAddress if one is invalid or there is none."""
    if isinstance(entries, str):
        entries = entries.split(",")
    parsed = [parse_address(entry.strip()) for entry in entries if entry.strip()]
    if not parsed:
        raise BadAddress("no address given: write host:port, with commas between several")
    return list(dict.fromkeys(parsed))


def parse_address(entry: str) -> Address:
    matched = _ENTRY.fullmatch(entry)
    if matched is None:
        raise BadAddress(f"{entry!r} is not an address: {_what_is_wrong(entry)}")
    host, port = matched["bracketed"] or matched["plain"], int(matched["port"])
    if not 0 < port <= PORT_MAX:
        raise BadAddress(f"{entry!r} is not an address: a port is a number from 1 to {PORT_MAX}")
    return Address(host, port)


def _what_is_wrong(entry: str) -> str:
    if is_numeric(entry) and ":" in entry:
        return f"write an IPv6 address in brackets and a port after it, as in [{entry}]:9092"
    if ":" not in entry:
        return f"the port is missing, as in {entry}:9092"
    return "write host:port, with an IPv6 address in brackets"


def is_numeric(host: str) -> bool:
    """Whether the host is an IP address, so that no DNS lookup is needed."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


async def resolve(host: str, port: int) -> list[str]:
    """All addresses of the host, in the system's order of preference; OSError if there are none."""
    if is_numeric(host):
        return [host]
    found = await _asked(partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM))
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def canonical(address: Address) -> list[Address]:
    """The fully qualified names of all addresses of a host, as in a Kerberos principal or certificate."""
    names = []
    for found in await resolve(address.host, address.port):
        name, _ = await _asked(partial(socket.getnameinfo, (found, address.port), socket.NI_NUMERICSERV))
        names.append(Address(name, address.port))
    return list(dict.fromkeys(names))


async def _asked(question: Callable[[], T]) -> T:
    """Asks DNS, which may take a while."""
    try:
        # Not with the loop's resolver: uvloop would start libuv's thread pool, which crashes a forked child at its end.
        return await asyncio.to_thread(question)
    except RuntimeError:  # the interpreter is shutting down and starts no threads
        return question()
