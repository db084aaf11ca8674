"""Options are read by name and type, and what is wrong with them is said in words that help."""

from __future__ import annotations

import pickle
import re

import pytest

from penstock.spark.errors import BadOption
from penstock.spark.options import BY_NAME, OPTIONS, Options, Use

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}


def read(use: Use = Use.STREAM_READ, **said: str) -> Options:
    return Options.read({**SERVERS, **{name.replace("__", "."): value for name, value in said.items()}}, use)


def test_values_have_their_types_and_what_was_not_said_its_default() -> None:
    options = read(
        subscribe="a, b,", failOnDataLoss="FALSE", maxTriggerDelay="2 min", maxBytesPerTrigger="3k"
    )

    assert options.get("subscribe") == ("a", "b")
    assert options.get("failOnDataLoss") is False
    assert options.get("maxTriggerDelay") == 120_000
    assert options.get("maxBytesPerTrigger") == 3072
    assert options.get("includeHeaders") is False
    assert not options.is_set("includeHeaders")


def test_names_are_taken_in_any_letters() -> None:
    assert read(STARTINGOFFSETS="Earliest").get("startingOffsets") == "earliest"


def test_settings_of_clients_follow_kafka() -> None:
    assert read(kafka__security__protocol="SSL").settings == {
        "bootstrap.servers": "localhost:9092",
        "security.protocol": "SSL",
    }


def test_offsets_are_read_with_the_ends_and_without_what_a_stream_adds() -> None:
    options = read(startingOffsets='{"a": {"0": 17, "1": -1, "2": -2}, "@ids": {"a": "x"}}')

    assert options.get("startingOffsets") == {"a": {0: 17, 1: -1, 2: -2}}


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("startingOfsets", "latest", "there is no option startingOfsets; is startingOffsets meant?"),
        ("bootstrap.servers", "x", "settings of clients begin with kafka."),
        ("startingOffsets", "soon", "'soon' is not of the form earliest, latest or {"),
        ("startingOffsets", '{"a": {"0": -3}}', "out of range for a-0: -3"),
        ("assign", '{"a": []}', "is without a partition that can be"),
        ("assign", "[1]", 'is not of the form {"orders": [0, 1]}'),
        ("subscribe", " , ", "is no list of names"),
        ("subscribePattern", "(", "is no regular expression"),
        ("failOnDataLoss", "yes", "'yes' is neither true nor false"),
        ("minPartitions", "0", "'0' is less than 1"),
        ("minPartitions", "many", "is no whole number"),
        ("maxTriggerDelay", "soon", "is no time such as 30s or 15m"),
        ("maxBytesPerTrigger", "0", "is no size such as 64m"),
        ("poison", "ignore", "is none of fail, null, drop, deadLetter"),
    ],
)
def test_what_does_not_serve_is_refused(name: str, value: str, words: str) -> None:
    with pytest.raises(BadOption, match=re.escape(words)):
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
def test_a_reader_refuses_settings_that_would_cross_its_plans(name: str) -> None:
    with pytest.raises(BadOption, match=f"option kafka.{re.escape(name)} cannot be set here: "):
        Options.read({**SERVERS, f"kafka.{name}": "x"}, Use.BATCH_READ)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"isolation.level": "read_comitted"}, "isolation.level=read_comitted: .*read_committed, read_uncommitted"),
        ({"fetch.min.bytes": "odd"}, "fetch.min.bytes=odd: must be an integer"),
        ({"fetch.min.byte": "1"}, r"fetch.min.byte: .* did you mean fetch.min.bytes\?"),
        ({"bootstrap.servers": "localhost"}, "bootstrap.servers: .*the port is missing, as in localhost:9092"),
        ({"security.protocol": "SLS"}, "security.protocol=SLS: .*PLAINTEXT, SSL"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAN"}, "sasl.mechanism: PLAN is not spoken here"),
        ({"request.timeout.ms": "9", "default.api.timeout.ms": "8"}, "default.api.timeout.ms=8: must be at least"),
    ],
)  # fmt: skip
def test_settings_that_no_consumer_takes_are_refused_before_there_are_tasks(
    said: dict[str, str], words: str
) -> None:
    with pytest.raises(BadOption, match=rf"^option kafka\.{words}"):
        Options.read({**SERVERS, **{f"kafka.{name}": value for name, value in said.items()}}, Use.READ)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"compression.type": "zip"}, "compression.type=zip: .*gzip"),
        ({"acks": "2"}, "acks=2: "),
        ({"linger.msec": "5"}, r"linger.msec: .* did you mean linger.ms\?"),
        ({"partitioner.class": "robin"}, "partitioner.class: there is no partitioner called robin; there are "),
        ({"delivery.timeout.ms": "5"}, "delivery.timeout.ms=5: must be at least "),
        ({"enable.idempotence": "false"}, "enable.idempotence: exactly-once needs it"),
        ({"acks": "1"}, "enable.idempotence: .*acks=all"),
        ({"transactional.id": "mine"}, "transactional.id cannot be set here: .*transactionalIdPrefix"),
        ({"sasl.jaas.config": "secret", "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"},
         "sasl.jaas.config must name a login module"),
    ],
)  # fmt: skip
def test_settings_that_no_producer_takes_are_refused_before_there_are_tasks(
    said: dict[str, str], words: str
) -> None:
    with pytest.raises(BadOption, match=rf"^option kafka\.{words}"):
        Options.read(
            {**SERVERS, **{f"kafka.{name}": value for name, value in said.items()}}, Use.STREAM_WRITE
        )


def test_a_sink_that_may_write_twice_needs_no_idempotence() -> None:
    assert read(Use.BATCH_WRITE, kafka__acks="1").settings["acks"] == "1"
    assert read(Use.STREAM_WRITE, kafka__acks="1", guarantee="at-least-once").settings["acks"] == "1"
    with pytest.raises(BadOption, match="exactly-once needs it"):
        read(Use.BATCH_WRITE, kafka__acks="1", guarantee="exactly-once")


def test_settings_of_clients_that_a_query_does_not_have_are_let_pass() -> None:
    assert read(kafka__linger__ms="soon", kafka__group__id="g").settings["linger.ms"] == "soon"
    assert read(Use.STREAM_WRITE, kafka__isolation__level="odd").settings["isolation.level"] == "odd"


def test_a_source_that_sends_dead_letters_has_a_producer() -> None:
    with pytest.raises(BadOption, match=r"option kafka\.linger\.ms=soon: must be an integer"):
        read(kafka__linger__ms="soon", deadLetterTopic="dead")


def test_readers_of_committed_records_are_told_from_others() -> None:
    assert read(kafka__isolation__level=" read_committed").is_committed_only
    assert not read(kafka__isolation__level="read_uncommitted").is_committed_only
    assert not read().is_committed_only


def test_a_group_id_is_let_pass() -> None:
    assert read(kafka__group__id="g").settings["group.id"] == "g"


def test_a_cluster_has_to_be_named() -> None:
    with pytest.raises(BadOption, match=r"option kafka\.bootstrap\.servers is missing"):
        Options.read({"subscribe": "a"}, Use.BATCH_READ)


def test_options_travel_to_tasks() -> None:
    options = read(subscribe="a", subscribePattern="x.*")

    assert pickle.loads(pickle.dumps(options)) == options


def test_every_option_has_a_name_of_its_own_and_a_meaning() -> None:
    assert len(BY_NAME) == len(OPTIONS)
    assert all(option.meaning.endswith((".", "`.", ")")) for option in OPTIONS)
