"""The settings of a node: file, listeners, and dynamic changes."""

from __future__ import annotations

import pytest

from penstock.config.broker import BrokerSettings, check_dynamic, default_data_directory, find_setting
from penstock.config.errors import BadSetting
from penstock.config.properties import parse_properties
from penstock.config.values import Secret

# A file as Kafka's quick start has it, for one node with both roles.
QUICK_START = """
process.roles=broker,controller
node.id=3
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL
num.network.threads=3
num.io.threads=8
log.dirs=/var/lib/one,/var/lib/two
num.partitions=4
offsets.topic.replication.factor=1
log.retention.hours=24
"""


class TestLoading:
    def test_an_empty_file_is_enough(self) -> None:
        settings = BrokerSettings.load({}, environment={"HOME": "/home/ada"})

        assert settings.node_id == 1
        assert settings.roles == {"broker", "controller"}
        assert [str(listener) for listener in settings.listeners] == ["PLAINTEXT://127.0.0.1:9092"]
        assert settings.advertised_listeners == settings.listeners
        assert settings.log_dirs == ("/home/ada/.local/state/penstock",)
        assert settings.metadata_log_dir == "/home/ada/.local/state/penstock"
        assert settings.get("num.partitions") == 1
        assert settings.ignored == ()
        assert settings.overridden() == {}

    def test_only_settings_that_differ_from_the_defaults_are_shown_without_secrets(self) -> None:
        settings = BrokerSettings.load(
            {
                "num.partitions": "3",
                "log.retention.hours": "168",
                "ssl.keystore.password": "geheim",
                "listeners": "PLAINTEXT://127.0.0.1:9999",
            }
        ).with_dynamic(broker={"background.threads": "12", "num.io.threads": "8"})

        assert settings.overridden() == {
            "background.threads": "12",
            "listeners": "PLAINTEXT://127.0.0.1:9999",
            "num.partitions": "3",
            "ssl.keystore.password": "(hidden)",
        }

    def test_a_file_written_for_kafka_is_read_unchanged(self) -> None:
        settings = BrokerSettings.load(parse_properties(QUICK_START))

        assert settings.node_id == settings.get("broker.id") == 3
        assert settings.log_dirs == ("/var/lib/one", "/var/lib/two")
        assert [str(each) for each in settings.broker_listeners] == ["PLAINTEXT://:9092"]
        assert [str(each) for each in settings.controller_listeners] == ["CONTROLLER://:9093"]
        assert str(settings.advertised_listeners[0]) == "PLAINTEXT://localhost:9092"
        assert settings.inter_broker_listener_name == "PLAINTEXT"

    def test_settings_without_effect_are_listed(self) -> None:
        settings = BrokerSettings.load(
            {"num.network.threads": "8", "num.partitions": "2", "rsm.config.bucket": "b"}
        )

        assert settings.ignored == ("num.network.threads", "rsm.config.bucket")

    def test_values_have_their_declared_type(self) -> None:
        settings = BrokerSettings.load(
            {"log.preallocate": "true", "ssl.key.password": "hush", "log.cleaner.min.cleanable.ratio": "0.25"}
        )

        assert settings.get("log.preallocate") is True
        assert settings.get("ssl.key.password") == Secret("hush")
        assert settings.get("log.cleaner.min.cleanable.ratio") == 0.25
        assert settings.get("log.cleanup.policy") == ("delete",)

    def test_an_undeclared_name_is_a_bug_of_the_caller(self) -> None:
        with pytest.raises(KeyError):
            BrokerSettings.load({}).get("no.such.setting")

    @pytest.mark.parametrize(
        ("properties", "message"),
        [
            ({"nmu.partitions": "1"}, "nmu.partitions: not a setting .* did you mean num.partitions"),
            ({"num.partitions": "0"}, "num.partitions=0: must be a 32-bit integer, at least 1"),
            ({"zookeeper.connect": "host:2181"}, "zookeeper.connect: removed from Kafka"),
            ({"node.id": "1", "broker.id": "2"}, "broker.id=2: must be equal to node.id=1"),
            ({"log.dirs": ""}, "log.dirs=: must be a comma-separated list, of at least one item"),
            ({"log.dirs": "/a,/a"}, "log.dirs=/a,/a: .*neither empty nor repeated"),
            ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, "clients cannot connect to 0.0.0.0"),
            ({"listeners": "SSL://:9092"}, "SSL is not implemented yet"),
            ({"authorizer.class.name": "org.example.Rules"}, "ACLs are not implemented yet"),
            ({"listener.name.internal.no.such": "1"}, "listener.name.internal.no.such: not a setting"),
        ],
    )
    def test_a_bad_setting_is_refused(self, properties: dict[str, str], message: str) -> None:
        with pytest.raises(BadSetting, match=message):
            BrokerSettings.load(properties)


