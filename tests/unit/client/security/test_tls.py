"""The ssl.* settings: the context that they make, and errors."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from harness.certificates import Authority, Identity
from penstock.client.errors import BadConfiguration
from penstock.client.security.tls import make_context
from penstock.client.settings import AdminSettings

AUTHORITY = Authority()
OWN = AUTHORITY.issue("me")


def context(**settings: object) -> ssl.SSLContext:
    return make_context(AdminSettings.of("localhost:9093", None, {"security_protocol": "SSL", **settings}))


def trusted(made: ssl.SSLContext) -> int:
    return made.cert_store_stats()["x509_ca"]


def test_certificates_and_host_names_are_checked_by_default() -> None:
    made = context(ssl_truststore_certificates=AUTHORITY.pem)
    assert made.verify_mode == ssl.CERT_REQUIRED
    assert made.check_hostname
    assert not context(ssl_endpoint_identification_algorithm="").check_hostname
    assert context(ssl_endpoint_identification_algorithm="").verify_mode == ssl.CERT_REQUIRED


def test_trusted_certificates_come_from_settings_and_from_files(tmp_path: Path) -> None:
    pem = AUTHORITY.write_pem(tmp_path / "trust.pem")
    p12 = AUTHORITY.write_pkcs12(tmp_path / "trust.p12", "secret")
    assert trusted(context(ssl_truststore_certificates=AUTHORITY.pem)) == 1
    assert trusted(context(ssl_truststore_location=str(pem), ssl_truststore_type="PEM")) == 1
    assert trusted(context(ssl_truststore_location=str(pem))) == 1, "the file tells what it is"
    assert trusted(context(ssl_truststore_location=str(p12), ssl_truststore_password="secret")) == 1


def test_a_key_store_may_be_a_trust_store(tmp_path: Path) -> None:
    p12 = OWN.write_pkcs12(tmp_path / "own.p12", "secret")
    assert trusted(context(ssl_truststore_location=str(p12), ssl_truststore_password="secret")) == 1


def test_only_enabled_tls_versions_are_used() -> None:
    made = context(ssl_enabled_protocols=["TLSv1.3"])
    assert (made.minimum_version, made.maximum_version) == (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3)
    assert context().minimum_version == ssl.TLSVersion.TLSv1_2


def keys(tmp_path: Path, own: Identity) -> dict[str, dict[str, object]]:
    return {
        "text": {"ssl_keystore_key": own.key_pem, "ssl_keystore_certificate_chain": own.certificate_pem},
        "locked text": {
            "ssl_keystore_key": own.locked_key_pem("k"),
            "ssl_keystore_certificate_chain": own.certificate_pem,
            "ssl_key_password": "k",
        },
        "file": {
            "ssl_keystore_location": str(own.write_pem(tmp_path / "own.pem")),
            "ssl_keystore_type": "PEM",
        },
        "locked file": {
            "ssl_keystore_location": str(own.write_pem(tmp_path / "locked.pem", password="k")),
            "ssl_key_password": "k",
        },
        "store": {
            "ssl_keystore_location": str(own.write_pkcs12(tmp_path / "own.p12", "s")),
            "ssl_keystore_password": "s",
        },
    }


@pytest.mark.parametrize("form", ["text", "locked text", "file", "locked file", "store"])
def test_a_private_key_is_accepted_in_every_form(tmp_path: Path, form: str) -> None:
    context(**keys(tmp_path, OWN)[form])


@pytest.mark.parametrize("form", ["locked text", "locked file", "store"])
@pytest.mark.parametrize("password", [None, "wrong"])
def test_a_wrong_password_is_reported_without_a_prompt(
    tmp_path: Path, form: str, password: str | None
) -> None:
    settings = keys(tmp_path, OWN)[form]
    for name in ("ssl_key_password", "ssl_keystore_password"):
        if name in settings:
            settings[name] = password
    with pytest.raises(BadConfiguration, match="password"):
        context(**settings)


def test_a_key_that_does_not_match_the_certificate_is_reported() -> None:
    with pytest.raises(BadConfiguration, match="cannot be used"):
        context(
            ssl_keystore_key=AUTHORITY.issue("other").key_pem,
            ssl_keystore_certificate_chain=OWN.certificate_pem,
        )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"ssl_truststore_location": "/nowhere/trust.pem"},
            "ssl.truststore.location: /nowhere/trust.pem cannot be read",
        ),
        (
            {"ssl_keystore_location": "/nowhere/own.pem"},
            "ssl.keystore.location: /nowhere/own.pem cannot be read",
        ),
        ({"ssl_truststore_certificates": "nothing"}, "ssl.truststore.certificates contains no certificate"),
        ({"ssl_keystore_key": "x"}, "must be set together"),
        ({"ssl_enabled_protocols": ["SSLv3"]}, "'SSLv3' is not one of"),
        ({"ssl_cipher_suites": ["NONSENSE"]}, "ssl.cipher.suites"),
        ({"ssl_endpoint_identification_algorithm": "ldaps"}, "https, or empty"),
    ],
)
def test_unusable_settings_are_named(settings: dict[str, object], message: str) -> None:
    with pytest.raises(BadConfiguration) as raised:
        context(**settings)
    assert message in str(raised.value)


def test_a_jks_store_is_rejected_with_the_command_to_convert_it(tmp_path: Path) -> None:
    (tmp_path / "trust.jks").write_bytes(bytes.fromhex("feedfeed00000002"))
    with pytest.raises(BadConfiguration, match="keytool -importkeystore"):
        context(ssl_truststore_location=str(tmp_path / "trust.jks"))


def test_a_store_of_another_type_than_configured_is_rejected(tmp_path: Path) -> None:
    pem = AUTHORITY.write_pem(tmp_path / "trust.pem")
    with pytest.raises(BadConfiguration, match="not a PKCS12 store"):
        context(ssl_truststore_location=str(pem), ssl_truststore_type="PKCS12")
