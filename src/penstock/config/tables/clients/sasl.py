"""Authentication of a client (SASL)."""

from __future__ import annotations

from penstock.config.declare import (
    DISTINCT,
    HIGH,
    HOUR_MS,
    LOW,
    MINUTE_MS,
    SECOND_MS,
    between,
    boolean,
    class_name,
    double,
    integer,
    items,
    long,
    one_of_any_case,
    secret,
    short,
    string,
)

LOGIN = (
    string("sasl.mechanism", "GSSAPI").means(
        "The SASL mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER. GSSAPI, Kafka's default, "
        "is not supported yet."
    ),
    secret("sasl.jaas.config").means(
        "The credentials in the format of Java's login modules: "
        '`org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" '
        'password="...";`.'
    ),
    # From librdkafka: simpler than a line for a Java login module.
    string("sasl.username").means("The user name for PLAIN or SCRAM, instead of `sasl.jaas.config`."),
    secret("sasl.password").means("The password for PLAIN or SCRAM."),
    class_name("sasl.client.callback.handler.class").ignored("A Java class that provides credentials."),
    class_name("sasl.login.class").ignored("A Java class that logs in."),
    class_name("sasl.login.callback.handler.class").means(
        "A function that returns a token for OAUTHBEARER, or a token and its extensions."
    ),
)

KERBEROS = (
    string("sasl.kerberos.service.name").not_yet("The Kerberos service name of the brokers, often kafka."),
    string("sasl.kerberos.kinit.cmd", "/usr/bin/kinit", importance=LOW).not_yet(
        "The command that gets a Kerberos ticket."
    ),
    double("sasl.kerberos.ticket.renew.window.factor", 0.8, importance=LOW).not_yet(
        "A ticket is renewed after this share of its lifetime."
    ),
    double("sasl.kerberos.ticket.renew.jitter", 0.05, importance=LOW).not_yet(
        "The random share of that time, so that not all clients renew at once."
    ),
    long("sasl.kerberos.min.time.before.relogin", MINUTE_MS, importance=LOW).not_yet(
        "The minimum time between two attempts to renew a ticket."
    ),
)

REFRESH = (
    double("sasl.login.refresh.window.factor", 0.8, between(0.5, 1.0), LOW).not_yet(
        "A login token is refreshed after this share of its lifetime."
    ),
    double("sasl.login.refresh.window.jitter", 0.05, between(0.0, 0.25), LOW).not_yet(
        "The random share of that time."
    ),
    short("sasl.login.refresh.min.period.seconds", 60, between(0, 900), LOW).not_yet(
        "The minimum time before a login token is refreshed."
    ),
    short("sasl.login.refresh.buffer.seconds", 300, between(0, 3600), LOW).not_yet(
        "A login token is refreshed at least this long before it expires."
    ),
    integer("sasl.login.connect.timeout.ms", importance=LOW).not_yet(
        "The timeout for connecting to the token endpoint."
    ),
    integer("sasl.login.read.timeout.ms", importance=LOW).means(
        "The timeout for a response of the token endpoint."
    ),
    long("sasl.login.retry.backoff.ms", 100, importance=LOW).not_yet(
        "The wait before the first retry of the token endpoint. It doubles with every failure."
    ),
    long("sasl.login.retry.backoff.max.ms", 10 * SECOND_MS, importance=LOW).not_yet(
        "The maximum wait before a retry of the token endpoint."
    ),
)

OAUTH = (
    string("sasl.oauthbearer.token.endpoint.url").means(
        "The URL of the token endpoint. Each connection requests a new token."
    ),
    string("sasl.oauthbearer.client.credentials.client.id").means("The client id for the token endpoint."),
    secret("sasl.oauthbearer.client.credentials.client.secret").means(
        "The client secret for the token endpoint."
    ),
    string("sasl.oauthbearer.scope").means("The scope to request from the token endpoint."),
    boolean("sasl.oauthbearer.header.urlencode", False, importance=LOW).means(
        "URL-encode the client id and secret in the authorization header."
    ),
    class_name(
        "sasl.oauthbearer.jwt.retriever.class",
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
    ).ignored("The Java class that retrieves tokens."),
    class_name(
        "sasl.oauthbearer.jwt.validator.class",
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
    ).ignored("The Java class that validates tokens."),
)

# Kafka declares these for clients, but only brokers verify tokens.
OAUTH_CHECKS = (
    string("sasl.oauthbearer.jwks.endpoint.url").ignored(
        "The URL of the keys (JWKS) with which brokers verify tokens."
    ),
    long("sasl.oauthbearer.jwks.endpoint.refresh.ms", HOUR_MS, importance=LOW).ignored(
        "How often brokers refresh the JWKS."
    ),
    long("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", 100, importance=LOW).ignored(
        "The wait before brokers first retry the JWKS endpoint."
    ),
    long("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", 10 * SECOND_MS, importance=LOW).ignored(
        "The maximum wait before brokers retry the JWKS endpoint."
    ),
    items("sasl.oauthbearer.expected.audience", (), DISTINCT, HIGH).ignored(
        "The accepted audiences of a token (`aud`). Brokers check it."
    ),
    string("sasl.oauthbearer.expected.issuer", importance=HIGH).ignored(
        "The accepted issuer of a token (`iss`). Brokers check it."
    ),
    integer("sasl.oauthbearer.clock.skew.seconds", 30, importance=LOW).ignored(
        "The maximum difference between the clocks of the issuer and the broker."
    ),
    string("sasl.oauthbearer.scope.claim.name", "scope", importance=LOW).ignored(
        "The name of the claim with the scope."
    ),
    string("sasl.oauthbearer.sub.claim.name", "sub", importance=LOW).ignored(
        "The name of the claim with the subject."
    ),
)

OAUTH_ASSERTIONS = (
    string("sasl.oauthbearer.assertion.file").not_yet(
        "A file with a signed assertion for the token endpoint. The other assertion settings are then "
        "ignored."
    ),
    string("sasl.oauthbearer.assertion.template.file").not_yet(
        "A file with the claims and headers of assertions to create."
    ),
    string("sasl.oauthbearer.assertion.private.key.file").not_yet(
        "The PEM file of the private key that signs assertions."
    ),
    secret("sasl.oauthbearer.assertion.private.key.passphrase").not_yet(
        "The passphrase of that private key."
    ),
    string("sasl.oauthbearer.assertion.algorithm", "RS256", one_of_any_case("ES256", "RS256")).not_yet(
        "The signature algorithm of assertions."
    ),
    string("sasl.oauthbearer.assertion.claim.iss").not_yet("The issuer (`iss`) of assertions."),
    string("sasl.oauthbearer.assertion.claim.sub").not_yet("The subject (`sub`) of assertions."),
    string("sasl.oauthbearer.assertion.claim.aud").not_yet("The audience (`aud`) of assertions."),
    integer("sasl.oauthbearer.assertion.claim.exp.seconds", 300, between(0, 86400), LOW).not_yet(
        "How long an assertion is valid (`exp`)."
    ),
    integer("sasl.oauthbearer.assertion.claim.nbf.seconds", 60, between(0, 3600), LOW).not_yet(
        "How long before its creation an assertion is already valid (`nbf`)."
    ),
    boolean("sasl.oauthbearer.assertion.claim.jti.include", False).not_yet(
        "Give each assertion a unique id (`jti`)."
    ),
)

SETTINGS = LOGIN + KERBEROS + REFRESH + OAUTH + OAUTH_CHECKS + OAUTH_ASSERTIONS
