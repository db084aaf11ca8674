"""Settings that contradict each other. That Kafka refuses the same is held in `test_against_kafka`."""

from __future__ import annotations

import pytest

from penstock.config.broker import BrokerSettings
from penstock.config.checks import connection_limits
from penstock.config.errors import BadSetting

BROKER_ONLY = {
    "process.roles": "broker",
    "controller.quorum.bootstrap.servers": "host:9093",
    "controller.listener.names": "CONTROLLER",
}


def without(name: str) -> dict[str, str]:
    return {key: text for key, text in BROKER_ONLY.items() if key != name}


def test_a_broker_that_names_its_controllers_is_fine() -> None:
    assert BrokerSettings.load(BROKER_ONLY).roles == {"broker"}


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        (without("controller.quorum.bootstrap.servers"), "must name a controller if process.roles=broker"),
        (without("controller.listener.names"), "must name the listener of the controllers"),
        ({**BROKER_ONLY, "controller.quorum.voters": "1@host:9093"}, "must not include node.id=1"),
        (
            {**BROKER_ONLY, "controller.quorum.auto.join.enable": "true"},
            "if process.roles includes controller",
        ),
        (
            {**BROKER_ONLY, "listeners": "PLAINTEXT://:1,CONTROLLER://:2"},
            "of a node without the controller role",
        ),
        ({"controller.quorum.voters": "2@host:9093"}, "must include this controller, node.id=1"),
        (
            {"controller.listener.names": "VOTE"},
            "controller.listener.names=VOTE: must be the name of one of listeners",
        ),
        (
            {"controller.listener.names": "VOTE", "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"},
            "must give a protocol to the controller listener VOTE",
        ),
        (
            {"listeners": "VOTE://:1", "controller.listener.names": "VOTE"},
            "must contain a listener that is not for controllers",
        ),
        (
            {
                "process.roles": "controller",
                "listeners": "PLAINTEXT://:1,VOTE://:2",
                "controller.listener.names": "VOTE",
            },
            "listeners=PLAINTEXT://:1: must contain only controller listeners",
        ),
        ({"early.start.listeners": "OTHER"}, "early.start.listeners=OTHER"),
        (
            {
                "advertised.listeners": "OUT://h:1",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUT:PLAINTEXT",
            },
            "advertised.listeners=OUT://h:1: must use the name of one of listeners: PLAINTEXT",
        ),
        ({"inter.broker.listener.name": "OUT"}, "inter.broker.listener.name=OUT: must have a protocol"),
        ({"inter.broker.listener.name": "SSL"}, "must be one of advertised.listeners: PLAINTEXT"),
        (
            {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"},
            "must not be set together",
        ),
        ({"max.connections.per.ip": "0"}, "must be greater than 0 unless"),
        ({"max.connections.per.ip.overrides": "host"}, "address:limit"),
        ({"queued.max.request.bytes": "5"}, "must be at least socket.request.max.bytes"),
        ({"connections.max.idle.ms": "100"}, "must be less than connections.max.idle.ms=100"),
        ({"cordoned.log.dirs": "*,/a"}, "must be \\* alone"),
        ({"cordoned.log.dirs": "/a", "log.dirs": "/b"}, "cordoned.log.dirs=/a: must be one of log.dirs=/b"),
        ({"log.roll.ms": "0"}, "log.roll.ms=0: must be at least 1"),
        ({"log.roll.jitter.ms": "-1"}, "log.roll.jitter.ms=-1: must be at least 0"),
        ({"log.retention.hours": "0"}, "log.retention.ms=0: must be at least 1, or -1"),
        ({"log.cleaner.threads": "200"}, "for each of log.cleaner.threads=200"),
        (
            {"log.cleaner.min.compaction.lag.ms": "6", "log.cleaner.max.compaction.lag.ms": "5"},
            "must be at most",
        ),
        (
            {
                "remote.log.storage.system.enable": "true",
                "log.retention.bytes": "5",
                "log.local.retention.bytes": "6",
            },
            "local.retention.bytes=6: must be -2, or at most retention.bytes=5",
        ),
        (
            {"replica.lag.time.max.ms": "5"},
            "replica.lag.time.max.ms=5: must be at least replica.fetch.wait.max.ms",
        ),
        ({"group.coordinator.rebalance.protocols": "consumer"}, "must include classic"),
        ({"group.consumer.session.timeout.ms": "1"}, "must be at most group.consumer.session.timeout.ms=1"),
        ({"group.streams.num.standby.replicas": "5"}, "must be at most group.streams.max.standby.replicas=2"),
        (
            {"group.share.max.heartbeat.interval.ms": "50000", "group.share.heartbeat.interval.ms": "45000"},
            "must be less than group.share.session.timeout.ms=45000",
        ),
        ({"group.share.assignors": "simple,other"}, "must be exactly one"),
    ],
)
def test_a_contradiction_is_refused(properties: dict[str, str], message: str) -> None:
    with pytest.raises(BadSetting, match=message):
        BrokerSettings.load(properties)


def test_addresses_have_limits_of_their_own() -> None:
    assert connection_limits(" 10.0.0.7:100 ,::1:7,") == {"10.0.0.7": 100, "::1": 7}


@pytest.mark.parametrize("text", ["host", ":5", "host:", "host:-1", "host:99999999999"])
def test_a_bad_limit_is_refused(text: str) -> None:
    with pytest.raises(BadSetting):
        connection_limits(text)
