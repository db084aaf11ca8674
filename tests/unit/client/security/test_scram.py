"""SCRAM: the exchange of RFC 7677, and brokers with a wrong proof."""

from __future__ import annotations

import pytest

from penstock.client.errors import AuthenticationError
from penstock.client.security.scram import Scram

# Section 3 of RFC 7677.
NONCE = "rOprNGfwEbeRWgbNEkqO"
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def scram() -> Scram:
    return Scram("SCRAM-SHA-256", "user", "pencil", nonce=NONCE)


def test_the_exchange_of_the_rfc() -> None:
    mechanism = scram()
    assert mechanism.first() == FIRST
    assert mechanism.answer(SERVER_FIRST) == FINAL
    assert mechanism.answer(SERVER_FINAL) is None


def test_a_broker_that_does_not_know_the_password_is_detected() -> None:
    mechanism = scram()
    mechanism.answer(SERVER_FIRST)
    with pytest.raises(AuthenticationError, match="does not know the password"):
        mechanism.answer(b"v=" + b"A" * 43 + b"=")


def test_a_rejection_has_the_brokers_message() -> None:
    mechanism = scram()
    mechanism.answer(SERVER_FIRST)
    with pytest.raises(AuthenticationError, match="invalid-proof"):
        mechanism.answer(b"e=invalid-proof")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\xff",
        b"r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",  # no nonce of its own
        b"r=rOprNGfwEbeRWgbNEkqOx,i=4096",
        b"r=rOprNGfwEbeRWgbNEkqOx,s=%%%,i=4096",
        b"r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1",
        b"r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=many",
        b"r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==",
    ],
)
def test_an_invalid_response_is_rejected(answer: bytes) -> None:
    with pytest.raises(AuthenticationError):
        scram().answer(answer)


def test_a_name_is_escaped() -> None:
    assert b"n=a=2Cb=3Dc," in Scram("SCRAM-SHA-512", "a,b=c", "x").first()


def test_two_logins_have_different_nonces() -> None:
    assert Scram("SCRAM-SHA-256", "a", "b").first() != Scram("SCRAM-SHA-256", "a", "b").first()


def test_a_delegation_token_login_says_so() -> None:
    assert Scram("SCRAM-SHA-256", "a", "b", is_token=True).first().endswith(b",tokenauth=true")
