"""sasl.jaas.config: what is read, and what is refused without giving a secret away."""

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
def test_options_are_read(text: str, options: dict[str, str]) -> None:
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
def test_what_cannot_be_read_is_refused_without_its_secrets(text: str) -> None:
    with pytest.raises(BadConfiguration) as raised:
        parse_login(text)
    assert "hidden" not in str(raised.value)


def test_an_option_that_is_missing_is_named() -> None:
    with pytest.raises(BadConfiguration, match="lacks username"):
        parse_login(f"{PLAIN} required;").option("username")
