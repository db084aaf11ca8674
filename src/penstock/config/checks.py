"""Checks of settings that are valid alone but not together.

The rules are Kafka's, except three that Penstock does not need: a node with both roles needs no listener for its
controller, a cluster of one node needs no quorum setting, and Java classes are not checked. One rule is our own:
settings that protect data are never ignored. If encryption, authentication or ACLs are configured, the broker does not
start until they are implemented.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from penstock.config.declare import MIB
from penstock.config.errors import BadSetting
from penstock.config.listeners import SERVED_PROTOCOLS, UNROUTABLE, Listener, check_ports_differ
from penstock.config.values import INT_MAX

if TYPE_CHECKING:
    from penstock.config.broker import BrokerSettings

# For each of these: group.<kind>.min.<name> <= group.<kind>.<name> <= group.<kind>.max.<name>.
GROUP_BOUNDS = {
    "consumer": ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"),
    "share": (
        "session.timeout.ms",
        "heartbeat.interval.ms",
        "assignment.interval.ms",
        "record.lock.duration.ms",
        "delivery.count.limit",
        "partition.max.record.locks",
    ),
    "streams": ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"),
}


def check_broker(settings: BrokerSettings) -> None:
    """Raise `BadSetting` if the settings contradict each other."""
    for check in (
        _check_identity,
        _check_roles,
        _check_protection,
        _check_listeners,
        _check_advertised,
        _check_inter_broker,
        _check_connections,
        _check_directories,
        _check_log,
        _check_replication,
        _check_groups,
    ):
        check(settings)


def check_compaction_lag(topic: Mapping[str, Any]) -> None:
    least, most = topic["min.compaction.lag.ms"], topic["max.compaction.lag.ms"]
    if least > most:
        raise BadSetting("min.compaction.lag.ms", str(least), f"must be at most max.compaction.lag.ms={most}")


def check_local_retention(topic: Mapping[str, Any]) -> None:
    """Local retention cannot exceed the retention of the topic."""
    for unit in ("bytes", "ms"):
        whole, local = topic[f"retention.{unit}"], topic[f"local.retention.{unit}"]
        is_limited = whole > -1 if unit == "bytes" else whole != -1
        if is_limited and local != -2 and (local == -1 or local > whole):
            raise BadSetting(
                f"local.retention.{unit}", str(local), f"must be -2, or at most retention.{unit}={whole}"
            )


def _check_identity(settings: BrokerSettings) -> None:
    node_id, broker_id = settings.get("node.id"), settings.get("broker.id")
    if node_id != broker_id:
        raise BadSetting(
            "broker.id", str(broker_id), f"must be equal to node.id={node_id}; set only one of the two"
        )


def _check_roles(settings: BrokerSettings) -> None:
    voters = {int(voter.partition("@")[0]) for voter in settings.get("controller.quorum.voters")}
    is_voter = settings.node_id in voters
    if "controller" in settings.roles and voters and not is_voter:
        raise BadSetting(
            "controller.quorum.voters", None, f"must include this controller, node.id={settings.node_id}"
        )
    if settings.roles == {"broker"}:
        if is_voter:
            raise BadSetting(
                "controller.quorum.voters",
                None,
                f"must not include node.id={settings.node_id}, which does not have the controller role",
            )
        if not voters and not settings.get("controller.quorum.bootstrap.servers"):
            raise BadSetting(
                "controller.quorum.bootstrap.servers",
                None,
                "must name a controller if process.roles=broker",
            )
        if not settings.controller_listener_names:
            raise BadSetting(
                "controller.listener.names",
                None,
                "must name the listener of the controllers if process.roles=broker",
            )
    if settings.get("controller.quorum.auto.join.enable") and "controller" not in settings.roles:
        raise BadSetting(
            "controller.quorum.auto.join.enable",
            "true",
            "is only allowed if process.roles includes controller",
        )


def _check_protection(settings: BrokerSettings) -> None:
    for listener in settings.listeners:
        protocol = listener.security_protocol
        if protocol not in SERVED_PROTOCOLS:
            served = " or ".join(SERVED_PROTOCOLS)
            raise BadSetting(
                "listeners", str(listener), f"must use {served}: {protocol} is not implemented yet"
            )
    if settings.get("authorizer.class.name"):
        raise BadSetting(
            "authorizer.class.name",
            settings.get("authorizer.class.name"),
            "must be empty: ACLs are not implemented yet, and the broker does not ignore them silently",
        )


def _check_listeners(settings: BrokerSettings) -> None:
    check_ports_differ("listeners", settings.listeners)
    names = {listener.name for listener in settings.listeners}
    controllers = settings.controller_listener_names
    for name in controllers:
        if name not in settings.security_protocols:
            raise BadSetting(
                "listener.security.protocol.map",
                None,
                f"must give a protocol to the controller listener {name}",
            )
    if "controller" in settings.roles:
        missing = [name for name in controllers if name not in names]
        if missing:
            raise BadSetting(
                "controller.listener.names", ",".join(missing), "must be the name of one of listeners"
            )
    elif names & set(controllers):
        raise BadSetting(
            "controller.listener.names",
            ",".join(controllers),
            "must not be in listeners of a node without the controller role",
        )
    if settings.roles == {"controller"} and controllers and settings.broker_listeners:
        raise BadSetting(
            "listeners",
            ",".join(map(str, settings.broker_listeners)),
            "must contain only controller listeners if process.roles=controller",
        )
    early = settings.get("early.start.listeners") or ()
    for name in early:
        if name.upper() not in names and name.upper() not in controllers:
            raise BadSetting(
                "early.start.listeners",
                name,
                "must be the name of one of listeners or controller.listener.names",
            )


def _check_advertised(settings: BrokerSettings) -> None:
    names = {listener.name for listener in settings.listeners}
    for listener in settings.advertised_listeners:
        if listener.host == UNROUTABLE:
            raise BadSetting(
                "advertised.listeners",
                str(listener),
                f"clients cannot connect to {UNROUTABLE}; set a host name or IP address, or leave the host of "
                "listeners empty",
            )
    if "broker" not in settings.roles:
        return
    advertised = _of_brokers(settings, settings.advertised_listeners)
    if not advertised:
        raise BadSetting(
            "listeners",
            ",".join(map(str, settings.listeners)),
            "must contain a listener that is not for controllers",
        )
    for listener in advertised:
        if listener.name not in names:
            raise BadSetting(
                "advertised.listeners",
                str(listener),
                f"must use the name of one of listeners: {_list(names)}",
            )


def _check_inter_broker(settings: BrokerSettings) -> None:
    if settings.is_set("inter.broker.listener.name") and settings.is_set("security.inter.broker.protocol"):
        raise BadSetting(
            "inter.broker.listener.name",
            None,
            "must not be set together with security.inter.broker.protocol",
        )
    name = settings.inter_broker_listener_name
    if name not in settings.security_protocols:
        raise BadSetting(
            "inter.broker.listener.name", name, "must have a protocol in listener.security.protocol.map"
        )
    # If no listener for brokers is named, the default need not be advertised.
    is_named = settings.is_set("inter.broker.listener.name") or settings.is_set(
        "security.inter.broker.protocol"
    )
    if "broker" in settings.roles and is_named:
        advertised = {each.name for each in _of_brokers(settings, settings.advertised_listeners)}
        if name not in advertised:
            raise BadSetting(
                "inter.broker.listener.name",
                name,
                f"must be one of advertised.listeners: {_list(advertised)}",
            )
    if settings.security_protocols[name].startswith("SASL"):
        mechanism = settings.get("sasl.mechanism.inter.broker.protocol")
        if mechanism not in settings.get("sasl.enabled.mechanisms", listener=name):
            raise BadSetting(
                "sasl.mechanism.inter.broker.protocol", mechanism, "must be one of sasl.enabled.mechanisms"
            )


def _check_connections(settings: BrokerSettings) -> None:
    overrides = connection_limits(settings.get("max.connections.per.ip.overrides"))
    if settings.get("max.connections.per.ip") == 0 and not overrides:
        raise BadSetting(
            "max.connections.per.ip",
            "0",
            "must be greater than 0 unless max.connections.per.ip.overrides is set",
        )
    queued, largest = settings.get("queued.max.request.bytes"), settings.get("socket.request.max.bytes")
    if 0 < queued < largest:
        raise BadSetting(
            "queued.max.request.bytes", str(queued), f"must be at least socket.request.max.bytes={largest}"
        )
    idle = settings.get("connections.max.idle.ms")
    delay = settings.get("connection.failed.authentication.delay.ms")
    if 0 <= idle <= delay:
        raise BadSetting(
            "connection.failed.authentication.delay.ms",
            str(delay),
            f"must be less than connections.max.idle.ms={idle}",
        )


def connection_limits(text: str) -> dict[str, int]:
    """Parse `max.connections.per.ip.overrides`: the connection limit of each address."""
    limits: dict[str, int] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        address, _, limit = entry.rpartition(":")
        if not address or not limit.strip().isdecimal() or int(limit) > INT_MAX:
            raise BadSetting(
                "max.connections.per.ip.overrides",
                text,
                "must be a list of address:limit, such as 10.0.0.7:100",
            )
        limits[address.strip()] = int(limit)
    return limits


def _check_directories(settings: BrokerSettings) -> None:
    cordoned = settings.get("cordoned.log.dirs")
    if "*" in cordoned and len(cordoned) > 1:
        raise BadSetting("cordoned.log.dirs", ",".join(cordoned), "must be * alone, or a list of directories")
    for directory in cordoned:
        if directory != "*" and directory not in settings.log_dirs:
            raise BadSetting(
                "cordoned.log.dirs", directory, f"must be one of log.dirs={','.join(settings.log_dirs)}"
            )


def _check_log(settings: BrokerSettings) -> None:
    from penstock.config.topic import broker_defaults  # here, because it imports this module

    defaults = broker_defaults(settings)
    if defaults["segment.ms"] < 1:
        raise BadSetting("log.roll.ms", str(defaults["segment.ms"]), "must be at least 1")
    if defaults["segment.jitter.ms"] < 0:
        raise BadSetting("log.roll.jitter.ms", str(defaults["segment.jitter.ms"]), "must be at least 0")
    if defaults["retention.ms"] == 0:
        raise BadSetting("log.retention.ms", "0", "must be at least 1, or -1 to keep data forever")
    check_compaction_lag(defaults)
    if settings.get("remote.log.storage.system.enable"):
        check_local_retention(defaults)
    threads, memory = settings.get("log.cleaner.threads"), settings.get("log.cleaner.dedupe.buffer.size")
    if memory <= threads * MIB:
        raise BadSetting(
            "log.cleaner.dedupe.buffer.size",
            str(memory),
            f"must be greater than {MIB} bytes for each of log.cleaner.threads={threads}",
        )


def _check_replication(settings: BrokerSettings) -> None:
    wait = settings.get("replica.fetch.wait.max.ms")
    for key in ("replica.socket.timeout.ms", "replica.lag.time.max.ms"):
        if settings.get(key) < wait:
            raise BadSetting(
                key, str(settings.get(key)), f"must be at least replica.fetch.wait.max.ms={wait}"
            )


def _check_groups(settings: BrokerSettings) -> None:
    if "classic" not in settings.get("group.coordinator.rebalance.protocols"):
        raise BadSetting("group.coordinator.rebalance.protocols", None, "must include classic")
    for kind, names in GROUP_BOUNDS.items():
        for name in names:
            _check_order(
                settings, f"group.{kind}.min.{name}", f"group.{kind}.{name}", f"group.{kind}.max.{name}"
            )
        session, heartbeat = f"group.{kind}.session.timeout.ms", f"group.{kind}.heartbeat.interval.ms"
        if settings.get(heartbeat) >= settings.get(session):
            raise BadSetting(
                heartbeat,
                str(settings.get(heartbeat)),
                f"must be less than {session}={settings.get(session)}",
            )
    _check_order(settings, "group.streams.num.standby.replicas", "group.streams.max.standby.replicas")
    assignors = settings.get("group.share.assignors")
    if len(assignors) != 1:
        raise BadSetting("group.share.assignors", ",".join(assignors), "must be exactly one assignor")


def _check_order(settings: BrokerSettings, *names: str) -> None:
    """The values of these settings must not decrease."""
    for lower, upper in pairwise(names):
        least, most = settings.get(lower), settings.get(upper)
        if least > most:
            raise BadSetting(lower, str(least), f"must be at most {upper}={most}")


def _of_brokers(settings: BrokerSettings, listeners: tuple[Listener, ...]) -> tuple[Listener, ...]:
    return tuple(each for each in listeners if each.name not in settings.controller_listener_names)


def _list(names: set[str]) -> str:
    return ", ".join(sorted(names))
