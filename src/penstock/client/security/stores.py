"""Reads key stores and trust stores of any type as PEM, which OpenSSL takes.

PEM is used directly, PKCS12 (the default of Java's keytool) is read with the package `cryptography`. Java's old JKS is
rejected, with the command that converts it. If the settings do not give the type, the file's first bytes do.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from penstock.client.errors import BadConfiguration

JKS_MAGIC = bytes.fromhex("feedfeed")
PEM_MARK = b"-----BEGIN "


class KeyPair(NamedTuple):
    """A private key and its certificates, as PEM."""

    key: bytes
    certificates: bytes
    password: str | None
    """The password of the key."""


def read_trusted(path: str, kind: str | None, password: str | None) -> str:
    """The certificates of a trust store, as PEM."""
    data = _read(path, "ssl.truststore.location")
    if _form(data, kind, path) == "PEM":
        return data.decode("utf-8", "replace")
    store = _open(data, password, path, "ssl.truststore.password")
    certificates = [each.certificate for each in store.additional_certs]
    if store.cert is not None:
        certificates.append(store.cert.certificate)
    if not certificates:
        raise BadConfiguration(f"{path} contains no certificate")
    return b"".join(map(_pem, certificates)).decode()


def read_key_pair(path: str, kind: str | None, password: str | None, key_password: str | None) -> KeyPair:
    """The private key of a key store with its certificates."""
    data = _read(path, "ssl.keystore.location")
    if _form(data, kind, path) == "PEM":
        return KeyPair(data, data, key_password or password)
    store = _open(data, password, path, "ssl.keystore.password")
    if store.key is None or store.cert is None:
        raise BadConfiguration(f"{path} contains no private key with a certificate")
    chain = [store.cert.certificate, *(each.certificate for each in store.additional_certs)]
    return KeyPair(_key_pem(store.key), b"".join(map(_pem, chain)), None)


def _read(path: str, setting: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise BadConfiguration(f"{setting}: {path} cannot be read: {error.strerror}") from error


def _form(data: bytes, kind: str | None, path: str) -> str:
    """The type of the file: that of the settings, unless the first bytes contradict it."""
    if data[:4] == JKS_MAGIC:
        raise BadConfiguration(
            f"{path} is a JKS store, which only Java reads; convert it with "
            f"`keytool -importkeystore -srckeystore {path} -destkeystore new.p12 -deststoretype PKCS12`"
        )
    found = "PEM" if PEM_MARK in data else "PKCS12"
    if kind is not None and kind.upper() in ("PEM", "PKCS12") and kind.upper() != found:
        raise BadConfiguration(f"{path} is not a {kind} store")
    return found


def _open(data: bytes, password: str | None, path: str, setting: str) -> Any:
    try:
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError:
        raise BadConfiguration(
            f"{path}: reading a PKCS12 store needs the package `cryptography`, which is not installed; "
            "install it, or convert the store to PEM with `openssl pkcs12`"
        ) from None
    try:
        return load_pkcs12(data, None if password is None else password.encode())
    except ValueError as error:
        raise BadConfiguration(
            f"{path} cannot be opened: check {setting} and that the file is complete ({error})"
        ) from error


def _pem(certificate: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    encoded: bytes = certificate.public_bytes(Encoding.PEM)
    return encoded


def _key_pem(key: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    encoded: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return encoded
