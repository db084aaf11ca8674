"""Rules about several settings: which contradict each other, and which follow from others.

The rules are those of Kafka's clients, so that a configuration file of theirs means the same here. A value that was set
is never changed silently: if it is invalid, it is rejected. Only defaults are adjusted.
"""

from __future__ import annotations

import re
from typing import Any, Protocol

from penstock.config.errors import BadSetting
from penstock.config.values import Secret

INSTANCE_ID = re.compile(r"[A-Za-z0-9._-]{1,249}")
LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
# With the other protocol the coordinator or the members decide these.
CLASSIC_ONLY = ("partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms")
CONSUMER_ONLY = ("group.remote.assignor",)
SHARE_ONLY = ("share.acknowledgement.mode", "share.acquire.mode")
IDEMPOTENT_IN_FLIGHT_MAX = 5  # brokers remember the last five batches of a producer


class Settings(Protocol):
    def get(self, name: str, /) -> Any: ...
    def is_set(self, name: str) -> bool: ...


class ProducerSettings(Settings, Protocol):
    @property
    def acks(self) -> int: ...


def check_connection(settings: Settings) -> dict[str, Any]:
    """For every kind of client: addresses, a login with a mechanism, and TLS settings that this client supports."""
    _check_addresses(settings, "bootstrap.servers")
    if settings.get("security.protocol").startswith("SASL") and not settings.get("sasl.mechanism"):
        raise BadSetting("sasl.mechanism", "", "must be set if security.protocol begins with SASL")
    if isinstance(settings.get("ssl.engine.factory.class"), str):
        raise BadSetting(
            "ssl.engine.factory.class",
            settings.get("ssl.engine.factory.class"),
            "a Java class cannot be loaded here; give an ssl.SSLContext, or use the other ssl settings",
        )
    return _login(settings)


def check_producer(settings: ProducerSettings) -> dict[str, Any]:
    return _reconnect_pause(settings) | _idempotence(settings) | _delivery_time(settings)


def check_consumer(settings: Settings) -> dict[str, Any]:
    _check_group_protocol(settings)
    return _reconnect_pause(settings) | _without_group(settings)


def check_admin(settings: Settings) -> dict[str, Any]:
    if settings.is_set("bootstrap.controllers"):
        if settings.is_set("bootstrap.servers"):
            raise BadSetting("bootstrap.controllers", None, "set this or bootstrap.servers, not both")
        _check_addresses(settings, "bootstrap.controllers")
    return _reconnect_pause(settings) | _call_time(settings)


def _login(settings: Settings) -> dict[str, Any]:
    """User name and password become the options of the mechanism's login module."""
    user, password = settings.get("sasl.username"), settings.get("sasl.password")
    if user is None and password is None:
        return {}
    if user is None or password is None:
        raise BadSetting("sasl.username", None, "must be set together with sasl.password")
    if settings.is_set("sasl.jaas.config"):
        raise BadSetting("sasl.username", None, "set this and sasl.password, or sasl.jaas.config, not both")
    if not settings.get("security.protocol").startswith("SASL"):
        raise BadSetting(
            "sasl.username", None, "needs security.protocol=SASL_SSL, or SASL_PLAINTEXT without encryption"
        )
    mechanism = settings.get("sasl.mechanism").upper()
    if mechanism not in LOGIN_MODULES:
        raise BadSetting("sasl.username", None, f"needs a sasl.mechanism of {', '.join(LOGIN_MODULES)}")
    given = f"username={_quoted(user)} password={_quoted(password.reveal())}"
    return {"sasl.jaas.config": Secret(f"{LOGIN_MODULES[mechanism]} required {given};")}


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _check_addresses(settings: Settings, name: str) -> None:
    if not settings.is_set(name):
        return
    from penstock.client.addresses import BadAddress, parse_addresses

    try:
        parse_addresses(settings.get(name))
    except BadAddress as refusal:
        raise BadSetting(name, None, str(refusal)) from None


def _reconnect_pause(settings: Settings) -> dict[str, Any]:
    """If only the first backoff is set, the backoff is constant."""
    if settings.is_set("reconnect.backoff.ms") and not settings.is_set("reconnect.backoff.max.ms"):
        return {"reconnect.backoff.max.ms": settings.get("reconnect.backoff.ms")}
    return {}


