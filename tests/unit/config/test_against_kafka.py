"""Compares every setting with Apache Kafka's own classes: declaration, accepted values, and descriptions.

Intended differences are listed in a table here, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from penstock.config.broker import SYNONYMS_OF, BrokerSettings, check_dynamic
from penstock.config.declare import Setting
from penstock.config.describe import (
    Entry,
    describe_broker,
    describe_client_metrics,
    describe_cluster,
    describe_group,
    describe_topic,
)
from penstock.config.errors import BadSetting
from penstock.config.group import GroupSettings, validate_group_overrides
from penstock.config.properties import BadProperties, parse_properties
from penstock.config.tables import BROKER, BROKER_DYNAMIC, CLIENT_METRICS, GROUP, IP, TOPIC, USER
from penstock.config.tables import balancer as balancer_table
from penstock.config.tables import group as group_table
from penstock.config.tables import topic as topic_table
from penstock.config.topic import TopicSettings, validate_topic_overrides

TABLES: dict[str, Mapping[str, Setting]] = {
    "broker": BROKER,
    "broker_quota": {name: s for name, s in BROKER_DYNAMIC.items() if name not in BROKER},
    "topic": TOPIC,
    "group": GROUP,
    "client_metrics": CLIENT_METRICS,
    "user": USER,
    "ip": IP,
}

NOT_IN_KAFKAS_TABLE = {
    "super.users": "read by Kafka's authorizer, and documented with it",
    "allow.everyone.if.no.acl.found": "read by Kafka's authorizer, and documented with it",
    **{setting.name: "Penstock's balancer" for setting in balancer_table.SETTINGS},
}

OTHER_DEFAULTS = {
    "node.id": "required by Kafka; a first node should start without a file",
    "broker.id": "the same as node.id, where Kafka has -1 and then takes node.id",
    "process.roles": "required by Kafka; a first node is both",
    "controller.listener.names": "required by Kafka; a node with both roles needs none",
    "listeners": "a first start serves this machine alone, where Kafka serves every interface",
    "log.dir": "the user's state directory, where Kafka has /tmp/kafka-logs",
}

OTHER_RULES = {
    "offsets.topic.compression.codec": "an unknown codec is refused with the declaration, where Kafka fails later",
    "share.coordinator.state.topic.compression.codec": "as above",
    "group.consumer.assignors": "a Java class cannot be loaded here, so only Kafka's own two are taken",
    "interval.ms": "the bounds stand in the declaration, where Kafka checks them apart",
}

# A configuration that both accept: Kafka requires a controller listener and a quorum.
BOTH: dict[str, str] = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "log.dir": "/tmp/kafka-logs",
}


class TestDeclarations:
    def test_names_types_importance_and_update_modes_are_kafkas(self, kafka: Any) -> None:
        declared = kafka.ask("declarations")

        for table, settings_here in TABLES.items():
            theirs = {
                name: (facts["type"], facts["importance"], facts["is_internal"], facts["mode"])
                for name, facts in declared[table].items()
            }
            ours = {
                name: (s.type.name, s.importance.name, s.is_internal, s.dynamic.value)
                for name, s in settings_here.items()
                if name not in NOT_IN_KAFKAS_TABLE
            }
            if table == "broker_quota":  # Kafka lists them as dynamic, without saying so of each
                ours = {name: (*facts[:3], theirs[name][3]) for name, facts in ours.items()}
            assert ours == theirs, table

    def test_defaults_are_kafkas_but_for_those_listed(self, kafka: Any) -> None:
        declared = kafka.ask("declarations")

        differing = {
            name
            for table, settings_here in TABLES.items()
            for name, setting in settings_here.items()
            if name not in NOT_IN_KAFKAS_TABLE
            and setting.show(setting.default) != declared[table][name]["default"]
        }

        assert differing == set(OTHER_DEFAULTS)

    def test_the_units_and_precedence_of_synonyms_are_kafkas(self, kafka: Any) -> None:
        declared = kafka.ask("declarations")["broker"]

        theirs = {n: tuple(facts["synonyms"]) for n, facts in declared.items() if len(facts["synonyms"]) > 1}

        assert theirs == SYNONYMS_OF

    def test_a_topics_setting_falls_back_on_the_same_broker_settings(self, kafka: Any) -> None:
        theirs = {
            name: tuple((synonym, factor) for synonym, factor in synonyms)
            for name, synonyms in kafka.ask("topic_synonyms").items()
        }

        assert {name: tuple(map(tuple, s)) for name, s in topic_table.BROKER_SYNONYMS.items()} == theirs

    def test_a_groups_setting_falls_back_on_the_same_broker_settings(self, kafka: Any) -> None:
        theirs = {
            name: synonym for name, synonym in kafka.ask("group_synonyms").items() if synonym is not None
        }

        assert theirs == group_table.BROKER_SYNONYMS


# Texts for every kind of bound, in addition to those from the message of a validator.
TEXTS = (
    *map(str, range(-3, 12)),
    *(str(sign * 2**bits + off) for bits in (15, 31, 63) for sign in (1, -1) for off in (-1, 0, 1)),
    *(
        "",
        " ",
        " 7 ",
        "+7",
        "0x10",
        "1_000",
        "1e3",
        "1.5",
        "-0.5",
        ".5",
        "5.",
        "0.5",
        "1.0",
        "1e-9",
        "12345678.9",
    ),
    *(
        "true",
        "FALSE",
        "True ",
        "yes",
        "a",
        " a , b ",
        "a,b",
        "a,a",
        "a,,b",
        "a,",
        "*",
        "0:1",
        "0:1,2:3",
        "0:",
        "*,*",
    ),
    *(
        "gzip",
        "GZIP",
        "producer",
        "delete",
        "compact,delete",
        "delete,delete",
        "broker",
        "controller,broker",
        "classic",
    ),
    *(
        "CreateTime",
        "createtime",
        "PLAINTEXT",
        "SSL",
        "requested",
        "rs256",
        "upgrade",
        "Bidirectional",
        "earliest",
    ),
    *(
        "by_duration:PT1H",
        "by_duration:P1DT2H3M4.5S",
        "by_duration:1h",
        "by_duration:",
        "by_duration:PT",
        "latest",
    ),
    *(
        "read_committed",
        "1@host:9093",
        "1@[::1]:9093",
        "host:9093",
        "x@host:1",
        "1@host",
        "host:",
        "1@host:x",
    ),
)


class TestValues:
    @pytest.mark.parametrize("table", sorted(TABLES))
    def test_the_same_texts_are_taken_and_shown_alike(self, kafka: Any, table: str) -> None:
        declared = kafka.ask("declarations")[table]
        differences = []
        for name, setting in TABLES[table].items():
            if name in NOT_IN_KAFKAS_TABLE or name in OTHER_RULES:
                continue
            for text in (*TEXTS, *_texts_round_bounds(declared[name]["validator"])):
                ours, theirs = _parse_here(setting, text), _parse_there(kafka, table, name, text)
                if setting.type.name == "CLASS":  # whether there is such a Java class is no matter here
                    continue
                if ours != theirs:
                    differences.append((name, text, ours, theirs))

        assert not differences

    def test_only_the_listed_rules_are_stricter(self, kafka: Any) -> None:
        for name in OTHER_RULES:
            table = next(table for table, settings_here in TABLES.items() if name in settings_here)
            taken_there = [text for text in TEXTS if _parse_there(kafka, table, name, text) != REFUSED]
            taken_here = [text for text in TEXTS if _parse_here(TABLES[table][name], text) != REFUSED]

            assert set(taken_here) < set(taken_there), name


REFUSED = object()


def _parse_here(setting: Setting, text: str) -> Any:
    try:
        return setting.show(setting.parse(text))
    except BadSetting:
        return REFUSED


def _parse_there(kafka: Any, table: str, name: str, text: str) -> Any:
    if not kafka.accepts("parse", table=table, name=name, text=text):
        return REFUSED
    return kafka.ask("parse", table=table, name=name, text=text)


def _texts_round_bounds(validator: str | None) -> list[str]:
    """Values at, just below and just above each number in the message of the validator."""
    numbers = map(int, re.findall(r"-?[0-9]+", validator or ""))
    return [str(number + step) for number in numbers for step in (-1, 0, 1)]


# Each is added to `BOTH`; the two programs must agree on whether a broker starts with it.
TOGETHER: list[dict[str, str]] = [
    {},
    {"broker.id": "1"},
    {"broker.id": "2"},
    {"controller.quorum.voters": "2@127.0.0.1:9093"},
    {"process.roles": "controller"},
    {"process.roles": "controller", "listeners": "CONTROLLER://127.0.0.1:9093"},
    {"process.roles": "broker"},
    {"process.roles": "broker", "listeners": "PLAINTEXT://127.0.0.1:9092"},
    {
        "process.roles": "broker",
        "listeners": "PLAINTEXT://127.0.0.1:9092",
        "controller.quorum.voters": "2@127.0.0.1:9093",
    },
    {"controller.listener.names": "OTHER"},
    {"controller.listener.names": "CONTROLLER,OTHER"},
    {"controller.quorum.auto.join.enable": "true"},
    {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"},
    {"listeners": "plaintext://localhost:9092,CONTROLLER://:9093"},
    {"listeners": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://:9093"},
    {"listeners": "PLAINTEXT://[::]:9092,CONTROLLER://:9093"},
    {"listeners": "PLAINTEXT://:9092,PLAINTEXT://:9094,CONTROLLER://:9093"},
    {"listeners": "PLAINTEXT://host:9092,CONTROLLER://host:9092"},
    {"listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://[::1]:9092"},
    {"listeners": "PLAINTEXT://host:0,CONTROLLER://host:0"},
    {"listeners": "PLAINTEXT//host:9092,CONTROLLER://:9093"},
    {"listeners": "OTHER://host:9092,CONTROLLER://:9093"},
    {"listeners": "CONTROLLER://:9093"},
    {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"},
    {"listener.security.protocol.map": "PLAINTEXT:plaintext,CONTROLLER:PLAINTEXT"},
    {"listener.security.protocol.map": "PLAINTEXT:CLEAR,CONTROLLER:PLAINTEXT"},
    {"listener.security.protocol.map": "PLAINTEXT"},
    {"advertised.listeners": "PLAINTEXT://broker.example:19092"},
    {"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"},
    {"advertised.listeners": "SSL://broker.example:9092"},
    {"inter.broker.listener.name": "PLAINTEXT"},
    {"inter.broker.listener.name": "OTHER"},
    {"inter.broker.listener.name": "CONTROLLER"},
    {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"},
    {"security.inter.broker.protocol": "SSL"},
    {"early.start.listeners": "PLAINTEXT"},
    {"early.start.listeners": "OTHER"},
    {"max.connections.per.ip": "0"},
    {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:5"},
    {"max.connections.per.ip.overrides": "host:many"},
    {"max.connections.per.ip.overrides": "host"},
    {"max.connections.per.ip.overrides": "::1:7, host:8"},
    {"queued.max.request.bytes": "1"},
    {"queued.max.request.bytes": "0"},
    {"connections.max.idle.ms": "100"},
    {"connections.max.idle.ms": "101"},
    {"connections.max.idle.ms": "-1"},
    {"cordoned.log.dirs": "*"},
    {"cordoned.log.dirs": "*,/tmp/kafka-logs"},
    {"cordoned.log.dirs": "/tmp/kafka-logs"},
    {"cordoned.log.dirs": "/elsewhere"},
    {"log.roll.ms": "0"},
    {"log.roll.ms": "1"},
    {"log.roll.jitter.ms": "-1"},
    {"log.retention.ms": "0"},
    {"log.retention.ms": "-5"},
    {"log.retention.hours": "0"},
    {"log.retention.minutes": "0"},
    {"log.retention.minutes": "0", "log.retention.ms": "1"},
    {"log.cleaner.threads": "127"},
    {"log.cleaner.threads": "128"},
    {"replica.fetch.wait.max.ms": "30000"},
    {"replica.fetch.wait.max.ms": "30001"},
    {"replica.fetch.wait.max.ms": "30001", "replica.socket.timeout.ms": "40000"},
    {"group.coordinator.rebalance.protocols": "classic,share"},
    {"group.coordinator.rebalance.protocols": "consumer"},
    {"group.consumer.session.timeout.ms": "44999"},
    {"group.consumer.session.timeout.ms": "60001"},
    {"group.consumer.heartbeat.interval.ms": "15001"},
    {"group.consumer.max.heartbeat.interval.ms": "45000", "group.consumer.heartbeat.interval.ms": "45000"},
    {"group.consumer.assignment.interval.ms": "15001"},
    {"group.share.min.session.timeout.ms": "60001"},
    {"group.share.heartbeat.interval.ms": "4999"},
    {"group.share.record.lock.duration.ms": "14999"},
    {"group.share.delivery.count.limit": "10", "group.share.max.delivery.count.limit": "9"},
    {"group.share.partition.max.record.locks": "4001"},
    {"group.share.max.heartbeat.interval.ms": "50000", "group.share.heartbeat.interval.ms": "45000"},
    {"group.streams.num.standby.replicas": "3"},
    {"group.streams.max.session.timeout.ms": "44999"},
    {"group.streams.assignment.interval.ms": "15001"},
    {"sasl.mechanism.inter.broker.protocol": "PLAIN"},
]

NEEDED_BY_KAFKA_ALONE = {
    "controller.quorum.voters": "a cluster of one has no one to vote with",
    "controller.listener.names": "a node with both roles reaches its controller in process",
    "node.id": "a first node is number 1",
    "process.roles": "a first node is both",
}

TLS = {
    "listeners": "SSL://:9092,CONTROLLER://:9093",
    "listener.security.protocol.map": "SSL:SSL,CONTROLLER:PLAINTEXT",
    "security.inter.broker.protocol": "SSL",
}

REFUSED_HERE_ALONE = [
    (
        {"authorizer.class.name": "org.example.Rules"},
        "ACLs are not implemented yet, and must not be ignored",
    ),
    (TLS, "TLS is not served yet, and must not be replaced by plain text"),
    ({"listeners": "PLAINTEXT://host:70000,CONTROLLER://:9093"}, "there is no such port"),
    ({"no.such.setting": "1"}, "Kafka warns of it in a long log, where a slip of the pen goes unnoticed"),
    ({"zookeeper.connect": "host:2181"}, "as above"),
]


class TestBrokersAsAWhole:
    @pytest.mark.parametrize(
        "extra", TOGETHER, ids=lambda extra: ",".join(f"{k}={v}" for k, v in extra.items())
    )
    def test_a_broker_starts_with_the_same_settings(self, kafka: Any, extra: dict[str, str]) -> None:
        assert _loads_here({**BOTH, **extra}) == kafka.accepts("load", static={**BOTH, **extra})

    @pytest.mark.parametrize("name", NEEDED_BY_KAFKA_ALONE)
    def test_kafka_alone_needs_some(self, kafka: Any, name: str) -> None:
        without = {key: text for key, text in BOTH.items() if key != name}
        if name == "controller.listener.names":
            without["listeners"] = "PLAINTEXT://127.0.0.1:9092"

        assert _loads_here(without)
        assert not kafka.accepts("load", static=without)

    @pytest.mark.parametrize(("extra", "reason"), REFUSED_HERE_ALONE)
    def test_penstock_alone_refuses_some(self, kafka: Any, extra: dict[str, str], reason: str) -> None:
        assert not _loads_here({**BOTH, **extra}), reason
        assert kafka.accepts("load", static={**BOTH, **extra})

    def test_the_same_settings_change_at_run_time(self, kafka: Any) -> None:
        names = [
            *BROKER,
            *TABLES["broker_quota"],
            *(f"listener.name.internal.{name}" for name in LISTENER_SETTINGS),
        ]
        for name in names:
            setting = BROKER_DYNAMIC[name.removeprefix("listener.name.internal.")]
            if name in NOT_IN_KAFKAS_TABLE or setting.type.name == "CLASS":
                continue
            text = setting.show(setting.default) or TEXT_OF_TYPE[setting.type.name]
            for is_for_one_broker in (True, False):
                here = _changes_here({name: text}, is_for_one_broker=is_for_one_broker)
                there = kafka.accepts(
                    "check_dynamic", overrides={name: text}, is_for_one_broker=is_for_one_broker
                )
                assert here == there, (name, is_for_one_broker)


TEXT_OF_TYPE = {
    "INT": "5",
    "LONG": "5",
    "LIST": "PLAINTEXT",
    "STRING": "any",
    "PASSWORD": "any",
    "SHORT": "5",
}
LISTENER_SETTINGS = (
    "ssl.keystore.location",
    "ssl.key.password",
    "max.connections",
    "max.connection.creation.rate",
)


def _loads_here(static: Mapping[str, str]) -> bool:
    try:
        BrokerSettings.load(static)
    except BadSetting:
        return False
    return True


def _changes_here(overrides: Mapping[str, str], *, is_for_one_broker: bool) -> bool:
    try:
        check_dynamic(overrides, is_for_one_broker=is_for_one_broker)
    except BadSetting:
        return False
    return True


REMOTE = {"remote.log.storage.system.enable": "true"}

# The broker's settings, the topic's overrides before, and after.
TOPICS: list[tuple[dict[str, str], dict[str, str], dict[str, str]]] = [
    ({}, {}, {}),
    ({}, {}, {"retention.ms": "5", "cleanup.policy": "compact,delete"}),
    ({}, {}, {"no.such.setting": "5"}),
    ({}, {}, {"log.segment.bytes": "2000000"}),
    ({}, {}, {"segment.bytes": "5"}),
    ({}, {}, {"internal.segment.bytes": "5"}),
    ({}, {}, {"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"}),
    ({}, {}, {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5"}),
    ({"log.cleaner.max.compaction.lag.ms": "5"}, {}, {"min.compaction.lag.ms": "6"}),
    ({}, {}, {"remote.storage.enable": "true"}),
    (REMOTE, {}, {"remote.storage.enable": "true"}),
    (REMOTE, {}, {"remote.storage.enable": "true", "cleanup.policy": "compact"}),
    (REMOTE, {}, {"remote.storage.enable": "true", "cleanup.policy": "delete,compact"}),
    (REMOTE, {}, {"remote.storage.enable": "true", "cleanup.policy": ""}),
    (REMOTE, {}, {"remote.storage.enable": "true", "retention.ms": "5", "local.retention.ms": "6"}),
    (REMOTE, {}, {"remote.storage.enable": "true", "retention.ms": "5", "local.retention.ms": "5"}),
    (REMOTE, {}, {"remote.storage.enable": "true", "retention.ms": "5", "local.retention.ms": "-1"}),
    (REMOTE, {}, {"remote.storage.enable": "true", "retention.ms": "-1", "local.retention.ms": "5"}),
    (REMOTE, {}, {"remote.storage.enable": "true", "retention.bytes": "5", "local.retention.bytes": "6"}),
    (REMOTE, {}, {"remote.storage.enable": "true", "retention.bytes": "-7", "local.retention.bytes": "6"}),
    ({}, {}, {"retention.bytes": "5", "local.retention.bytes": "6"}),
    (
        REMOTE,
        {},
        {"remote.storage.enable": "true", "remote.log.copy.disable": "true", "local.retention.ms": "5"},
    ),
    (
        REMOTE,
        {},
        {"remote.storage.enable": "true", "remote.log.copy.disable": "true", "local.retention.bytes": "-1"},
    ),
    (REMOTE, {"remote.storage.enable": "true"}, {}),
    (REMOTE, {"remote.storage.enable": "true"}, {"remote.storage.enable": "false"}),
    (REMOTE, {"remote.storage.enable": "true"}, {"remote.log.delete.on.disable": "true"}),
]

GROUPS: list[tuple[dict[str, str], dict[str, str]]] = [
    ({}, {}),
    ({}, {"no.such.setting": "5"}),
    ({}, {"consumer.session.timeout.ms": "45000"}),
    ({}, {"consumer.session.timeout.ms": "44999"}),
    ({}, {"consumer.session.timeout.ms": "60001"}),
    ({}, {"consumer.heartbeat.interval.ms": "4999"}),
    ({"group.consumer.max.heartbeat.interval.ms": "60000"}, {"consumer.heartbeat.interval.ms": "45000"}),
    ({}, {"consumer.assignment.interval.ms": "15001"}),
    ({}, {"share.record.lock.duration.ms": "14999"}),
    ({}, {"share.delivery.count.limit": "11"}),
    ({}, {"share.partition.max.record.locks": "4001"}),
    ({}, {"share.auto.offset.reset": "by_duration:P2D"}),
    ({}, {"share.auto.offset.reset": "sometime"}),
    ({}, {"share.isolation.level": "read_committed"}),
    ({}, {"streams.num.standby.replicas": "2"}),
    ({}, {"streams.num.standby.replicas": "3"}),
    ({}, {"streams.session.timeout.ms": "1"}),
    ({}, {"streams.assignment.interval.ms": "0"}),
]


class TestTopicsAndGroups:
    @pytest.mark.parametrize(("static", "previous", "overrides"), TOPICS)
    def test_a_topic_may_have_the_same_overrides(
        self, kafka: Any, static: dict[str, str], previous: dict[str, str], overrides: dict[str, str]
    ) -> None:
        broker = BrokerSettings.load({**BOTH, **static})
        try:
            validate_topic_overrides(broker, overrides, previous=previous)
            taken_here = True
        except BadSetting:
            taken_here = False

        assert taken_here == kafka.accepts(
            "check_topic", static={**BOTH, **static}, previous=previous, overrides=overrides
        )

    @pytest.mark.parametrize(("static", "overrides"), GROUPS)
    def test_a_group_may_have_the_same_overrides(
        self, kafka: Any, static: dict[str, str], overrides: dict[str, str]
    ) -> None:
        broker = BrokerSettings.load({**BOTH, **static})
        try:
            validate_group_overrides(broker, overrides)
            taken_here = True
        except BadSetting:
            taken_here = False

        assert taken_here == kafka.accepts("check_group", static={**BOTH, **static}, overrides=overrides)


# Three layers that speak about the same things in different names and units.
STATIC = {
    "log.retention.minutes": "7",
    "log.roll.hours": " 5 ",
    "ssl.key.password": "secret",
    "listener.name.plaintext.ssl.key.password": "secret",
    "listener.name.plaintext.max.connections": "17",
    "internal.metadata.log.segment.bytes": "9000000",
    "rsm.config.bucket": "store",
    "group.share.delivery.count.limit": "7",
    "log.segment.bytes": "4000000",
}
CLUSTER = {"log.segment.bytes": "2000000", "log.flush.interval.ms": " 55 ", "log.cleanup.policy": "compact"}
DYNAMIC = {
    "log.segment.bytes": "3000000",
    "log.cleanup.policy": " compact, delete ",
    "log.roll.ms": "600000",
    "sasl.jaas.config": "secret",
    "leader.replication.throttled.rate": "100",
}
LAYERS = [
    ({}, {}, {}),
    (STATIC, {}, {}),
    (STATIC, CLUSTER, {}),
    (STATIC, CLUSTER, DYNAMIC),
    ({}, {}, DYNAMIC),
]


class TestDescriptions:
    @pytest.mark.parametrize(("static", "cluster", "broker"), LAYERS)
    def test_a_broker_is_described_alike(
        self, kafka: Any, static: dict[str, str], cluster: dict[str, str], broker: dict[str, str]
    ) -> None:
        here = BrokerSettings.load({**BOTH, **static}).with_dynamic(cluster=cluster, broker=broker)
        there = {"static": {**BOTH, **static}, "cluster": cluster, "broker": broker}

        _assert_alike(describe_broker(here), kafka.ask("describe_broker", name="1", **there))
        _assert_alike(describe_cluster(here), kafka.ask("describe_broker", name="", **there))

    @pytest.mark.parametrize(("static", "cluster", "broker"), LAYERS)
    @pytest.mark.parametrize(
        "overrides", [{}, {"cleanup.policy": " compact, delete ", "internal.segment.bytes": "17"}]
    )
    def test_a_topic_is_described_alike(
        self,
        kafka: Any,
        static: dict[str, str],
        cluster: dict[str, str],
        broker: dict[str, str],
        overrides: dict[str, str],
    ) -> None:
        here = BrokerSettings.load({**BOTH, **static}).with_dynamic(cluster=cluster, broker=broker)
        there = {"static": {**BOTH, **static}, "cluster": cluster, "broker": broker, "overrides": overrides}

        _assert_alike(
            describe_topic(TopicSettings.resolve(here, overrides)), kafka.ask("describe_topic", **there)
        )

    @pytest.mark.parametrize(
        "overrides",
        [{}, {"consumer.session.timeout.ms": " 46000 ", "share.isolation.level": "read_committed"}],
    )
    def test_a_group_is_described_alike(self, kafka: Any, overrides: dict[str, str]) -> None:
        here = GroupSettings.resolve(BrokerSettings.load({**BOTH, **STATIC}), overrides)

        _assert_alike(
            describe_group(here), kafka.ask("describe_group", static={**BOTH, **STATIC}, overrides=overrides)
        )

    @pytest.mark.parametrize("overrides", [{}, {"metrics": " a , b ", "interval.ms": "1000"}])
    def test_a_metrics_subscription_is_described_alike(self, kafka: Any, overrides: dict[str, str]) -> None:
        _assert_alike(
            describe_client_metrics(overrides),
            kafka.ask("describe_client_metrics", static=BOTH, overrides=overrides),
        )


def _assert_alike(here: list[Entry], there: list[dict[str, Any]]) -> None:
    ours = {
        entry.name: {
            "name": entry.name,
            "value": entry.value,
            "source": int(entry.source),
            "is_sensitive": entry.is_sensitive,
            "read_only": entry.read_only,
            "type": entry.type,
            "synonyms": [[s.name, s.value, int(s.source)] for s in entry.synonyms],
        }
        for entry in here
        if entry.name not in NOT_IN_KAFKAS_TABLE
    }
    theirs = {entry["name"]: entry for entry in there}
    for name in OTHER_DEFAULTS:  # the defaults differ, as listed
        for entry in filter(None, (ours.get(name), theirs.get(name))):
            entry["synonyms"] = [synonym for synonym in entry["synonyms"] if synonym[2] != 5]
    assert ours == theirs


class TestProperties:
    @settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @example(text="\\\r\n")
    @example(text="a=1\\\n\n b=2")
    @given(text=st.text(st.sampled_from("ab=: \t\f\\\n\r#!u0041é"), max_size=40))
    def test_a_file_has_the_same_meaning(self, kafka: Any, text: str) -> None:
        try:
            here: dict[str, str] | None = parse_properties(text)
        except BadProperties:
            here = None

        there = kafka.ask("properties", text=text) if kafka.accepts("properties", text=text) else None

        assert _without_nothing(here) == _without_nothing(there)


def _without_nothing(entries: dict[str, str] | None) -> dict[str, str] | None:
    """Of a lone backslash at the end Java makes an entry without a name, and Penstock makes none."""
    return entries and {key: value for key, value in entries.items() if key}
