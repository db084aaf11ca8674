"""The entries of DescribeConfigs. `test_against_kafka` compares them with Kafka."""

from __future__ import annotations

from penstock.config.broker import BrokerSettings, Source
from penstock.config.describe import (
    Synonym,
    describe_broker,
    describe_client_metrics,
    describe_cluster,
    describe_group,
    describe_topic,
)
from penstock.config.group import GroupSettings
from penstock.config.tables import BROKER
from penstock.config.topic import TopicSettings
from penstock.config.values import SettingType


def test_an_entry_has_value_source_type_and_documentation() -> None:
    broker = BrokerSettings.load({"log.segment.bytes": "2000000"})

    (entry,) = describe_topic(TopicSettings.resolve(broker, {"segment.bytes": "3000000"}), ["segment.bytes"])

    assert (entry.name, entry.value, entry.source) == ("segment.bytes", "3000000", Source.TOPIC)
    assert (entry.type, entry.read_only, entry.is_sensitive) == (SettingType.INT, False, False)
    assert not entry.is_default
    assert entry.synonyms == (
        Synonym("segment.bytes", "3000000", Source.TOPIC),
        Synonym("log.segment.bytes", "2000000", Source.STATIC_BROKER),
        Synonym("log.segment.bytes", "1073741824", Source.DEFAULT),
    )
    assert entry.documentation is not None
    assert "segment" in entry.documentation


def test_all_settings_are_described_in_the_order_of_their_names() -> None:
    entries = describe_broker(BrokerSettings.load({}))

    names = [entry.name for entry in entries]
    assert names == sorted(name for name, setting in BROKER.items() if not setting.is_internal)
    assert all(entry.is_default for entry in entries)


def test_no_names_ask_for_all() -> None:
    topic = TopicSettings.resolve(BrokerSettings.load({}), {})

    assert describe_topic(topic, []) == describe_topic(topic)


def test_secrets_and_unknown_settings_are_not_shown() -> None:
    broker = BrokerSettings.load({"ssl.key.password": "hush", "rsm.config.key": "hush"})

    entries = describe_broker(broker, ["ssl.key.password", "rsm.config.key"])

    assert all(entry.is_sensitive and entry.value is None for entry in entries)
    assert "hush" not in str(entries)


def test_the_default_data_directory_is_shown() -> None:
    broker = BrokerSettings.load({}, environment={"XDG_STATE_HOME": "/state"})

    (entry,) = describe_broker(broker, ["log.dir"])

    assert (entry.value, entry.source) == ("/state/penstock", Source.DEFAULT)


def test_cluster_wide_defaults_are_described_separately() -> None:
    broker = BrokerSettings.load({}).with_dynamic(cluster={"log.cleanup.policy": "compact"})

    (entry,) = describe_cluster(broker)

    assert (entry.name, entry.value, entry.source) == (
        "log.cleanup.policy",
        "compact",
        Source.DYNAMIC_DEFAULT_BROKER,
    )


def test_a_group_and_a_metrics_subscription_are_described() -> None:
    group = GroupSettings.resolve(BrokerSettings.load({}), {"share.isolation.level": "read_committed"})

    (entry,) = describe_group(group, ["share.isolation.level"])
    (metrics,) = describe_client_metrics({"metrics": "a"}, ["metrics"])

    assert (entry.value, entry.source) == ("read_committed", Source.GROUP)
    assert (metrics.value, metrics.source) == ("a", Source.CLIENT_METRICS)