def _idempotence(settings: ProducerSettings) -> dict[str, Any]:
    """Idempotence is the default. acks=1 or retries=0 turn it off, unless it was set."""
    is_wanted = settings.get("enable.idempotence")
    in_flight = settings.get("max.in.flight.requests.per.connection")
    if is_wanted and in_flight > IDEMPOTENT_IN_FLIGHT_MAX:
        raise BadSetting(
            "max.in.flight.requests.per.connection",
            str(in_flight),
            f"must be at most {IDEMPOTENT_IN_FLIGHT_MAX}, or set enable.idempotence=false",
        )
    needs = {"acks": ("all", settings.acks == -1), "retries": ("at least 1", settings.get("retries") > 0)}
    missing = {name: needed for name, (needed, is_met) in needs.items() if not is_met}
    if is_wanted and settings.is_set("enable.idempotence"):
        for name, needed in missing.items():
            raise BadSetting(name, str(settings.get(name)), f"must be {needed} with enable.idempotence=true")
    is_idempotent = is_wanted and not missing
    if settings.get("transactional.id") is not None and not is_idempotent:
        raise BadSetting(
            "transactional.id",
            settings.get("transactional.id"),
            "needs idempotence: acks=all, retries of at least 1 and no enable.idempotence=false",
        )
    if settings.get("transaction.two.phase.commit.enable") and settings.is_set("transaction.timeout.ms"):
        raise BadSetting(
            "transaction.timeout.ms", None, "has no effect with transaction.two.phase.commit.enable=true"
        )
    return {"enable.idempotence": is_idempotent}


def _delivery_time(settings: Settings) -> dict[str, Any]:
    """A batch needs time to linger and to be sent once."""
    needed = settings.get("linger.ms") + settings.get("request.timeout.ms")
    return _at_least(
        settings, "delivery.timeout.ms", needed, f"linger.ms + request.timeout.ms, which is {needed}"
    )


def _call_time(settings: Settings) -> dict[str, Any]:
    """A call needs time for one request."""
    request_ms = settings.get("request.timeout.ms")
    return _at_least(settings, "default.api.timeout.ms", request_ms, f"request.timeout.ms={request_ms}")


def _at_least(settings: Settings, name: str, needed: int, bound: str) -> dict[str, Any]:
    """Raises the default of a setting to the value needed; rejects a lower value that was set."""
    value = settings.get(name)
    if value >= needed:
        return {}
    if settings.is_set(name):
        raise BadSetting(name, str(value), f"must be at least {bound}")
    return {name: needed}


def _check_group_protocol(settings: Settings) -> None:
    protocol = settings.get("group.protocol")
    others, other = (CLASSIC_ONLY, "classic") if protocol == "consumer" else (CONSUMER_ONLY, "consumer")
    for name in others:
        if settings.is_set(name):
            raise BadSetting(name, None, f"has an effect only with group.protocol={other}")
    for name in SHARE_ONLY:
        if settings.is_set(name):
            raise BadSetting(name, None, "has an effect only for members of share groups")
    session_ms, heartbeat_ms = settings.get("session.timeout.ms"), settings.get("heartbeat.interval.ms")
    if heartbeat_ms >= session_ms:
        raise BadSetting(
            "heartbeat.interval.ms", str(heartbeat_ms), f"must be less than session.timeout.ms={session_ms}"
        )
    if protocol == "classic" and not settings.get("partition.assignment.strategy"):
        raise BadSetting("partition.assignment.strategy", "", "must name at least one assignor")
    _check_names(settings)


def _check_names(settings: Settings) -> None:
    group, instance = settings.get("group.id"), settings.get("group.instance.id")
    if group is not None and not group.strip():
        raise BadSetting("group.id", group, "must not be blank")
    if instance is not None and (INSTANCE_ID.fullmatch(instance) is None or instance in (".", "..")):
        raise BadSetting(
            "group.instance.id", instance, "must be up to 249 letters, digits, dots, dashes and underscores"
        )


def _without_group(settings: Settings) -> dict[str, Any]:
    """A consumer without a group does not commit, and always starts by `auto.offset.reset`."""
    if settings.get("group.id") is not None:
        return {}
    if settings.is_set("enable.auto.commit") and settings.get("enable.auto.commit"):
        raise BadSetting("enable.auto.commit", "true", "needs a group.id to commit for")
    follows: dict[str, Any] = {"enable.auto.commit": False}
    if not settings.is_set("auto.offset.reset"):
        follows["auto.offset.reset"] = "earliest"
    return follows
