"""SASL PLAIN (RFC 4616): user name and password in plain text. Use it with TLS only."""

from __future__ import annotations

from penstock.client.errors import BadConfiguration


class Plain:
    name = "PLAIN"

    def __init__(self, username: str, password: str) -> None:
        if "\0" in username or "\0" in password:
            raise BadConfiguration("a user name or password for SASL PLAIN cannot contain a zero character")
        self._token = f"\0{username}\0{password}".encode()

    def first(self) -> bytes:
        return self._token

    def answer(self, challenge: bytes) -> bytes | None:
        return None
