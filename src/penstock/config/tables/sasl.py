"""Authentication (SASL, delegation tokens) and authorization."""

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
        "The authorizer. Kafka's StandardAuthorizer means the ACLs in the cluster metadata."
    ),
    # Kafka's authorizer reads these two itself. They are documented, but not in Kafka's table.
    string("super.users", "").not_yet(
        "Principals that are allowed everything, as User:name, separated by semicolons."
    ),
    boolean("allow.everyone.if.no.acl.found", False).not_yet(
        "Allow everyone to access a resource that no ACL matches."
    ),
    class_name(
        "principal.builder.class",
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        dynamic=PER_BROKER,
    ).ignored("The Java class that builds the principal of a connection."),
)

MECHANISMS = (
    items("sasl.enabled.mechanisms", ("GSSAPI",), DISTINCT, dynamic=PER_BROKER).not_yet(
        "The SASL mechanisms for clients: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI."
    ),
    string("sasl.mechanism.inter.broker.protocol", "GSSAPI", dynamic=PER_BROKER).not_yet(
        "The SASL mechanism between brokers."
    ),
    string("sasl.mechanism.controller.protocol", "GSSAPI", importance=HIGH).not_yet(
        "The SASL mechanism for connections to controllers."
    ),
    secret("sasl.jaas.config", dynamic=PER_BROKER).not_yet(
        "Credentials in the format of Java's login modules. Set it per listener and mechanism: "
        "`listener.name.<listener>.<mechanism>.sasl.jaas.config`."
    ),
    integer("sasl.server.max.receive.size", 512 * KIB).not_yet(
        "The maximum size of a request before the client has authenticated."
    ),
    class_name("sasl.server.callback.handler.class").ignored("A Java class that verifies credentials."),
    class_name("sasl.client.callback.handler.class").ignored("A Java class that provides credentials."),
    class_name("sasl.login.class").ignored("A Java class that logs in."),
    class_name("sasl.login.callback.handler.class").ignored(
        "A Java class that provides the credentials of a login."
    ),
)

KERBEROS = (
    string("sasl.kerberos.service.name", dynamic=PER_BROKER).not_yet(
        "The Kerberos service name, often kafka."
    ),
    items("sasl.kerberos.principal.to.local.rules", ("DEFAULT",), DISTINCT, dynamic=PER_BROKER).not_yet(
        "Rules that map a Kerberos principal to the name that ACLs use."
    ),
    string("sasl.kerberos.kinit.cmd", "/usr/bin/kinit", dynamic=PER_BROKER).not_yet(
        "The command that gets a Kerberos ticket."
    ),
    double("sasl.kerberos.ticket.renew.window.factor", 0.8, dynamic=PER_BROKER).not_yet(
        "A ticket is renewed after this share of its lifetime."
    ),
    double("sasl.kerberos.ticket.renew.jitter", 0.05, dynamic=PER_BROKER).not_yet(
        "The random share of that time, so that not all nodes renew at once."
    ),
    long("sasl.kerberos.min.time.before.relogin", MINUTE_MS, dynamic=PER_BROKER).not_yet(
        "The minimum time between two attempts to renew a ticket."
    ),
)

LOGIN = (
    double("sasl.login.refresh.window.factor", 0.8, dynamic=PER_BROKER).not_yet(
        "A login token is refreshed after this share of its lifetime."
    ),
    double("sasl.login.refresh.window.jitter", 0.05, dynamic=PER_BROKER).not_yet(
        "The random share of that time."
    ),
    short("sasl.login.refresh.min.period.seconds", 60, dynamic=PER_BROKER).not_yet(
        "The minimum time before a login token is refreshed."
    ),
    short("sasl.login.refresh.buffer.seconds", 300, dynamic=PER_BROKER).not_yet(
        "A login token is refreshed at least this long before it expires."
    ),
    integer("sasl.login.connect.timeout.ms", importance=LOW).not_yet(
        "The timeout for connecting to the token endpoint."
    ),
    integer("sasl.login.read.timeout.ms", importance=LOW).not_yet(
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
    string("sasl.oauthbearer.token.endpoint.url").not_yet("The URL of the token endpoint: https or file."),
    string("sasl.oauthbearer.client.credentials.client.id").not_yet("The client id for the token endpoint."),
    secret("sasl.oauthbearer.client.credentials.client.secret").not_yet(
        "The client secret for the token endpoint."
    ),
    string("sasl.oauthbearer.scope").not_yet("The scope to request from the token endpoint."),
    string("sasl.oauthbearer.jwks.endpoint.url").not_yet("The URL of the keys (JWKS) that verify tokens."),
    long("sasl.oauthbearer.jwks.endpoint.refresh.ms", HOUR_MS, importance=LOW).not_yet(
        "How often the JWKS is refreshed."
    ),
    long("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", 100, importance=LOW).not_yet(
        "The wait before the first retry of the JWKS endpoint. It doubles with every failure."
    ),
    long("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", 10 * SECOND_MS, importance=LOW).not_yet(
        "The maximum wait before a retry of the JWKS endpoint."
    ),
    items("sasl.oauthbearer.expected.audience", (), DISTINCT, HIGH).not_yet(
        "The accepted audiences of a token (`aud`). Empty disables the check."
    ),
    string("sasl.oauthbearer.expected.issuer", importance=HIGH).not_yet(
        "The accepted issuer of a token (`iss`). If not set, it is not checked."
    ),
    integer("sasl.oauthbearer.clock.skew.seconds", 30, importance=LOW).not_yet(
        "The maximum difference between the clocks of the issuer and this node."
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
    ).ignored("The Java class that retrieves tokens."),
    class_name(
        "sasl.oauthbearer.jwt.validator.class",
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
    ).ignored("The Java class that validates tokens."),
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

DELEGATION_TOKENS = (
    secret("delegation.token.secret.key").not_yet(
        "The secret that signs delegation tokens, the same on all nodes. Without it, delegation tokens are "
        "disabled."
    ),
    long("delegation.token.max.lifetime.ms", 7 * DAY_MS, at_least(1)).not_yet(
        "The maximum lifetime of a delegation token, including renewals."
    ),
    long("delegation.token.expiry.time.ms", DAY_MS, at_least(1)).not_yet(
        "How long a delegation token is valid before it must be renewed."
    ),
    long("delegation.token.expiry.check.interval.ms", HOUR_MS, at_least(1), LOW).not_yet(
        "How often expired delegation tokens are removed."
    ),
)

SETTINGS = ACCESS + MECHANISMS + KERBEROS + LOGIN + OAUTH + OAUTH_ASSERTIONS + DELEGATION_TOKENS
