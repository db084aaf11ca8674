"""Who a client is (SASL, tokens) and what it may do."""

from __future__ import annotations

from penstock.config.declare import (
    DAY_MS,
    DISTINCT,
    HIGH,
    HOUR_MS,
    KIB,
    LOW,
    MINUTE_MS,
    PER_BROKER,
    SECOND_MS,
    at_least,
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

ACCESS = (
    string("authorizer.class.name", "", importance=LOW).not_yet(
        "What judges access; Kafka's StandardAuthorizer stands for the rules kept in the metadata."
    ),
    # These two are read by Kafka's authorizer itself and stand in its documentation, though not in its table.
    string("super.users", "").not_yet("Who may do everything, as User:name; separated by semicolons."),
    boolean("allow.everyone.if.no.acl.found", False).not_yet(
        "Let everyone do what no access rule speaks of."
    ),
    class_name(
        "principal.builder.class",
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        dynamic=PER_BROKER,
    ).no_meaning("The Java class that tells who a connection belongs to."),
)

MECHANISMS = (
    items("sasl.enabled.mechanisms", ("GSSAPI",), DISTINCT, dynamic=PER_BROKER).not_yet(
        "The SASL mechanisms that clients may use: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI."
    ),
    string("sasl.mechanism.inter.broker.protocol", "GSSAPI", dynamic=PER_BROKER).not_yet(
        "The SASL mechanism between brokers."
    ),
    string("sasl.mechanism.controller.protocol", "GSSAPI", importance=HIGH).not_yet(
        "The SASL mechanism with which nodes come to the controllers."
    ),
    secret("sasl.jaas.config", dynamic=PER_BROKER).not_yet(
        "Credentials in the form of Java's login modules; give it for a listener and mechanism, as "
        "`listener.name.<listener>.<mechanism>.sasl.jaas.config`."
    ),
    integer("sasl.server.max.receive.size", 512 * KIB).not_yet(
        "The largest message that is read before a client has authenticated."
    ),
    class_name("sasl.server.callback.handler.class").no_meaning("A Java class that checks credentials."),
    class_name("sasl.client.callback.handler.class").no_meaning("A Java class that provides credentials."),
    class_name("sasl.login.class").no_meaning("A Java class that logs in."),
    class_name("sasl.login.callback.handler.class").no_meaning(
        "A Java class that provides what a login needs."
    ),
)

KERBEROS = (
    string("sasl.kerberos.service.name", dynamic=PER_BROKER).not_yet(
        "The Kerberos name of the service, often kafka."
    ),
    items("sasl.kerberos.principal.to.local.rules", ("DEFAULT",), DISTINCT, dynamic=PER_BROKER).not_yet(
        "How a Kerberos name becomes the name that access rules speak of."
    ),
    string("sasl.kerberos.kinit.cmd", "/usr/bin/kinit", dynamic=PER_BROKER).not_yet(
        "The command that gets a ticket."
    ),
    double("sasl.kerberos.ticket.renew.window.factor", 0.8, dynamic=PER_BROKER).not_yet(
        "After which part of its life a ticket is renewed."
    ),
    double("sasl.kerberos.ticket.renew.jitter", 0.05, dynamic=PER_BROKER).not_yet(
        "Which part of that time is left to chance, so that not all nodes renew at once."
    ),
    long("sasl.kerberos.min.time.before.relogin", MINUTE_MS, dynamic=PER_BROKER).not_yet(
        "The pause between two attempts to renew a ticket."
    ),
)

LOGIN = (
    double("sasl.login.refresh.window.factor", 0.8, dynamic=PER_BROKER).not_yet(
        "After which part of its life a login token is renewed."
    ),
    double("sasl.login.refresh.window.jitter", 0.05, dynamic=PER_BROKER).not_yet(
        "Which part of that time is left to chance."
    ),
    short("sasl.login.refresh.min.period.seconds", 60, dynamic=PER_BROKER).not_yet(
        "How long a login token is used at least before it is renewed."
    ),
    short("sasl.login.refresh.buffer.seconds", 300, dynamic=PER_BROKER).not_yet(
        "How long before its end a login token is renewed at the latest."
    ),
    integer("sasl.login.connect.timeout.ms", importance=LOW).not_yet(
        "How long a connection to the provider of tokens may take to be made."
    ),
    integer("sasl.login.read.timeout.ms", importance=LOW).not_yet(
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
    string("sasl.oauthbearer.token.endpoint.url").not_yet(
        "Where a token is asked for, over https or from a file."
    ),
    string("sasl.oauthbearer.client.credentials.client.id").not_yet(
        "The id with which a token is asked for."
    ),
    secret("sasl.oauthbearer.client.credentials.client.secret").not_yet(
        "The secret with which a token is asked for."
    ),
    string("sasl.oauthbearer.scope").not_yet("The scope that a token is asked for."),
    string("sasl.oauthbearer.jwks.endpoint.url").not_yet(
        "Where the keys are found that tokens are signed with."
    ),
    long("sasl.oauthbearer.jwks.endpoint.refresh.ms", HOUR_MS, importance=LOW).not_yet(
        "How often these keys are fetched anew."
    ),
    long("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", 100, importance=LOW).not_yet(
        "The first pause before these keys are asked for again; it doubles from there."
    ),
    long("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", 10 * SECOND_MS, importance=LOW).not_yet(
        "The longest pause before these keys are asked for again."
    ),
    items("sasl.oauthbearer.expected.audience", (), DISTINCT, HIGH).not_yet(
        "For whom a token must be meant (its `aud`), one of these; empty for no check."
    ),
    string("sasl.oauthbearer.expected.issuer", importance=HIGH).not_yet(
        "Who must have issued a token (its `iss`); without it, no check."
    ),
    integer("sasl.oauthbearer.clock.skew.seconds", 30, importance=LOW).not_yet(
        "How far the issuer's clock may be from ours."
    ),
    string("sasl.oauthbearer.scope.claim.name", "scope", importance=LOW).not_yet(
        "The name of the claim with the scope."
    ),
    string("sasl.oauthbearer.sub.claim.name", "sub", importance=LOW).not_yet(
        "The name of the claim with the subject."
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

DELEGATION_TOKENS = (
    secret("delegation.token.secret.key").not_yet(
        "The key that delegation tokens are signed with, the same on all nodes; without it there are none."
    ),
    long("delegation.token.max.lifetime.ms", 7 * DAY_MS, at_least(1)).not_yet(
        "How long a delegation token lives at most, however often it is renewed."
    ),
    long("delegation.token.expiry.time.ms", DAY_MS, at_least(1)).not_yet(
        "How long a delegation token lives before it has to be renewed."
    ),
    long("delegation.token.expiry.check.interval.ms", HOUR_MS, at_least(1), LOW).not_yet(
        "How often dead delegation tokens are looked for."
    ),
)

SETTINGS = ACCESS + MECHANISMS + KERBEROS + LOGIN + OAUTH + OAUTH_ASSERTIONS + DELEGATION_TOKENS
