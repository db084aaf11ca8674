"""Tokens: how they are sent, where they come from, and invalid ones."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from penstock.client.errors import AuthenticationError, BadConfiguration
from penstock.client.security.jaas import Login
from penstock.client.security.oauth import Issuer, OAuthBearer, Token, token_from, unsecured_token


def test_a_token_is_sent_with_its_extensions() -> None:
    assert OAuthBearer(Token("abc.def.")).first() == b"n,,\x01auth=Bearer abc.def.\x01\x01"
    assert OAuthBearer(Token("t", {"trace": "1"})).first() == b"n,,\x01auth=Bearer t\x01trace=1\x01\x01"


def test_an_empty_response_accepts_and_a_rejection_is_acknowledged() -> None:
    assert OAuthBearer(Token("t")).answer(b"") is None
    assert OAuthBearer(Token("t")).answer(b'{"status":"invalid_token"}') == b"\x01"


@pytest.mark.parametrize(
    "token", [Token(""), Token("a b"), Token("a\x01b"), Token("t", {"auth": "x"}), Token("t", {"a1": "x"})]
)
def test_invalid_tokens_are_rejected(token: Token) -> None:
    with pytest.raises(AuthenticationError):
        OAuthBearer(token)


async def give_later() -> str:
    return "t"


@pytest.mark.parametrize(
    ("source", "token"),
    [
        (lambda: "t", Token("t")),
        (give_later, Token("t")),
        (lambda: ("t", {"a": "b"}), Token("t", {"a": "b"})),
    ],
)
async def test_a_function_returns_tokens(source: Callable[[], Any], token: Token) -> None:
    assert await token_from(source) == token


async def test_a_failing_token_function_is_reported() -> None:
    with pytest.raises(AuthenticationError, match="no luck"):
        await token_from(lambda: [][0] if False else (_ for _ in ()).throw(RuntimeError("no luck")))


async def test_a_token_function_with_another_result_is_reported() -> None:
    with pytest.raises(AuthenticationError, match="int"):
        await token_from(lambda: 7)


def test_a_token_without_a_signature_has_the_claims_of_the_login() -> None:
    login = Login(
        "OAuthBearerLoginModule",
        {
            "unsecuredLoginStringClaim_sub": "alice",
            "unsecuredLoginNumberClaim_age": "7",
            "unsecuredLoginListClaim_scope": ",one,two",
            "unsecuredLoginLifetimeSeconds": "60",
            "unsecuredLoginExtension_trace": "1",
        },
    )
    token = unsecured_token(login, now_s=1000)
    head, claims, signature = token.value.split(".")
    assert json.loads(base64.urlsafe_b64decode(head + "==")) == {"alg": "none"}
    assert json.loads(base64.urlsafe_b64decode(claims + "==")) == {
        "sub": "alice",
        "age": 7,
        "scope": ["one", "two"],
        "iat": 1000,
        "exp": 1060,
    }
    assert signature == ""
    assert token.extensions == {"trace": "1"}


class _Issuing(BaseHTTPRequestHandler):
    answer = b'{"access_token": "fresh"}'
    status = 200
    asked: dict[str, str]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        type(self).asked = {"authorization": self.headers["Authorization"], "body": body}
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, *message: Any) -> None:
        pass


@pytest.fixture
def issuing() -> Iterator[tuple[str, type[_Issuing]]]:
    handler = type("Handler", (_Issuing,), {})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/token", handler
        server.shutdown()
        thread.join()


def issuer(url: str) -> Issuer:
    return Issuer(url, client_id="me", client_secret="hush", scope="all", encodes=False, timeout_s=10)


async def test_an_issuer_returns_a_token_for_an_id_and_a_secret(issuing: tuple[str, type[_Issuing]]) -> None:
    url, handler = issuing
    assert await issuer(url).token() == Token("fresh")
    assert base64.b64decode(handler.asked["authorization"].removeprefix("Basic ")) == b"me:hush"
    assert handler.asked["body"] == "grant_type=client_credentials&scope=all"


@pytest.mark.parametrize(("status", "answer"), [(401, b"{}"), (200, b"{}"), (200, b"no json"), (200, b"[]")])
async def test_an_issuer_without_a_token_is_named(
    issuing: tuple[str, type[_Issuing]], status: int, answer: bytes
) -> None:
    url, handler = issuing
    handler.status, handler.answer = status, answer
    with pytest.raises(AuthenticationError, match="returned no token"):
        await issuer(url).token()


def test_an_issuer_must_have_an_http_address() -> None:
    with pytest.raises(BadConfiguration, match="must begin with https"):
        issuer("ftp://somewhere/token")
