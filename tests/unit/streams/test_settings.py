"""Settings of an application: Kafka's names, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.client.errors import BadConfiguration
from penstock.streams.settings import AppSettings, default_state_folder


def test_the_first_two_arguments_are_the_name_and_the_brokers() -> None:
    settings = AppSettings.of("orders", "one:9092,two:9092")

    assert settings.application_id == "orders"
    assert settings.client["bootstrap.servers"] == "one:9092,two:9092"
    assert settings.client["client.id"] == "orders"
    assert settings.is_exactly_once


def test_keywords_have_underscores_and_settings_dots() -> None:
    settings = AppSettings.of("a", None, {"commit.interval.ms": "500"}, {"num_stream_threads": 3})

    assert settings.get("commit.interval.ms") == 500
    assert settings.get("num.stream.threads") == 3


def test_client_settings_are_passed_to_the_clients() -> None:
    given = {"security.protocol": "SSL", "consumer.fetch.max.bytes": 5, "main.consumer.fetch.min.bytes": 2}

    settings = AppSettings.of("a", None, given)

    assert settings.clients == {"security.protocol": "SSL", "fetch.max.bytes": 5, "fetch.min.bytes": 2}


def test_topic_settings_apply_to_internal_topics() -> None:
    assert AppSettings.of("a", None, {"topic.segment.bytes": 1024}).topics == {"segment.bytes": "1024"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"comit.interval.ms": 5}, "did you mean commit.interval.ms"),
        ({"processing.guarantee": "maybe"}, "one of at_least_once"),
        ({"replication.factor": 0}, "-1 or at least 1"),
        ({"deserialization.exception.handler": "perhaps"}, "must be fail or continue"),
        ({"application.id": "b"}, "given twice"),
    ],
)
def test_invalid_settings_are_rejected_with_a_reason(given: dict[str, Any], message: str) -> None:
    with pytest.raises(BadConfiguration, match=message):
        AppSettings.of("a", None, given)


@pytest.mark.parametrize("name", [None, "", "with space", "größe", "日本", ".", "..", "x" * 201])
def test_an_application_needs_a_name_that_can_start_a_topic_name(name: str | None) -> None:
    with pytest.raises(BadConfiguration, match=r"application\.id"):
        AppSettings.of(name)


def test_handlers_may_be_kafkas_classes() -> None:
    java = "org.apache.kafka.streams.errors.LogAndContinueExceptionHandler"

    assert (
        AppSettings.of("a", None, {"deserialization.exception.handler": java}).deserialization_handler
        == "continue"
    )
    older = {"default.deserialization.exception.handler": java}
    assert AppSettings.of("a", None, older).deserialization_handler == "continue"


def test_caches_have_two_setting_names() -> None:
    assert AppSettings.of("a").caches
    assert not AppSettings.of("a", None, {"statestore.cache.max.bytes": 0}).caches
    assert not AppSettings.of("a", None, {"cache.max.bytes.buffering": 0}).caches


def test_state_is_in_a_folder_named_after_the_application() -> None:
    assert (
        AppSettings.of("a", None, {"state.dir": "s3://bucket/state/"}).state_folder == "s3://bucket/state/a"
    )
    assert str(default_state_folder({"XDG_STATE_HOME": "/var/state"})) == "/var/state/penstock/streams"
