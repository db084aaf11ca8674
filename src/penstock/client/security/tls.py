"""Makes an OpenSSL context from the `ssl.*` settings. Imported only by clients that use TLS."""

from __future__ import annotations

import os
import ssl
from typing import Any, Protocol

from penstock.client.errors import BadConfiguration
from penstock.client.security.stores import KeyPair, read_key_pair, read_trusted

VERSIONS = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}


class Settings(Protocol):
    def get(self, name: str, /) -> Any: ...
    def is_set(self, name: str) -> bool: ...


def make_context(settings: Settings) -> ssl.SSLContext:
    """Reads the files that the settings name; raises BadConfiguration."""
    own = settings.get("ssl.engine.factory.class")
    if own is not None:
        if not isinstance(own, ssl.SSLContext):
            raise BadConfiguration(f"ssl.engine.factory.class: must be an ssl.SSLContext, not {own!r}")
        return own
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    algorithm = settings.get("ssl.endpoint.identification.algorithm") or ""
    if algorithm.lower() not in ("", "https"):
        raise BadConfiguration(
            f"ssl.endpoint.identification.algorithm: must be https, or empty for no check, not {algorithm!r}"
        )
    context.check_hostname = algorithm.lower() == "https"
    _set_versions(context, settings.get("ssl.enabled.protocols") or ())
    if suites := settings.get("ssl.cipher.suites"):
        try:
            context.set_ciphers(":".join(suites))
        except ssl.SSLError as error:
            raise BadConfiguration(f"ssl.cipher.suites: OpenSSL knows none of {', '.join(suites)}") from error
    _trust(context, settings)
    pair = _key_pair(settings)
    if pair is not None:
        _present(context, pair)
    return context


def _set_versions(context: ssl.SSLContext, names: tuple[str, ...]) -> None:
    unknown = [name for name in names if name not in VERSIONS]
    if unknown:
        raise BadConfiguration(f"ssl.enabled.protocols: {unknown[0]!r} is not one of {', '.join(VERSIONS)}")
    if names:
        context.minimum_version = min(VERSIONS[name] for name in names)
        context.maximum_version = max(VERSIONS[name] for name in names)


def _trust(context: ssl.SSLContext, settings: Settings) -> None:
    text = _secret(settings, "ssl.truststore.certificates")
    path = settings.get("ssl.truststore.location")
    if text is not None and path:
        raise BadConfiguration("set ssl.truststore.certificates or ssl.truststore.location, not both")
    if path:
        kind = settings.get("ssl.truststore.type") if settings.is_set("ssl.truststore.type") else None
        text = read_trusted(path, kind, _secret(settings, "ssl.truststore.password"))
    if text is None:
        context.load_default_certs()
        return
    try:
        context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        raise BadConfiguration(
            f"{path or 'ssl.truststore.certificates'} contains no certificate in PEM form"
        ) from error


def _key_pair(settings: Settings) -> KeyPair | None:
    key = _secret(settings, "ssl.keystore.key")
    chain = _secret(settings, "ssl.keystore.certificate.chain")
    path = settings.get("ssl.keystore.location")
    key_password = _secret(settings, "ssl.key.password")
    if (key is None) != (chain is None):
        raise BadConfiguration("ssl.keystore.key and ssl.keystore.certificate.chain must be set together")
    if key is not None and chain is not None:
        if path:
            raise BadConfiguration("set ssl.keystore.key or ssl.keystore.location, not both")
        return KeyPair(key.encode(), chain.encode(), key_password)
    if not path:
        return None
    kind = settings.get("ssl.keystore.type") if settings.is_set("ssl.keystore.type") else None
    return read_key_pair(path, kind, _secret(settings, "ssl.keystore.password"), key_password)


def _present(context: ssl.SSLContext, pair: KeyPair) -> None:
    """OpenSSL takes a key only from a file: it gets one in memory, so that the secret is never written to disk."""
    certificates, key = os.memfd_create("certificates"), os.memfd_create("key")
    try:
        os.write(certificates, pair.certificates)
        os.write(key, pair.key)
        # For an encrypted key without a password, OpenSSL would ask for one on the terminal.
        password = pair.password or ""
        context.load_cert_chain(f"/proc/self/fd/{certificates}", f"/proc/self/fd/{key}", lambda: password)
    except (ssl.SSLError, OSError, ValueError) as error:
        raise BadConfiguration(
            f"the client's key and certificates cannot be used: {error}; check ssl.keystore.* and ssl.key.password"
        ) from error
    finally:
        os.close(certificates)
        os.close(key)


def _secret(settings: Settings, name: str) -> str | None:
    value = settings.get(name)
    return None if value is None else str(value.reveal())
