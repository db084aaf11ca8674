"""All ways to authenticate to a real Apache Kafka: TLS, client certificates, and the SASL mechanisms."""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.admin import new_name
from harness.brokers import KafkaBroker, free_port
from harness.certificates import Authority, Identity
from penstock import Consumer, Producer
from penstock.client import errors
from penstock.client.cluster_client import ClusterClient
from penstock.client.security.jaas import parse_login
from penstock.client.security.oauth import unsecured_token
from penstock.client.security.scram import HASHES
from penstock.client.settings import AdminSettings
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from penstock.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest

PLAIN_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH_LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
PROTOCOLS = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
PASSWORD = 'pass,word="ä'
STORE_PASSWORD = "store-secret"


@dataclass
class SecuredKafka:
    broker: KafkaBroker
    ports: dict[str, int]
    authority: Authority
    client: Identity
    folder: Path

    def settings(self, protocol: str, *, host: str = "localhost", **settings: object) -> AdminSettings:
        """Settings of a client that trusts the authority and does not authenticate itself yet."""
        trust = (
            {}
            if "ssl_truststore_location" in settings
            else {"ssl_truststore_certificates": self.authority.pem}
        )
        return AdminSettings.of(
            f"{host}:{self.ports[protocol]}",
            None,
            {"security_protocol": protocol, "default_api_timeout_ms": 30_000, **trust, **settings},
        )


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[SecuredKafka]:
    """One broker with a listener for each protocol and all mechanisms."""
    folder = tmp_path_factory.mktemp("secured")
    authority = Authority()
    server = authority.issue("broker", hosts=("localhost",))
    ports = {protocol: free_port() for protocol in PROTOCOLS}
    broker = KafkaBroker(folder / "broker", libs=request.config.getoption("--kafka-libs"))
    listeners = {"PLAINTEXT": broker.port, **ports, "CONTROLLER": broker.controller_port}
    broker.settings |= {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in listeners.items()),
        "advertised.listeners": ",".join(
            f"{name}://localhost:{port}" for name, port in listeners.items() if name != "CONTROLLER"
        ),
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"
        + ",".join(f"{name}:{name}" for name in PROTOCOLS),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(server.write_pem(folder / "server.pem")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.write_pem(folder / "authority.pem")),
        "listener.name.ssl.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
    }
    for listener in ("sasl_plaintext", "sasl_ssl"):
        escaped = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
        logins = {
            "plain": f'{PLAIN_LOGIN} required user_alice="{escaped}";',
            "scram-sha-256": f"{SCRAM_LOGIN} required;",
            "scram-sha-512": f"{SCRAM_LOGIN} required;",
            "oauthbearer": f'{OAUTH_LOGIN} required unsecuredLoginStringClaim_sub="broker";',
        }
        for mechanism, login in logins.items():
            # A properties file treats backslashes as escapes.
            broker.settings[f"listener.name.{listener}.{mechanism}.sasl.jaas.config"] = "".join(
                char if ord(char) < 128 else f"\\u{ord(char):04x}" for char in login.replace("\\", "\\\\")
            )
    broker.start()
    yield SecuredKafka(broker, ports, authority, authority.issue("alice"), folder)
    broker.close()


async def check(settings: AdminSettings) -> None:
    """A client with these settings gets a response that needs authentication."""
    client = ClusterClient(settings)
    try:
        assert (await client.refresh()).cluster_id is not None
        await client.connect(1)
        assert client.is_ready(1)
    finally:
        await client.close()


def login(module: str, **options: str) -> str:
    escaped = {name: value.replace("\\", "\\\\").replace('"', '\\"') for name, value in options.items()}
    return f"{module} required " + " ".join(f'{name}="{value}"' for name, value in escaped.items()) + ";"


