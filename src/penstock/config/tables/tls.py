"""Encryption of connections. All of it can be given for one listener, as `listener.name.<listener>.<setting>`."""

from __future__ import annotations

from penstock.config.declare import (
    DISTINCT,
    LOW,
    PER_BROKER,
    boolean,
    class_name,
    items,
    one_of,
    secret,
    string,
)

KEYS = (
    string("ssl.keystore.type", "JKS", dynamic=PER_BROKER).not_yet(
        "The form of the key store: PEM or PKCS12; Java's own JKS is not read."
    ),
    string("ssl.keystore.location", dynamic=PER_BROKER).not_yet(
        "The file with the node's private key and certificates."
    ),
    secret("ssl.keystore.password", dynamic=PER_BROKER).not_yet("What opens the key store."),
    secret("ssl.key.password", dynamic=PER_BROKER).not_yet("What opens the private key."),
    secret("ssl.keystore.key", dynamic=PER_BROKER).not_yet(
        "The private key itself, in PEM form, instead of a file."
    ),
    secret("ssl.keystore.certificate.chain", dynamic=PER_BROKER).not_yet(
        "The node's certificate and those above it, in PEM form, instead of a file."
    ),
    string("ssl.truststore.type", "JKS", dynamic=PER_BROKER).not_yet(
        "The form of the trust store: PEM or PKCS12; Java's own JKS is not read."
    ),
    string("ssl.truststore.location", dynamic=PER_BROKER).not_yet(
        "The file with the certificates that are trusted."
    ),
    secret("ssl.truststore.password", dynamic=PER_BROKER).not_yet("What opens the trust store."),
    secret("ssl.truststore.certificates", dynamic=PER_BROKER).not_yet(
        "The trusted certificates themselves, in PEM form, instead of a file."
    ),
)

HANDSHAKE = (
    string("ssl.client.auth", "none", one_of("required", "requested", "none"), dynamic=PER_BROKER).not_yet(
        "Whether clients must show a certificate, may, or are not asked."
    ),
    items("ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3"), DISTINCT, dynamic=PER_BROKER).not_yet(
        "The versions of TLS that are spoken."
    ),
    string("ssl.protocol", "TLSv1.3", dynamic=PER_BROKER).not_yet(
        "The newest version of TLS that is spoken."
    ),
    items("ssl.cipher.suites", (), DISTINCT, dynamic=PER_BROKER).not_yet(
        "The cipher suites that may be used; empty for the library's choice."
    ),
    string("ssl.endpoint.identification.algorithm", "https", importance=LOW, dynamic=PER_BROKER).not_yet(
        "How the name in another node's certificate is checked: https, or empty for not at all."
    ),
    string("ssl.principal.mapping.rules", "DEFAULT", importance=LOW).not_yet(
        "How the name in a client's certificate becomes the name that access rules speak of."
    ),
    boolean("ssl.allow.dn.changes", False, importance=LOW).not_yet(
        "Allow a new key store whose certificate bears another distinguished name."
    ),
    boolean("ssl.allow.san.changes", False, importance=LOW).not_yet(
        "Allow a new key store whose certificate bears other alternative names."
    ),
)

JAVA = (
    class_name("ssl.engine.factory.class", importance=LOW, dynamic=PER_BROKER).no_meaning(
        "A Java class that makes TLS engines."
    ),
    string("ssl.provider", dynamic=PER_BROKER).no_meaning(
        "The Java security provider for TLS; OpenSSL is used here."
    ),
    string("security.providers", importance=LOW).no_meaning("Java classes that bring security providers."),
    string("ssl.keymanager.algorithm", "SunX509", dynamic=PER_BROKER).no_meaning(
        "The algorithm of Java's key manager."
    ),
    string("ssl.trustmanager.algorithm", "PKIX", dynamic=PER_BROKER).no_meaning(
        "The algorithm of Java's trust manager."
    ),
    string("ssl.secure.random.implementation", importance=LOW, dynamic=PER_BROKER).no_meaning(
        "Java's source of randomness; the operating system's is used here."
    ),
)

SETTINGS = KEYS + HANDSHAKE + JAVA
