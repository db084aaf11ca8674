"""TLS. All settings can be set for one listener, as `listener.name.<listener>.<setting>`."""

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
        "The format of the key store: PEM or PKCS12. Java's JKS is not supported."
    ),
    string("ssl.keystore.location", dynamic=PER_BROKER).not_yet(
        "The file with the private key and the certificates of this node."
    ),
    secret("ssl.keystore.password", dynamic=PER_BROKER).not_yet("The password of the key store."),
    secret("ssl.key.password", dynamic=PER_BROKER).not_yet("The password of the private key."),
    secret("ssl.keystore.key", dynamic=PER_BROKER).not_yet(
        "The private key in PEM format, instead of a file."
    ),
    secret("ssl.keystore.certificate.chain", dynamic=PER_BROKER).not_yet(
        "The certificate chain of this node in PEM format, instead of a file."
    ),
    string("ssl.truststore.type", "JKS", dynamic=PER_BROKER).not_yet(
        "The format of the trust store: PEM or PKCS12. Java's JKS is not supported."
    ),
    string("ssl.truststore.location", dynamic=PER_BROKER).not_yet("The file with the trusted certificates."),
    secret("ssl.truststore.password", dynamic=PER_BROKER).not_yet("The password of the trust store."),
    secret("ssl.truststore.certificates", dynamic=PER_BROKER).not_yet(
        "The trusted certificates in PEM format, instead of a file."
    ),
)

HANDSHAKE = (
    string("ssl.client.auth", "none", one_of("required", "requested", "none"), dynamic=PER_BROKER).not_yet(
        "Whether clients must present a certificate (required), may present one (requested), or are not "
        "asked (none)."
    ),
    items("ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3"), DISTINCT, dynamic=PER_BROKER).not_yet(
        "The enabled TLS versions."
    ),
    string("ssl.protocol", "TLSv1.3", dynamic=PER_BROKER).not_yet("The newest enabled TLS version."),
    items("ssl.cipher.suites", (), DISTINCT, dynamic=PER_BROKER).not_yet(
        "The enabled cipher suites. Empty means the defaults of OpenSSL."
    ),
    string("ssl.endpoint.identification.algorithm", "https", importance=LOW, dynamic=PER_BROKER).not_yet(
        "How the host name in the certificate of another node is verified: https, or empty for no "
        "verification."
    ),
    string("ssl.principal.mapping.rules", "DEFAULT", importance=LOW).not_yet(
        "Rules that map the distinguished name of a client certificate to a principal."
    ),
    boolean("ssl.allow.dn.changes", False, importance=LOW).not_yet(
        "Allow a new key store whose certificate has another distinguished name."
    ),
    boolean("ssl.allow.san.changes", False, importance=LOW).not_yet(
        "Allow a new key store whose certificate has other subject alternative names."
    ),
)

JAVA = (
    class_name("ssl.engine.factory.class", importance=LOW, dynamic=PER_BROKER).ignored(
        "A Java class that creates TLS engines."
    ),
    string("ssl.provider", dynamic=PER_BROKER).ignored(
        "The Java security provider for TLS. Penstock uses OpenSSL."
    ),
    string("security.providers", importance=LOW).ignored("Java classes that add security providers."),
    string("ssl.keymanager.algorithm", "SunX509", dynamic=PER_BROKER).ignored(
        "The algorithm of Java's key manager."
    ),
    string("ssl.trustmanager.algorithm", "PKIX", dynamic=PER_BROKER).ignored(
        "The algorithm of Java's trust manager."
    ),
    string("ssl.secure.random.implementation", importance=LOW, dynamic=PER_BROKER).ignored(
        "Java's random number generator. Penstock uses that of the operating system."
    ),
)

SETTINGS = KEYS + HANDSHAKE + JAVA
