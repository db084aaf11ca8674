"""`security.protocol`: the four protocols, and the steps that differ between them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from penstock.client.connection import ClientConnection
from penstock.client.errors import BadConfiguration, Disconnected, PenstockError, TlsFailed
from penstock.client.security.jaas import Login, parse_login
from penstock.client.security.login import Mechanism, log_in
from penstock.runtime.network import Network, Stream, StreamHandler

if TYPE_CHECKING:
    import ssl

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
ISSUER_TIMEOUT_S = 10.0


class Settings(Protocol):
    def get(self, name: str, /) -> Any: ...
    def is_set(self, name: str) -> bool: ...


class Security:
    """Settings are checked here; files are read and tokens requested with each connection."""

    def __init__(self, settings: Settings, *, now_s: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._now_s = now_s
        self._context: ssl.SSLContext | None = None
        self.protocol: str = (settings.get("security.protocol") or "PLAINTEXT").upper()
        if self.protocol not in PROTOCOLS:
            raise BadConfiguration(
                f"security.protocol: {self.protocol!r} is not one of {', '.join(PROTOCOLS)}"
            )
        self.speaks_tls = self.protocol.endswith("SSL")
        self._login: Login | None = None
        self._mechanism = ""
        if self.protocol.startswith("SASL"):
            self._read_login()

    async def connect(
        self,
        network: Network,
        host: str,
        port: int,
        handler: Callable[[Stream], StreamHandler],
        *,
        server_name: str,
    ) -> None:
        """A stream to one address of a server; its certificate must be for `server_name`."""
        if not self.speaks_tls:
            await network.connect(host, port, handler)
            return
        import ssl

        from penstock.net.tls import connect_tls

        if self._context is None:
            from penstock.client.security.tls import make_context

            self._context = make_context(self._settings)
        try:
            await connect_tls(network, host, port, handler, context=self._context, server_name=server_name)
        except ssl.SSLCertVerificationError as error:
            raise TlsFailed(
                f"the certificate of {server_name}:{port} is not trusted: {error.verify_message};"
                " check ssl.truststore.location"
            ) from error
        except ssl.SSLError as error:
            raise _failed(error, f"{server_name}:{port}") from error

    def explained(self, error: Disconnected) -> PenstockError:
        """Why a connection closed early: in TLS 1.3 a client certificate is rejected after the handshake."""
        if self.speaks_tls:
            import ssl

            if isinstance(error.__cause__, ssl.SSLError):
                return _failed(error.__cause__, "the broker")
        return error

    async def log_in(self, connection: ClientConnection, *, timeout_s: float) -> float | None:
        """Authenticate, if SASL is used; returns the session lifetime in seconds, if it is limited."""
        if not self._mechanism:
            return None
        return await log_in(connection, await self._make_mechanism(), timeout_s=timeout_s)

    # -- SASL

    def _read_login(self) -> None:
        self._mechanism = (self._settings.get("sasl.mechanism") or "").upper()
        if self._mechanism not in MECHANISMS:
            raise BadConfiguration(
                f"sasl.mechanism: {self._mechanism or 'nothing'} is not supported; use one of {', '.join(MECHANISMS)}"
            )
        config = self._settings.get("sasl.jaas.config")
        if config is not None:
            self._login = parse_login(config.reveal())
        if self._mechanism != "OAUTHBEARER":
            if self._login is None:
                raise BadConfiguration(
                    f"sasl.mechanism {self._mechanism} needs sasl.jaas.config, as in "
                    '`org.apache.kafka.common.security.plain.PlainLoginModule required username="..." password="...";`'
                )
            self._login.option("username")
            self._login.option("password")

    async def _make_mechanism(self) -> Mechanism:
        if self._mechanism == "OAUTHBEARER":
            return await self._oauth()
        assert self._login is not None
        username, password = self._login.option("username"), self._login.option("password")
        if self._mechanism == "PLAIN":
            from penstock.client.security.plain import Plain

            return Plain(username, password)
        from penstock.client.security.scram import Scram

        is_token = self._login.options.get("tokenauth", "").lower() == "true"
        return Scram(self._mechanism, username, password, is_token=is_token)

    async def _oauth(self) -> Mechanism:
        from penstock.client.security import oauth

        source = self._settings.get("sasl.login.callback.handler.class")
        if callable(source):
            return oauth.OAuthBearer(await oauth.token_from(source))
        url = self._settings.get("sasl.oauthbearer.token.endpoint.url")
        options = dict(self._login.options) if self._login is not None else {}
        if url:
            return oauth.OAuthBearer(await self._issuer(url, options).token())
        if any(option.startswith("unsecuredLogin") for option in options) and self._login is not None:
            return oauth.OAuthBearer(oauth.unsecured_token(self._login, now_s=self._now_s()))
        raise BadConfiguration(
            "OAUTHBEARER needs a token: give a function as sasl_login_callback_handler_class, "
            "or sasl.oauthbearer.token.endpoint.url with an id and a secret"
        )

    def _issuer(self, url: str, options: dict[str, str]) -> Any:
        from penstock.client.security.oauth import Issuer

        get = self._settings.get
        secret = get("sasl.oauthbearer.client.credentials.client.secret")
        client_id = get("sasl.oauthbearer.client.credentials.client.id") or options.get("clientId")
        client_secret = secret.reveal() if secret is not None else options.get("clientSecret")
        if client_id is None or client_secret is None:
            raise BadConfiguration(
                "sasl.oauthbearer.token.endpoint.url needs sasl.oauthbearer.client.credentials.client.id and .secret"
            )
        timeout_ms = get("sasl.login.read.timeout.ms")
        return Issuer(
            url,
            client_id=client_id,
            client_secret=client_secret,
            scope=get("sasl.oauthbearer.scope") or options.get("scope"),
            encodes=bool(get("sasl.oauthbearer.header.urlencode")),
            timeout_s=ISSUER_TIMEOUT_S if timeout_ms is None else timeout_ms / 1000,
        )


def _failed(error: ssl.SSLError, peer: str) -> TlsFailed:
    reason = (
        (error.reason or str(error)).replace("_", " ").lower()
    )  # OpenSSL's message, without its place in the source
    return TlsFailed(
        f"no TLS with {peer}: {reason}; check that security.protocol and ssl.* match the broker's listener"
    )