class TestDataDirectory:
    def test_the_state_directory_of_the_user(self) -> None:
        assert default_data_directory({"XDG_STATE_HOME": "/state", "HOME": "/home/ada"}) == "/state/penstock"

    def test_a_relative_state_directory_does_not_count(self) -> None:
        assert default_data_directory({"XDG_STATE_HOME": "state", "HOME": "/h"}) == "/h/.local/state/penstock"

    def test_log_dir_counts_where_log_dirs_is_silent(self) -> None:
        assert BrokerSettings.load({"log.dir": "/a,/b"}).log_dirs == ("/a", "/b")
        assert BrokerSettings.load({"log.dir": "/a", "log.dirs": "/b"}).log_dirs == ("/b",)

    def test_the_metadata_log_can_have_its_own_directory(self) -> None:
        assert BrokerSettings.load({"metadata.log.dir": "/meta"}).metadata_log_dir == "/meta"


class TestListeners:
    def test_a_listener_can_have_its_own_value(self) -> None:
        settings = BrokerSettings.load(
            {"max.connections": "100", "listener.name.plaintext.max.connections": "7"}
        )

        assert settings.get("max.connections", listener="PLAINTEXT") == 7
        assert settings.get("max.connections", listener="OTHER") == 100

    def test_a_listeners_setting_may_name_a_mechanism(self) -> None:
        setting = find_setting("listener.name.inside.scram-sha-256.sasl.jaas.config")

        assert setting is not None
        assert setting.name == "sasl.jaas.config"

    def test_a_controller_listener_is_plaintext_by_default(self) -> None:
        settings = BrokerSettings.load(
            {"listeners": "PLAINTEXT://:9092,VOTE://:9093", "controller.listener.names": "VOTE"}
        )

        assert settings.controller_listeners[0].security_protocol == "PLAINTEXT"


class TestDynamicSettings:
    def test_the_broker_outranks_the_cluster_and_the_cluster_the_file(self) -> None:
        static = BrokerSettings.load({"log.segment.bytes": "2000000"})
        cluster = static.with_dynamic(cluster={"log.segment.bytes": "3000000"})
        broker = static.with_dynamic(
            cluster={"log.segment.bytes": "3000000"}, broker={"log.segment.bytes": "4000000"}
        )

        assert [each.get("log.segment.bytes") for each in (static, cluster, broker)] == [
            2000000,
            3000000,
            4000000,
        ]

    def test_a_removed_dynamic_setting_no_longer_applies(self) -> None:
        settings = BrokerSettings.load({}).with_dynamic(cluster={"log.segment.bytes": "3000000"})

        assert settings.with_dynamic().get("log.segment.bytes") == 1 << 30

    def test_a_synonym_in_a_weaker_layer_is_silenced(self) -> None:
        settings = BrokerSettings.load({"log.roll.hours": "5"}).with_dynamic(cluster={"log.roll.ms": "60000"})

        assert settings.get("log.roll.ms") == 60000
        assert not settings.is_set("log.roll.hours")

    def test_settings_together_must_still_make_sense(self) -> None:
        with pytest.raises(BadSetting, match=r"max.connections.per.ip=0"):
            BrokerSettings.load({}).with_dynamic(cluster={"max.connections.per.ip": "0"})

    @pytest.mark.parametrize(
        ("overrides", "is_for_one_broker", "message"),
        [
            ({"num.partitions": "2"}, True, "cannot be changed dynamically"),
            ({"listeners": "PLAINTEXT://:1"}, False, "can only be set for a single broker"),
            ({"listener.name.a.ssl.key.password": "x"}, False, "can only be set for a single broker"),
            ({"ssl.keystore.location": "/k"}, True, "listener.name.<listener>.ssl.keystore.location"),
            ({"log.segment.bytes": "1"}, True, "at least 1048576"),
            ({"no.such": "1"}, True, "not a setting"),
            ({"rsm.config.bucket": "b"}, True, "cannot be changed dynamically"),
        ],
    )
    def test_not_everything_changes_at_run_time(
        self, overrides: dict[str, str], is_for_one_broker: bool, message: str
    ) -> None:
        with pytest.raises(BadSetting, match=message):
            check_dynamic(overrides, is_for_one_broker=is_for_one_broker)

    def test_some_things_do(self) -> None:
        check_dynamic({"log.segment.bytes": "2000000"}, is_for_one_broker=False)
        check_dynamic({"listener.name.a.max.connections": "5"}, is_for_one_broker=False)
        check_dynamic({"leader.replication.throttled.rate": "5"}, is_for_one_broker=False)
        check_dynamic({"listeners": "PLAINTEXT://:1"}, is_for_one_broker=True)