@pytest.fixture(scope="module")
def scram_users(kafka: SecuredKafka) -> None:
    """A user with a password for each hash, known to the broker."""
    salt = b"0123456789abcdef"
    upsertions = [
        ScramCredentialUpsertion(
            name="al=ice,b",
            mechanism=number,
            iterations=4096,
            salt=salt,
            salted_password=hashlib.pbkdf2_hmac(algorithm, PASSWORD.encode(), salt, 4096),
        )
        for number, algorithm in enumerate(HASHES.values(), start=1)
    ]

    async def are_known(client: ClusterClient) -> bool:
        response = await client.ask(1, DescribeUserScramCredentialsRequest(users=None))
        return [len(each.credential_infos) for each in response.results] == [len(upsertions)]

    async def alter() -> None:
        client = ClusterClient(AdminSettings.of(kafka.broker.bootstrap))
        try:
            for upsertion in upsertions:  # Kafka accepts a user only once per request
                response = await client.ask_controller(
                    AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion])
                )
                assert [each.error_code for each in response.results] == [ErrorCode.NONE]
            while not await are_known(client):  # the broker applies them a moment after the controller
                await asyncio.sleep(0.02)
        finally:
            await client.close()

    asyncio.run(alter())


# -- TLS


async def test_a_client_certificate_from_settings(kafka: SecuredKafka) -> None:
    await check(
        kafka.settings(
            "SSL",
            ssl_keystore_key=kafka.client.key_pem,
            ssl_keystore_certificate_chain=kafka.client.certificate_pem,
        )
    )


async def test_a_client_certificate_from_files(kafka: SecuredKafka) -> None:
    await check(
        kafka.settings(
            "SSL",
            ssl_truststore_type="PEM",
            ssl_truststore_location=str(kafka.authority.write_pem(kafka.folder / "trusted.pem")),
            ssl_keystore_type="PEM",
            ssl_keystore_location=str(
                kafka.client.write_pem(kafka.folder / "own.pem", password="key-secret")
            ),
            ssl_key_password="key-secret",
        )
    )


async def test_a_client_certificate_from_java_stores(kafka: SecuredKafka) -> None:
    trusted = kafka.authority.write_pkcs12(kafka.folder / "trusted.p12", STORE_PASSWORD)
    own = kafka.client.write_pkcs12(kafka.folder / "own.p12", STORE_PASSWORD)
    await check(
        kafka.settings(
            "SSL",
            ssl_truststore_location=str(trusted),
            ssl_truststore_password=STORE_PASSWORD,
            ssl_keystore_location=str(own),
            ssl_keystore_password=STORE_PASSWORD,
        )
    )


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
async def test_a_client_without_a_certificate_is_rejected(kafka: SecuredKafka, version: str) -> None:
    with pytest.raises(errors.AuthenticationError):
        await check(kafka.settings("SSL", ssl_enabled_protocols=version))


async def test_a_broker_with_an_unknown_certificate_is_not_trusted(kafka: SecuredKafka) -> None:
    with pytest.raises(errors.TlsFailed, match="not trusted"):
        await check(
            kafka.settings("SASL_SSL", ssl_truststore_certificates=Authority("Another").pem, **plain())
        )


async def test_a_broker_with_another_host_name_is_not_trusted(kafka: SecuredKafka) -> None:
    with pytest.raises(errors.TlsFailed, match=r"127\.0\.0\.1"):
        await check(kafka.settings("SASL_SSL", host="127.0.0.1", **plain()))


async def test_the_host_name_is_not_checked_if_disabled(kafka: SecuredKafka) -> None:
    settings = {"ssl_endpoint_identification_algorithm": ""}
    await check(kafka.settings("SASL_SSL", host="127.0.0.1", **settings, **plain()))


# -- SASL


def plain(password: str = PASSWORD) -> dict[str, Any]:
    return {
        "sasl_mechanism": "PLAIN",
        "sasl_jaas_config": login(PLAIN_LOGIN, username="alice", password=password),
    }


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
async def test_plain(kafka: SecuredKafka, protocol: str) -> None:
    await check(kafka.settings(protocol, **plain()))


@pytest.mark.parametrize("mechanism", list(HASHES))
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.usefixtures("scram_users")
async def test_scram(kafka: SecuredKafka, protocol: str, mechanism: str) -> None:
    await check(
        kafka.settings(
            protocol,
            sasl_mechanism=mechanism,
            sasl_jaas_config=login(SCRAM_LOGIN, username="al=ice,b", password=PASSWORD),
        )
    )


