"""How a client tells a broker who it is."""

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
        "The SASL mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER; GSSAPI, Kafka's default, is not "
        "spoken yet."
    ),
    secret("sasl.jaas.config").means(
        "Who logs in and with what secret, in the form of Java's login modules: "
        '`org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="...";`.'
    ),
    # Not Kafka's own, but librdkafka's: nobody should have to write a login module's line by hand.
    string("sasl.username").means("Who logs in by PLAIN or SCRAM, instead of `sasl.jaas.config`."),
    secret("sasl.password").means("With what password."),
    class_name("sasl.client.callback.handler.class").no_meaning("A Java class that provides credentials."),
    class_name("sasl.login.class").no_meaning("A Java class that logs in."),
    class_name("sasl.login.callback.handler.class").means(
        "What provides a token for OAUTHBEARER: a function that returns one, or a token and its extensions."
    ),
)

KERBEROS = (
    string("sasl.kerberos.service.name").not_yet("The Kerberos name of the brokers, often kafka."),
    string("sasl.kerberos.kinit.cmd", "/usr/bin/kinit", importance=LOW).not_yet(
        "The command that gets a ticket."
    ),
    double("sasl.kerberos.ticket.renew.window.factor", 0.8, importance=LOW).not_yet(
        "After which part of its life a ticket is renewed."
    ),
    double("sasl.kerberos.ticket.renew.jitter", 0.05, importance=LOW).not_yet(
        "Which part of that time is left to chance, so that not all clients renew at once."
    ),
    long("sasl.kerberos.min.time.before.relogin", MINUTE_MS, importance=LOW).not_yet(
        "The pause between two attempts to renew a ticket."
    ),
)

REFRESH = (
    double("sasl.login.refresh.window.factor", 0.8, between(0.5, 1.0), LOW).not_yet(
        "After which part of its life a login token is renewed."
    ),
    double("sasl.login.refresh.window.jitter", 0.05, between(0.0, 0.25), LOW).not_yet(
        "Which part of that time is left to chance."
    ),
    short("sasl.login.refresh.min.period.seconds", 60, between(0, 900), LOW).not_yet(
        "How long a login token is used at least before it is renewed."
    ),
    short("sasl.login.refresh.buffer.seconds", 300, between(0, 3600), LOW).not_yet(
        "How long before its end a login token is renewed at the latest."
    ),
    integer("sasl.login.connect.timeout.ms", importance=LOW).not_yet(
        "How long a connection to the provider of tokens may take to be made."
    ),
    integer("sasl.login.read.timeout.ms", importance=LOW).means(
        "How long the provider of tokens may take to answer."
    ),
    long("sasl.login.retry.backoff.ms", 100, importance=LOW).not_yet(
        "The first pause before the provider of tokens is asked again; it doubles from there."
    ),
    long("sasl.login.retry.backoff.max.ms", 10 * SECOND_MS, importance=LOW).not_yet(
        "The longest pause before the provider of tokens is asked again."
    ),
)

OAUTH = (
    string("sasl.oauthbearer.token.endpoint.url").means(
        "Where a token is asked for, anew for each connection."
    ),
    string("sasl.oauthbearer.client.credentials.client.id").means("The id with which a token is asked for."),
    secret("sasl.oauthbearer.client.credentials.client.secret").means(
        "The secret with which a token is asked for."
    ),
    string("sasl.oauthbearer.scope").means("The scope that a token is asked for."),
    boolean("sasl.oauthbearer.header.urlencode", False, importance=LOW).means(
        "Encode the id and secret as a URL would be before they go into the header."
    ),
    class_name(
        "sasl.oauthbearer.jwt.retriever.class",
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
    ).no_meaning("The Java class that asks for tokens."),
    class_name(
        "sasl.oauthbearer.jwt.validator.class",
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
    ).no_meaning("The Java class that checks tokens."),
)

# A client has no tokens of others to check, though Kafka lets it say how.
OAUTH_CHECKS = (
    string("sasl.oauthbearer.jwks.endpoint.url").no_meaning(
        "Where brokers find the keys that tokens are signed with."
    ),
    long("sasl.oauthbearer.jwks.endpoint.refresh.ms", HOUR_MS, importance=LOW).no_meaning(
        "How often brokers fetch these keys anew."
    ),
    long("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", 100, importance=LOW).no_meaning(
        "The first pause before brokers ask for these keys again."
    ),
    long("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", 10 * SECOND_MS, importance=LOW).no_meaning(
        "The longest pause before brokers ask for these keys again."
    ),
    items("sasl.oauthbearer.expected.audience", (), DISTINCT, HIGH).no_meaning(
        "For whom a token must be meant (its `aud`); brokers check it."
    ),
    string("sasl.oauthbearer.expected.issuer", importance=HIGH).no_meaning(
        "Who must have issued a token (its `iss`); brokers check it."
    ),
    integer("sasl.oauthbearer.clock.skew.seconds", 30, importance=LOW).no_meaning(
        "How far the issuer's clock may be from the broker's."
    ),
    string("sasl.oauthbearer.scope.claim.name", "scope", importance=LOW).no_meaning(
        "The name of the claim with the scope."
    ),
    string("sasl.oauthbearer.sub.claim.name", "sub", importance=LOW).no_meaning(
        "The name of the claim with the subject."
    ),
)

OAUTH_ASSERTIONS = (
    string("sasl.oauthbearer.assertion.file").not_yet(
        "A file with a signed assertion with which a token is asked for; the other assertion settings then "
        "do not count."
    ),
    string("sasl.oauthbearer.assertion.template.file").not_yet(
        "A file with claims and headers of an assertion to make."
    ),
    string("sasl.oauthbearer.assertion.private.key.file").not_yet(
        "The key, in PEM form, that an assertion is signed with."
    ),
    secret("sasl.oauthbearer.assertion.private.key.passphrase").not_yet("What opens that key."),
    string("sasl.oauthbearer.assertion.algorithm", "RS256", one_of_any_case("ES256", "RS256")).not_yet(
        "How an assertion is signed."
    ),
    string("sasl.oauthbearer.assertion.claim.iss").not_yet("The issuer (`iss`) that an assertion names."),
    string("sasl.oauthbearer.assertion.claim.sub").not_yet("The subject (`sub`) that an assertion names."),
    string("sasl.oauthbearer.assertion.claim.aud").not_yet("The audience (`aud`) that an assertion names."),
    integer("sasl.oauthbearer.assertion.claim.exp.seconds", 300, between(0, 86400), LOW).not_yet(
        "For how long an assertion holds (`exp`)."
    ),
    integer("sasl.oauthbearer.assertion.claim.nbf.seconds", 60, between(0, 3600), LOW).not_yet(
        "Since how long before its making an assertion holds (`nbf`)."
    ),
    boolean("sasl.oauthbearer.assertion.claim.jti.include", False).not_yet(
        "Give each assertion an id of its own (`jti`)."
    ),
)

SETTINGS = LOGIN + KERBEROS + REFRESH + OAUTH + OAUTH_CHECKS + OAUTH_ASSERTIONS
