"""Encryption of a client's connections, and the certificates of both sides."""

from __future__ import annotations

from penstock.config.declare import DISTINCT, HIGH, LOW, class_name, items, secret, string

KEYS = (
    string("ssl.keystore.type", "JKS").means(
        "The form of the key store: PEM or PKCS12. Java's own JKS is not read; where nothing is said, the file tells."
    ),
    string("ssl.keystore.location", importance=HIGH).means(
        "The file with the client's private key and certificates, where brokers ask for them."
    ),
    secret("ssl.keystore.password", importance=HIGH).means("What opens the key store."),
    secret("ssl.key.password", importance=HIGH).means("What opens the private key."),
    secret("ssl.keystore.key", importance=HIGH).means(
        "The private key itself, in PEM form, instead of a file."
    ),
    secret("ssl.keystore.certificate.chain", importance=HIGH).means(
        "The client's certificate and those above it, in PEM form, instead of a file."
    ),
    string("ssl.truststore.type", "JKS").means(
        "The form of the trust store: PEM or PKCS12. Java's own JKS is not read; where nothing is said, the file tells."
    ),
    string("ssl.truststore.location", importance=HIGH).means(
        "The file with the certificates that are trusted; without one, those that the system trusts."
    ),
    secret("ssl.truststore.password", importance=HIGH).means("What opens the trust store."),
    secret("ssl.truststore.certificates", importance=HIGH).means(
        "The trusted certificates themselves, in PEM form, instead of a file."
    ),
)

HANDSHAKE = (
    items("ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3"), DISTINCT).means(
        "The versions of TLS that are spoken."
    ),
    string("ssl.protocol", "TLSv1.3").no_meaning(
        "Java's name for a version of TLS; `ssl.enabled.protocols` tells which are spoken."
    ),
    items("ssl.cipher.suites", (), DISTINCT, LOW).means(
        "The cipher suites that may be used; empty for the library's choice."
    ),
    string("ssl.endpoint.identification.algorithm", "https", importance=LOW).means(
        "How the name in the broker's certificate is checked: https, or empty for not at all."
    ),
)

OWN = (
    class_name("ssl.engine.factory.class", importance=LOW).means(
        "An `ssl.SSLContext` of the program, instead of all other settings of TLS; a Java class cannot be loaded."
    ),
)

JAVA = (
    string("ssl.provider").no_meaning("The Java security provider for TLS; OpenSSL is used here."),
    string("security.providers", importance=LOW).no_meaning("Java classes that bring security providers."),
    string("ssl.keymanager.algorithm", "SunX509", importance=LOW).no_meaning(
        "The algorithm of Java's key manager."
    ),
    string("ssl.trustmanager.algorithm", "PKIX", importance=LOW).no_meaning(
        "The algorithm of Java's trust manager."
    ),
    string("ssl.secure.random.implementation", importance=LOW).no_meaning(
        "Java's source of randomness; the operating system's is used here."
    ),
)

SETTINGS = KEYS + HANDSHAKE + OWN + JAVA
