"""Options are parsed by name and type, and their errors help."""

from __future__ import annotations

import pickle
import re

import pytest

from penstock.spark.errors import BadOption
from penstock.spark.options import BY_NAME, OPTIONS, Options, Use

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}


def read(use: Use = Use.STREAM_READ, **given: str) -> Options:
    return Options.read({**SERVERS, **{name.replace("__", "."): value for name, value in given.items()}}, use)


def test_values_have_their_declared_type_and_default() -> None:
    options = read(
        subscribe="a, b,", failOnDataLoss="FALSE", maxTriggerDelay="2 min", maxBytesPerTrigger="3k"
    )

    assert options.get("subscribe") == ("a", "b")
    assert options.get("failOnDataLoss") is False
    assert options.get("maxTriggerDelay") == 120_000
    assert options.get("maxBytesPerTrigger") == 3072
    assert options.get("includeHeaders") is False
    assert not options.is_set("includeHeaders")


def test_names_are_case_insensitive() -> None:
    assert read(STARTINGOFFSETS="Earliest").get("startingOffsets") == "earliest"


def test_client_settings_have_the_prefix_kafka() -> None:
    assert read(kafka__security__protocol="SSL").settings == {
        "bootstrap.servers": "localhost:9092",
        "security.protocol": "SSL",
    }


def test_offsets_may_be_negative_and_a_streams_topic_ids_are_ignored() -> None:
    options = read(startingOffsets='{"a": {"0": 17, "1": -1, "2": -2}, "@ids": {"a": "x"}}')

    assert options.get("startingOffsets") == {"a": {0: 17, 1: -1, 2: -2}}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("startingOfsets", "latest", "unknown option startingOfsets; did you mean startingOffsets?"),
        ("bootstrap.servers", "x", "client settings start with kafka."),
        ("startingOffsets", "soon", "'soon' is not of the form earliest, latest or {"),
        ("startingOffsets", '{"a": {"0": -3}}', "out of range for a-0: -3"),
        ("assign", '{"a": []}', "is without a valid partition"),
        ("assign", "[1]", 'is not of the form {"orders": [0, 1]}'),
        ("subscribe", " , ", "is not a list of names"),
        ("subscribePattern", "(", "is not a regular expression"),
        ("failOnDataLoss", "yes", "'yes' is neither true nor false"),
        ("minPartitions", "0", "'0' is less than 1"),
        ("minPartitions", "many", "is not a whole number"),
        ("maxTriggerDelay", "soon", "is not a duration such as 30s or 15m"),
        ("maxBytesPerTrigger", "0", "is not a size such as 64m"),
        ("poison", "ignore", "is not one of fail, null, drop, deadLetter"),
    ],
)
def test_bad_options_are_rejected(name: str, value: str, message: str) -> None:
    with pytest.raises(BadOption, match=re.escape(message)):
        Options.read({**SERVERS, name: value}, Use.STREAM_READ)


@pytest.mark.parametrize(
    "name",
    [
        "auto.offset.reset",
        "key.deserializer",
        "value.deserializer",
        "enable.auto.commit",
        "interceptor.classes",
    ],
)
def test_a_reader_rejects_client_settings_that_the_query_decides(name: str) -> None:
    with pytest.raises(BadOption, match=f"option kafka.{re.escape(name)} cannot be set here: "):
        Options.read({**SERVERS, f"kafka.{name}": "x"}, Use.BATCH_READ)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"isolation.level": "read_comitted"}, "isolation.level=read_comitted: .*read_committed, read_uncommitted"),
        ({"fetch.min.bytes": "odd"}, "fetch.min.bytes=odd: must be a 32-bit integer"),
        ({"fetch.min.byte": "1"}, r"fetch.min.byte: .* did you mean fetch.min.bytes\?"),
        ({"bootstrap.servers": "localhost"}, "bootstrap.servers: .*the port is missing, as in localhost:9092"),
        ({"security.protocol": "SLS"}, "security.protocol=SLS: .*PLAINTEXT, SSL"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAN"}, "sasl.mechanism: PLAN is not supported"),
        ({"request.timeout.ms": "9", "default.api.timeout.ms": "8"}, "default.api.timeout.ms=8: must be at least"),
    ],
)  # fmt: skip
def test_settings_that_a_consumer_rejects_fail_before_any_task(given: dict[str, str], message: str) -> None:
    with pytest.raises(BadOption, match=rf"^option kafka\.{message}"):
        Options.read({**SERVERS, **{f"kafka.{name}": value for name, value in given.items()}}, Use.READ)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"compression.type": "zip"}, "compression.type=zip: .*gzip"),
        ({"acks": "2"}, "acks=2: "),
        ({"linger.msec": "5"}, r"linger.msec: .* did you mean linger.ms\?"),
        ({"partitioner.class": "robin"}, "partitioner.class: unknown partitioner robin; known are "),
        ({"delivery.timeout.ms": "5"}, "delivery.timeout.ms=5: must be at least "),
        ({"enable.idempotence": "false"}, "enable.idempotence: exactly-once needs true"),
        ({"acks": "1"}, "enable.idempotence: .*acks=all"),
        ({"transactional.id": "mine"}, "transactional.id cannot be set here: .*transactionalIdPrefix"),
        ({"sasl.jaas.config": "secret", "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"},
         "sasl.jaas.config must be a login module"),
    ],
)  # fmt: skip
def test_settings_that_a_producer_rejects_fail_before_any_task(given: dict[str, str], message: str) -> None:
    with pytest.raises(BadOption, match=rf"^option kafka\.{message}"):
        Options.read(
            {**SERVERS, **{f"kafka.{name}": value for name, value in given.items()}}, Use.STREAM_WRITE
        )


def test_an_at_least_once_sink_needs_no_idempotence() -> None:
    assert read(Use.BATCH_WRITE, kafka__acks="1").settings["acks"] == "1"
    assert read(Use.STREAM_WRITE, kafka__acks="1", guarantee="at-least-once").settings["acks"] == "1"
    with pytest.raises(BadOption, match="exactly-once needs true"):
        read(Use.BATCH_WRITE, kafka__acks="1", guarantee="exactly-once")


def test_settings_of_other_kinds_of_clients_are_accepted() -> None:
    assert read(kafka__linger__ms="soon", kafka__group__id="g").settings["linger.ms"] == "soon"
    assert read(Use.STREAM_WRITE, kafka__isolation__level="odd").settings["isolation.level"] == "odd"


def test_a_source_with_dead_letters_validates_producer_settings() -> None:
    with pytest.raises(BadOption, match=r"option kafka\.linger\.ms=soon: must be a 64-bit integer"):
        read(kafka__linger__ms="soon", deadLetterTopic="dead")


def test_read_committed_is_recognized() -> None:
    assert read(kafka__isolation__level=" read_committed").is_committed_only
    assert not read(kafka__isolation__level="read_uncommitted").is_committed_only
    assert not read().is_committed_only


def test_a_group_id_setting_is_accepted() -> None:
    assert read(kafka__group__id="g").settings["group.id"] == "g"


def test_bootstrap_servers_are_required() -> None:
    with pytest.raises(BadOption, match=r"option kafka\.bootstrap\.servers is missing"):
        Options.read({"subscribe": "a"}, Use.BATCH_READ)


def test_options_can_be_pickled() -> None:
    options = read(subscribe="a", subscribePattern="x.*")

    assert pickle.loads(pickle.dumps(options)) == options


def test_every_option_has_a_unique_name_and_a_meaning() -> None:
    assert len(BY_NAME) == len(OPTIONS)
    assert all(option.meaning.endswith((".", "`.", ")")) for option in OPTIONS)
