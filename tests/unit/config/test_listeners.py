"""Addresses and their forms."""

from __future__ import annotations

import pytest

from penstock.config.errors import BadSetting
from penstock.config.listeners import (
    Listener,
    check_ports_differ,
    is_host_and_port,
    is_voter,
    parse_listeners,
    parse_protocol_map,
)

PLAIN = {"PLAINTEXT": "PLAINTEXT", "INSIDE": "PLAINTEXT"}


@pytest.mark.parametrize(
    ("entry", "listener"),
    [
        ("PLAINTEXT://127.0.0.1:9092", Listener("PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT")),
        ("plaintext://:0", Listener("PLAINTEXT", "", 0, "PLAINTEXT")),
        ("INSIDE://[::1]:65535", Listener("INSIDE", "::1", 65535, "PLAINTEXT")),
        ("INSIDE://my_host.example:1", Listener("INSIDE", "my_host.example", 1, "PLAINTEXT")),
    ],
)
def test_a_listener_is_read(entry: str, listener: Listener) -> None:
    assert parse_listeners("listeners", (entry,), PLAIN) == (listener,)


def test_a_listener_is_formatted_as_it_is_parsed() -> None:
    for entry in ("PLAINTEXT://127.0.0.1:9092", "INSIDE://[::1]:9", "INSIDE://:9"):
        (listener,) = parse_listeners("listeners", (entry,), PLAIN)
        assert str(listener) == entry


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("PLAINTEXT", "of the form NAME://host:port"),
        ("PLAINTEXT://host", "of the form NAME://host:port"),
        ("PLAINTEXT://::1:9092", "of the form NAME://host:port"),
        ("PLAINTEXT://host:65536", "between 0 and 65535"),
        ("OUTSIDE://host:9092", "OUTSIDE:PLAINTEXT"),
    ],
)
def test_an_invalid_listener_is_refused_with_a_hint(entry: str, message: str) -> None:
    with pytest.raises(BadSetting) as refusal:
        parse_listeners("listeners", (entry,), PLAIN)

    assert message in str(refusal.value)
    assert refusal.value.value == entry


def test_a_listener_name_is_unique() -> None:
    with pytest.raises(BadSetting, match="PLAINTEXT is used more than once"):
        parse_listeners("listeners", ("PLAINTEXT://a:1", "plaintext://b:2"), PLAIN)


def test_a_port_is_used_once_but_for_the_two_families_of_addresses() -> None:
    def listeners(*hosts: str) -> tuple[Listener, ...]:
        return tuple(Listener(f"L{n}", host, 9092, "PLAINTEXT") for n, host in enumerate(hosts))

    check_ports_differ("listeners", listeners("127.0.0.1", "::1"))
    check_ports_differ("listeners", (Listener("A", "", 0, "PLAINTEXT"), Listener("B", "", 0, "PLAINTEXT")))
    for hosts in (("a", "b"), ("127.0.0.1", "127.0.0.2"), ("127.0.0.1", "::1", "::2"), ("", "::1")):
        with pytest.raises(BadSetting, match="port 9092"):
            check_ports_differ("listeners", listeners(*hosts))


def test_a_protocol_map_is_read_in_capitals() -> None:
    assert parse_protocol_map(" inside:plaintext , OUTSIDE:SSL,") == {"INSIDE": "PLAINTEXT", "OUTSIDE": "SSL"}


@pytest.mark.parametrize("text", ["INSIDE", "INSIDE:CLEAR", ":SSL"])
def test_a_bad_protocol_map_is_refused(text: str) -> None:
    with pytest.raises(BadSetting, match="NAME:PROTOCOL"):
        parse_protocol_map(text)


def test_other_nodes_are_named_by_host_and_port() -> None:
    assert is_host_and_port("host:9092")
    assert is_host_and_port("[::1]:9092")
    assert not any(map(is_host_and_port, ["host", "host:", ":9092", "host:99999", "1@host:9092"]))
    assert is_voter("1@host:9092")
    assert not any(map(is_voter, ["host:9092", "1@host", "-1@host:9092", "9999999999@host:1"]))
