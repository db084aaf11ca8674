"""SASL OAUTHBEARER (RFC 7628): authentication by a token, and the sources of tokens.

A token comes from a function of the application (`sasl_login_callback_handler_class=get_token`), from an issuer by
client id and secret (`sasl.oauthbearer.token.endpoint.url`), or, for tests, is made here without a signature. Each
connection asks for a token; a function that is slow should cache it.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from penstock.client.errors import AuthenticationError, BadConfiguration
from penstock.client.security.jaas import Login

SEPARATOR = "\x01"
LIFETIME_S = 3600  # of a token without a signature, as in Kafka
ANSWER_BYTES_MAX = 1 << 20  # of an issuer

_TOKEN = re.compile(r"[-_~+/.a-zA-Z0-9]+=*")
_EXTENSION_NAME = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7E \t\r\n]+")


class Token(NamedTuple):
    value: str
    extensions: Mapping[str, str] = {}


class OAuthBearer:
    name = "OAUTHBEARER"

    def __init__(self, token: Token) -> None:
        if not _TOKEN.fullmatch(token.value):
            raise AuthenticationError("the token is invalid: it has characters that no token has")
        for name, value in token.extensions.items():
            if not _EXTENSION_NAME.fullmatch(name) or name == "auth" or not _EXTENSION_VALUE.fullmatch(value):
                raise AuthenticationError(f"the token extension {name!r} has an invalid name or value")
        extensions = "".join(f"{SEPARATOR}{name}={value}" for name, value in token.extensions.items())
        self._first = f"n,,{SEPARATOR}auth=Bearer {token.value}{extensions}{SEPARATOR}{SEPARATOR}".encode()

    def first(self) -> bytes:
        return self._first

    def answer(self, challenge: bytes) -> bytes | None:
        """A broker that accepts the token sends nothing. Otherwise it sends the reason, and waits for an
        acknowledgement."""
        return SEPARATOR.encode() if challenge else None


# -- sources of tokens


async def token_from(source: Callable[[], Any]) -> Token:
    """Call the application's function, which may be async, and may return text, or text and extensions."""
    try:
        given = source()
        if inspect.isawaitable(given):
            given = await given
    except Exception as error:
        raise AuthenticationError(f"the token function failed: {error!r}") from error
    if isinstance(given, str):
        return Token(given)
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str):
        return Token(given[0], dict(given[1]))
    raise AuthenticationError(
        f"the token function must return a string, or a string and a mapping, not {type(given).__name__}"
    )


def unsecured_token(login: Login, *, now_s: float) -> Token:
    """A token with the claims of the login, without a signature: for tests, as in Kafka."""
    claims: dict[str, object] = {}
    extensions: dict[str, str] = {}
    for option, value in login.options.items():
        kind, _, name = option.partition("_")
        match kind:
            case "unsecuredLoginStringClaim":
                claims[name] = value
            case "unsecuredLoginNumberClaim":
                claims[name] = float(value)
            case "unsecuredLoginListClaim":
                claims[name] = [part for part in value[1:].split(value[:1]) if part]
            case "unsecuredLoginExtension":
                extensions[name] = value
    lifetime_s = int(login.options.get("unsecuredLoginLifetimeSeconds", LIFETIME_S))
    claims.setdefault("iat", now_s)
    claims.setdefault("exp", now_s + lifetime_s)
    return Token(f"{_encoded({'alg': 'none'})}.{_encoded(claims)}.", extensions)


def _encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


class Issuer:
    """Gets a token for a client id and secret (OAuth 2 grant `client_credentials`)."""

    def __init__(
        self,
        url: str,
        *,
        client_id: str,
        client_secret: str,
        scope: str | None,
        encodes: bool,
        timeout_s: float,
    ) -> None:
        if not url.startswith(("https://", "http://")):
            raise BadConfiguration(
                f"sasl.oauthbearer.token.endpoint.url: {url!r} must begin with https:// or http://"
            )
        self._url = url
        self._client_id = client_id
        self._client_secret = client_secret
        self._scope = scope
        self._encodes = encodes
        self._timeout_s = timeout_s

    async def token(self) -> Token:
        loop = asyncio.get_running_loop()
        return Token(await loop.run_in_executor(None, self._ask))

    def _ask(self) -> str:
        """Blocks; runs in a worker thread."""
        from urllib.parse import quote_plus, urlencode
        from urllib.request import Request, urlopen

        who, secret = self._client_id, self._client_secret
        if self._encodes:
            who, secret = quote_plus(who), quote_plus(secret)
        body = {"grant_type": "client_credentials"} | ({"scope": self._scope} if self._scope else {})
        request = Request(
            self._url,
            data=urlencode(body).encode(),
            headers={
                "Authorization": "Basic " + base64.b64encode(f"{who}:{secret}".encode()).decode(),
                "Accept": "application/json",
            },
        )
        try:
            with urlopen(request, timeout=self._timeout_s) as response:
                token = json.loads(response.read(ANSWER_BYTES_MAX))["access_token"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise AuthenticationError(f"{self._url} returned no token: {error}") from error
        return str(token)
