"""Parsing of sasl.jaas.config, and errors that do not show a secret."""

from __future__ import annotations

import pytest

from penstock.client.errors import BadConfiguration
from penstock.client.security.jaas import parse_login

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (
            f'{PLAIN} required username="alice" password="secret";',
            {"username": "alice", "password": "secret"},
        ),
        (f"{PLAIN} required username='alice' password='it is';", {"username": "alice", "password": "it is"}),
        (
            f"{PLAIN} required\n  username=alice\n  password=secret;\n",
            {"username": "alice", "password": "secret"},
        ),
        (f'{PLAIN} REQUIRED username="a\\"b\\\\c" ;', {"username": 'a"b\\c'}),
        (f'{PLAIN} required password="semi;colon=sign";', {"password": "semi;colon=sign"}),
        (f"{PLAIN} required;", {}),
    ],
)
def test_options_are_parsed(text: str, options: dict[str, str]) -> None:
    login = parse_login(text)
    assert login.module == "PlainLoginModule"
    assert login.options == options


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        f"{PLAIN} sometimes x=y;",
        f'{PLAIN} required password="hidden"',
        f'{PLAIN} required password="hidden',
    ],
)
def test_invalid_configs_are_rejected_without_their_secrets(text: str) -> None:
    with pytest.raises(BadConfiguration) as raised:
        parse_login(text)
    assert "hidden" not in str(raised.value)


def test_a_missing_option_is_named() -> None:
    with pytest.raises(BadConfiguration, match="lacks username"):
        parse_login(f"{PLAIN} required;").option("username")
