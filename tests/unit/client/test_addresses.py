"""Parsing and resolving of bootstrap.servers."""

from __future__ import annotations

import subprocess
import sys

import pytest

from harness.brokers import penstock_environment
from penstock.client.addresses import Address, BadAddress, is_numeric, parse_addresses, resolve


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("localhost:9092", [("localhost", 9092)]),
        ("a:1,b:2", [("a", 1), ("b", 2)]),
        (" a:1 , b:2 ,", [("a", 1), ("b", 2)]),
        ("127.0.0.1:9092", [("127.0.0.1", 9092)]),
        ("[::1]:9092", [("::1", 9092)]),
        ("[fe80::1%eth0]:9092", [("fe80::1%eth0", 9092)]),
        ("PLAINTEXT://broker:9092", [("broker", 9092)]),
        ("SASL_SSL://[::1]:9093", [("::1", 9093)]),
        ("broker-1.example.org:9092", [("broker-1.example.org", 9092)]),
        ("under_score:9092", [("under_score", 9092)]),
        ("a:1,a:1", [("a", 1)]),
        (["a:1", "b:2"], [("a", 1), ("b", 2)]),
    ],
)
def test_addresses_are_parsed(given: str | list[str], read: list[tuple[str, int]]) -> None:
    assert parse_addresses(given) == [Address(*each) for each in read]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("localhost", "port is missing, as in localhost:9092"),
        ("::1", r"in brackets and a port after it, as in \[::1\]:9092"),
        ("localhost:", "write host:port"),
        ("localhost:kafka", "write host:port"),
        ("localhost:0", "from 1 to 65535"),
        ("localhost:65536", "from 1 to 65535"),
        (":9092", "write host:port"),
        ("http://localhost:9092/path", "write host:port"),
        ("a b:9092", "write host:port"),
        ("", "no address given"),
        (" , ", "no address given"),
    ],
)
def test_invalid_addresses_are_rejected_with_a_message(given: str, message: str) -> None:
    with pytest.raises(BadAddress, match=message):
        parse_addresses(given)


def test_an_ipv6_address_is_shown_in_brackets() -> None:
    assert str(Address("::1", 9092)) == "[::1]:9092"
    assert str(Address("localhost", 9092)) == "localhost:9092"


@pytest.mark.parametrize(
    ("host", "expected"), [("127.0.0.1", True), ("::1", True), ("fe80::1%lo", True), ("localhost", False)]
)
def test_a_numeric_address_needs_no_dns(host: str, expected: bool) -> None:
    assert is_numeric(host) is expected


async def test_every_address_of_a_name_is_found_once() -> None:
    found = await resolve("localhost", 9092)
    assert "127.0.0.1" in found
    assert len(found) == len(set(found))


async def test_a_numeric_host_resolves_to_itself() -> None:
    assert await resolve("::1", 9092) == ["::1"]


def test_a_name_is_resolved_while_the_program_ends() -> None:
    """When Python starts no new threads, unclosed producers still have to reach a broker."""
    program = """
import asyncio, atexit
from penstock.client.addresses import resolve
atexit.register(lambda: print(asyncio.run(resolve("localhost", 9092))))
"""

    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=penstock_environment()
    )

    assert "127.0.0.1" in ended.stdout, ended.stderr
