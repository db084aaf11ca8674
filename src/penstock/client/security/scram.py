"""SASL SCRAM (RFC 5802, RFC 7677): both sides prove that they know the password without sending it.

The broker's last message is checked, and a wrong proof ends the login. The nonce is an argument, so that tests can
replay an exchange.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode

from penstock.client.errors import AuthenticationError

ITERATIONS_MIN = 4096  # fewer would make a password easy to guess for an eavesdropper (RFC 7677)
NONCE_BYTES = 24

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


class Scram:
    def __init__(
        self, name: str, username: str, password: str, *, is_token: bool = False, nonce: str | None = None
    ) -> None:
        self.name = name
        self._hash = HASHES[name]
        self._password = password.encode()  # not normalized: Kafka's brokers do not normalize it either
        self._nonce = nonce or b64encode(secrets.token_bytes(NONCE_BYTES)).decode()
        escaped = username.replace("=", "=3D").replace(",", "=2C")
        # A delegation token logs in with its id as the user name, and says so (KIP-48).
        self._first_bare = f"n={escaped},r={self._nonce}" + (",tokenauth=true" if is_token else "")
        self._server_signature: bytes | None = None

    def first(self) -> bytes:
        return f"n,,{self._first_bare}".encode()

    def answer(self, challenge: bytes) -> bytes | None:
        """The proof after the broker's first message; None after its second, which proves the broker."""
        fields = _fields(challenge)
        if "e" in fields:
            raise AuthenticationError(f"the broker rejected the login: {fields['e']}")
        if self._server_signature is None:
            return self._prove(challenge.decode(), fields)
        if not hmac.compare_digest(_decoded(fields, "v"), self._server_signature):
            raise AuthenticationError(
                "the broker does not know the password: it may not be the one it claims to be"
            )
        return None

    def _prove(self, server_first: str, fields: dict[str, str]) -> bytes:
        nonce, salt = fields.get("r", ""), _decoded(fields, "s")
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise AuthenticationError("the broker's SCRAM response does not match the request")
        iterations = int(fields["i"]) if fields.get("i", "").isdecimal() else 0
        if iterations < ITERATIONS_MIN:
            raise AuthenticationError(
                f"the broker asks for {iterations} iterations of SCRAM, which is not safe"
            )
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, iterations)
        client_key = self._hmac(salted, b"Client Key")
        final_bare = f"c={b64encode(b'n,,').decode()},r={nonce}"
        signed = ",".join((self._first_bare, server_first, final_bare)).encode()
        signature = self._hmac(hashlib.new(self._hash, client_key).digest(), signed)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        self._server_signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        return f"{final_bare},p={b64encode(proof).decode()}".encode()

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)


def _fields(message: bytes) -> dict[str, str]:
    try:
        pairs = [field.partition("=") for field in message.decode().split(",")]
    except UnicodeDecodeError as error:
        raise AuthenticationError("the broker's SCRAM response is not UTF-8") from error
    return {name: value for name, _, value in pairs}


def _decoded(fields: dict[str, str], name: str) -> bytes:
    try:
        return b64decode(fields[name], validate=True)
    except (KeyError, ValueError) as error:
        raise AuthenticationError(
            f"the broker's SCRAM response has no {name!r}, or it is not base64"
        ) from error
