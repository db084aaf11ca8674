"""A topic's settings over the broker's."""

from __future__ import annotations

import pytest

from penstock.config.broker import BrokerSettings, Source
from penstock.config.errors import BadSetting
from penstock.config.topic import TopicSettings, broker_defaults, validate_topic_overrides

DAY_MS = 24 * 3600 * 1000


def resolve(static: dict[str, str] | None = None, overrides: dict[str, str] | None = None) -> TopicSettings:
    return TopicSettings.resolve(BrokerSettings.load(static or {}), overrides or {})


class TestResolving:
    def test_a_silent_topic_has_the_brokers_values(self) -> None:
        topic = resolve({"log.segment.bytes": "2000000", "message.max.bytes": "500"})

        assert topic.get("segment.bytes") == 2000000
        assert topic.get("max.message.bytes") == 500
        assert topic.get("retention.ms") == 7 * DAY_MS
        assert topic.get("remote.storage.enable") is False

    def test_overrides_of_a_topic_take_precedence(self) -> None:
        topic = resolve({"log.cleanup.policy": "delete"}, {"cleanup.policy": "compact, delete"})

        assert topic.get("cleanup.policy") == ("compact", "delete")

    @pytest.mark.parametrize(
        ("static", "retention_ms"),
        [
            ({"log.retention.hours": "2"}, 2 * 3600 * 1000),
            ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 3 * 60 * 1000),
            ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
            ({"log.retention.hours": "-1"}, -1),
            ({"log.retention.ms": "-7"}, -1),
        ],
    )
    def test_retention_can_be_set_in_three_units(self, static: dict[str, str], retention_ms: int) -> None:
        assert resolve(static).get("retention.ms") == retention_ms

    def test_flushing_falls_back_on_the_schedulers_interval(self) -> None:
        assert resolve({"log.flush.scheduler.interval.ms": "500"}).get("flush.ms") == 500

    def test_an_unknown_name_is_refused(self) -> None:
        with pytest.raises(BadSetting, match=r"not a setting of a topic; did you mean retention.ms"):
            resolve(overrides={"retension.ms": "1"})

    def test_a_brokers_name_is_refused_with_the_topics_own(self) -> None:
        with pytest.raises(
            BadSetting,
            match=r"log.segment.bytes: this is a broker setting; for a topic, use segment.bytes",
        ):
            resolve(overrides={"log.segment.bytes": "2000000"})

    def test_a_bad_value_is_refused(self) -> None:
        with pytest.raises(BadSetting, match=r"cleanup.policy=remove: must be .* of compact, delete"):
            resolve(overrides={"cleanup.policy": "remove"})

    def test_defaults_cover_every_setting(self) -> None:
        values = broker_defaults(BrokerSettings.load({}))

        assert [name for name, value in values.items() if value is None] == ["internal.segment.bytes"]


class TestSources:
    def test_the_strongest_layer_that_speaks_is_named(self) -> None:
        broker = BrokerSettings.load({"log.retention.hours": "5"}).with_dynamic(
            cluster={"log.segment.bytes": "2000000"}, broker={"log.roll.ms": "5000"}
        )
        topic = TopicSettings.resolve(broker, {"flush.ms": "5"})

        sources = {
            name: topic.source(name) for name in ("flush.ms", "segment.ms", "segment.bytes", "retention.ms")
        }

        assert sources == {
            "flush.ms": Source.TOPIC,
            "segment.ms": Source.DYNAMIC_BROKER,
            "segment.bytes": Source.DYNAMIC_DEFAULT_BROKER,
            "retention.ms": Source.STATIC_BROKER,
        }
        assert topic.source("preallocate") is Source.DEFAULT
        assert topic.source("remote.storage.enable") is Source.DEFAULT


class TestValidating:
    def test_valid_overrides_are_returned(self) -> None:
        topic = validate_topic_overrides(BrokerSettings.load({}), {"retention.ms": "5"})

        assert topic.get("retention.ms") == 5

    @pytest.mark.parametrize(
        ("overrides", "words"),
        [
            ({"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"}, "at most max.compaction.lag.ms=5"),
            ({"remote.storage.enable": "true"}, "remote.log.storage.system.enable=true"),
        ],
    )
    def test_contradictions_are_refused(self, overrides: dict[str, str], words: str) -> None:
        with pytest.raises(BadSetting, match=words):
            validate_topic_overrides(BrokerSettings.load({}), overrides)

    @pytest.mark.parametrize(
        ("overrides", "words"),
        [
            ({"cleanup.policy": "compact"}, "cleanup.policy without compact"),
            ({"retention.ms": "5", "local.retention.ms": "6"}, "at most retention.ms=5"),
            ({"remote.log.copy.disable": "true", "local.retention.ms": "5"}, "must be -2 or retention.ms"),
        ],
    )
    def test_contradictions_of_a_tiered_topic_are_refused(
        self, overrides: dict[str, str], words: str
    ) -> None:
        broker = BrokerSettings.load({"remote.log.storage.system.enable": "true"})

        with pytest.raises(BadSetting, match=words):
            validate_topic_overrides(broker, {"remote.storage.enable": "true", **overrides})

    def test_tiering_is_not_turned_off_by_the_way(self) -> None:
        broker = BrokerSettings.load({"remote.log.storage.system.enable": "true"})
        tiered = {"remote.storage.enable": "true"}

        with pytest.raises(BadSetting, match="the data in the remote store is deleted"):
            validate_topic_overrides(broker, {}, previous=tiered)
        validate_topic_overrides(broker, {"remote.log.delete.on.disable": "true"}, previous=tiered)