async def test_an_unsigned_token(kafka: SecuredKafka) -> None:
    await check(
        kafka.settings(
            "SASL_SSL",
            sasl_mechanism="OAUTHBEARER",
            sasl_jaas_config=login(OAUTH_LOGIN, unsecuredLoginStringClaim_sub="alice"),
        )
    )


async def test_a_token_from_the_application(kafka: SecuredKafka) -> None:
    async def give_token() -> str:
        made = parse_login(login(OAUTH_LOGIN, unsecuredLoginStringClaim_sub="alice"))
        return unsecured_token(made, now_s=time.time()).value

    await check(
        kafka.settings(
            "SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_login_callback_handler_class=give_token,
        )
    )


async def test_a_wrong_password_is_rejected_at_once(kafka: SecuredKafka) -> None:
    with pytest.raises(errors.SaslAuthenticationFailed, match=r"sasl\.jaas\.config"):
        await check(kafka.settings("SASL_SSL", **plain(password="wrong")))


@pytest.mark.usefixtures("scram_users")
async def test_a_wrong_scram_password_is_rejected_at_once(kafka: SecuredKafka) -> None:
    with pytest.raises(errors.AuthenticationError):
        await check(
            kafka.settings(
                "SASL_PLAINTEXT",
                sasl_mechanism="SCRAM-SHA-256",
                sasl_jaas_config=login(SCRAM_LOGIN, username="al=ice,b", password="wrong"),
            )
        )


async def test_a_rejected_token_is_reported(kafka: SecuredKafka) -> None:
    with pytest.raises(errors.SaslAuthenticationFailed):
        await check(
            kafka.settings(
                "SASL_PLAINTEXT",
                sasl_mechanism="OAUTHBEARER",
                sasl_login_callback_handler_class=lambda: "no.token.",
            )
        )


# -- records


def test_records_are_sent_and_read_through_tls(kafka: SecuredKafka) -> None:
    secured: dict[str, Any] = {
        "bootstrap_servers": f"localhost:{kafka.ports['SASL_SSL']}",
        "security_protocol": "SASL_SSL",
        "ssl_truststore_certificates": kafka.authority.pem,
        **plain(),
    }
    topic = new_name("secured")
    sent = [random.Random(number).randbytes(20_000) for number in range(500)]
    with Producer(settings={name.replace("_", "."): value for name, value in secured.items()}) as producer:
        for value in sent:
            producer.send(topic, value, partition=0)
    with Consumer(topic, **secured) as consumer:
        received = consumer.read(until="end").to_messages()
    assert [message.value for message in received] == sent


# -- the wrong listener


async def test_a_plain_client_on_a_tls_listener_is_told_what_to_check(kafka: SecuredKafka) -> None:
    client = ClusterClient(AdminSettings.of(f"localhost:{kafka.ports['SASL_SSL']}"))
    try:
        with pytest.raises(errors.MalformedAnswer, match=r"security\.protocol"):
            await client.refresh(deadline_ms=client.deadline(10_000))
    finally:
        await client.close()


async def test_a_tls_client_on_a_plain_listener_is_reported(kafka: SecuredKafka) -> None:
    settings = AdminSettings.of(kafka.broker.bootstrap, None, {"security_protocol": "SSL"})
    client = ClusterClient(settings)
    try:
        with pytest.raises(errors.NoBrokersAvailable, match="TLS handshake"):
            await client.refresh(deadline_ms=client.deadline(1000))
    finally:
        await client.close()


async def test_a_client_that_does_not_authenticate_where_it_must_is_reported(kafka: SecuredKafka) -> None:
    client = ClusterClient(AdminSettings.of(f"localhost:{kafka.ports['SASL_PLAINTEXT']}"))
    try:
        with pytest.raises(errors.PenstockError, match="it may require authentication"):
            await client.refresh(deadline_ms=client.deadline(1000))
    finally:
        await client.close()
