"""TLS of a client."""

from __future__ import annotations

from penstock.config.declare import DISTINCT, HIGH, LOW, class_name, items, secret, string

KEYS = (
    string("ssl.keystore.type", "JKS").means(
        "The format of the key store: PEM or PKCS12. If not set, it is detected from the file. Java's JKS "
        "is not supported."
    ),
    string("ssl.keystore.location", importance=HIGH).means(
        "The file with the private key and the certificates of the client, if brokers require them."
    ),
    secret("ssl.keystore.password", importance=HIGH).means("The password of the key store."),
    secret("ssl.key.password", importance=HIGH).means("The password of the private key."),
    secret("ssl.keystore.key", importance=HIGH).means("The private key in PEM format, instead of a file."),
    secret("ssl.keystore.certificate.chain", importance=HIGH).means(
        "The certificate chain of the client in PEM format, instead of a file."
    ),
    string("ssl.truststore.type", "JKS").means(
        "The format of the trust store: PEM or PKCS12. If not set, it is detected from the file. Java's "
        "JKS is not supported."
    ),
    string("ssl.truststore.location", importance=HIGH).means(
        "The file with the trusted certificates. By default, the certificates that the operating system "
        "trusts."
    ),
    secret("ssl.truststore.password", importance=HIGH).means("The password of the trust store."),
    secret("ssl.truststore.certificates", importance=HIGH).means(
        "The trusted certificates in PEM format, instead of a file."
    ),
)

HANDSHAKE = (
    items("ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3"), DISTINCT).means("The enabled TLS versions."),
    string("ssl.protocol", "TLSv1.3").ignored(
        "Java's name for a TLS version. `ssl.enabled.protocols` sets the enabled ones."
    ),
    items("ssl.cipher.suites", (), DISTINCT, LOW).means(
        "The enabled cipher suites. Empty means the defaults of OpenSSL."
    ),
    string("ssl.endpoint.identification.algorithm", "https", importance=LOW).means(
        "How the host name in the broker's certificate is verified: https, or empty for no verification."
    ),
)

OWN = (
    class_name("ssl.engine.factory.class", importance=LOW).means(
        "An `ssl.SSLContext` object that replaces all other TLS settings. Java classes are not supported."
    ),
)

JAVA = (
    string("ssl.provider").ignored("The Java security provider for TLS. Penstock uses OpenSSL."),
    string("security.providers", importance=LOW).ignored("Java classes that add security providers."),
    string("ssl.keymanager.algorithm", "SunX509", importance=LOW).ignored(
        "The algorithm of Java's key manager."
    ),
    string("ssl.trustmanager.algorithm", "PKIX", importance=LOW).ignored(
        "The algorithm of Java's trust manager."
    ),
    string("ssl.secure.random.implementation", importance=LOW).ignored(
        "Java's random number generator. Penstock uses that of the operating system."
    ),
)

SETTINGS = KEYS + HANDSHAKE + OWN + JAVA
