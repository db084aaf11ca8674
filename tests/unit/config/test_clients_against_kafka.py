"""Compares the settings of clients with Apache Kafka's own classes: declarations, values, and combinations.

Intended differences are listed in a table here, with the reason.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from penstock.client.errors import BadConfiguration
from penstock.client.setting_values import JAVA_NAMES
from penstock.client.settings import AdminSettings, ClientSettings, ConsumerSettings, ProducerSettings
from penstock.config.declare import Setting
from penstock.config.errors import BadSetting
from penstock.config.tables.clients import ADMIN, CONSUMER, PRODUCER

TABLES: dict[str, Mapping[str, Setting]] = {"producer": PRODUCER, "consumer": CONSUMER, "admin": ADMIN}
KINDS: dict[str, type[ClientSettings]] = {
    "producer": ProducerSettings,
    "consumer": ConsumerSettings,
    "admin": AdminSettings,
}

NOT_IN_KAFKAS_TABLE = {
    "sasl.username": "librdkafka's; Kafka wants it in a login module's line",
    "sasl.password": "as above",
    "schema.registry.url": "read by serializers, to which Kafka hands what it does not know",
    "basic.auth.user.info": "as above",
}

OTHER_DEFAULTS = {
    "bootstrap.servers": "required by Kafka; a first program finds the broker beside it",
    "allow.auto.create.topics": "reading never makes a topic: a misspelled name would be an empty topic, and no error",
    "batch.size": "Java takes this much memory at once, ours grow; full batches are what makes a client fast",
    "receive.buffer.bytes": "a consumer's grows as the system sees fit: fixed at 64 KiB it is read in small pieces",
    "partition.assignment.strategy": "the same two, though Kafka shows them as Java shows a class",
}
# auto.offset.reset has Kafka's default, and is earliest where there is no group.

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
        "1.5",
        ".5",
        "true",
        "FALSE",
        "yes",
        "a",
        "a,b",
        "a,a",
        "a,,b",
        "0.24",
    ),
    *(
        "all",
        "gzip",
        "GZIP",
        "zstd",
        "none",
        "NONE",
        "rebootstrap",
        "Classic",
        "consumer",
        "ssl",
        "SASL_SSL",
        "debug",
    ),
    *("latest", "LATEST", "earliest", "by_duration:PT1H", "by_duration:P1DT2H3M4.5S", "by_duration:-PT1H"),
    *(
        "by_duration:",
        "by_duration:1h",
        "by_duration:PT",
        "by_duration:P",
        "read_committed",
        "READ_COMMITTED",
    ),
    *("explicit", "EXPLICIT", "record_limit", "RECORD_LIMIT", "INFO", "rs256", "use_all_dns_ips"),
)


class TestDeclarations:
    @pytest.mark.parametrize("table", TABLES)
    def test_names_types_and_importance_are_kafkas(self, kafka: Any, table: str) -> None:
        theirs = {
            name: (facts["type"], facts["importance"], facts["is_internal"])
            for name, facts in kafka.ask("declarations")[table].items()
        }

        ours = {name: (s.type.name, s.importance.name, s.is_internal) for name, s in _kafkas(table)}

        assert ours == theirs

    def test_defaults_are_kafkas_but_for_those_listed(self, kafka: Any) -> None:
        declared = kafka.ask("declarations")

        differing = {
            name
            for table in TABLES
            for name, setting in _kafkas(table)
            if setting.show(setting.default) != declared[table][name]["default"]
        }

        assert differing == set(OTHER_DEFAULTS)

    @pytest.mark.parametrize("table", TABLES)
    def test_the_same_texts_are_taken_and_shown_alike(self, kafka: Any, table: str) -> None:
        declared = kafka.ask("declarations")[table]
        differences = []
        for name, setting in _kafkas(table):
            if setting.type.name == "CLASS":  # whether there is such a Java class is no matter here
                continue
            for text in (*TEXTS, *_texts_round_bounds(declared[name]["validator"])):
                ours, theirs = _parse_here(setting, text), _parse_there(kafka, table, name, text)
                if ours != theirs:
                    differences.append((name, text, ours, theirs))

        assert differences == []


REFUSED = "refused"


def _kafkas(table: str) -> list[tuple[str, Setting]]:
    return [(name, s) for name, s in TABLES[table].items() if name not in NOT_IN_KAFKAS_TABLE]


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
    numbers = map(int, re.findall(r"(?<![\d.])-?[0-9]+(?![\d.]*\d)", validator or ""))
    return [str(number + step) for number in numbers for step in (-1, 0, 1)]


def _all_of(choices: dict[str, tuple[str | None, ...]]) -> Iterator[dict[str, str]]:
    """Every way to choose one of each, where None leaves the setting out."""
    for chosen in itertools.product(*choices.values()):
        yield {name: text for name, text in zip(choices, chosen, strict=True) if text is not None}


TOGETHER: dict[str, list[dict[str, str]]] = {
    "producer": [
        *_all_of(
            {
                "acks": (None, "all", "-1", "1", "0"),
                "retries": (None, "0", "3"),
                "max.in.flight.requests.per.connection": (None, "5", "6"),
                "enable.idempotence": (None, "true", "false"),
                "transactional.id": (None, "shop"),
            }
        ),
        *_all_of(
            {
                "linger.ms": (None, "0", "100000"),
                "request.timeout.ms": (None, "1000", "200000"),
                "delivery.timeout.ms": (None, "1000", "30004", "30005", "120000"),
            }
        ),
        *_all_of(
            {
                "transaction.two.phase.commit.enable": (None, "true"),
                "transaction.timeout.ms": (None, "60000"),
                "transactional.id": (None, "shop"),
            }
        ),
        *_all_of({"reconnect.backoff.ms": (None, "20"), "reconnect.backoff.max.ms": (None, "30", "10")}),
        {"bootstrap.servers": "127.0.0.1"},
        {"bootstrap.servers": "127.0.0.1:x"},
        {"bootstrap.servers": "127.0.0.1:9092,[::1]:9093"},
        {"partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner"},
    ],
    "consumer": [
        *_all_of(
            {
                "group.id": (None, "billing", "", " "),
                "enable.auto.commit": (None, "true", "false"),
                "group.protocol": (None, "classic", "consumer", "CONSUMER"),
            }
        ),
        *_all_of(
            {
                "group.id": ("billing",),
                "group.protocol": (None, "consumer"),
                "session.timeout.ms": (None, "3000"),
                "heartbeat.interval.ms": (None, "2999", "3000"),
                "partition.assignment.strategy": (
                    None,
                    "org.apache.kafka.clients.consumer.StickyAssignor",
                    "org.apache.kafka.clients.consumer.RangeAssignor,org.apache.kafka.clients.consumer.RoundRobinAssignor",
                ),
                "group.remote.assignor": (None, "range"),
            }
        ),
        {"group.id": "billing", "group.instance.id": "one"},
        {"group.id": "billing", "group.instance.id": "a b"},
        {"group.id": "billing", "group.instance.id": ".."},
        {"group.id": "billing", "group.instance.id": "x" * 250},
        *_all_of(
            {
                "group.id": ("billing",),
                "group.protocol": (None, "consumer"),
                "share.acknowledgement.mode": (None, "explicit"),
                "share.acquire.mode": (None, "record_limit"),
            }
        ),
    ],
    "admin": [
        *_all_of({"default.api.timeout.ms": (None, "1000", "60000"), "request.timeout.ms": (None, "70000")}),
        {"bootstrap.controllers": "127.0.0.1:9093"},
        {"bootstrap.controllers": "127.0.0.1:9093", "bootstrap.servers": "127.0.0.1:9092"},
    ],
}

# Values that depend on other settings. They are compared if both accept the settings.
FOLLOWING = {
    "producer": ("enable.idempotence", "acks", "reconnect.backoff.max.ms"),
    "consumer": ("enable.auto.commit", "partition.assignment.strategy", "session.timeout.ms"),
    "admin": ("bootstrap.controllers",),
}


class TestTogether:
    @pytest.mark.parametrize("table", TOGETHER)
    def test_the_same_combinations_are_accepted_and_have_the_same_meaning(
        self, kafka: Any, table: str
    ) -> None:
        differences = []
        for given in TOGETHER[table]:
            ours = _open_here(table, given)
            theirs = _open_there(kafka, table, given)
            if ours != theirs:
                differences.append((given, ours, theirs))

        assert differences == []


def _open_here(table: str, given: dict[str, str]) -> Any:
    try:
        settings = KINDS[table].of(given)
    except BadConfiguration:
        return REFUSED
    shown = {name: TABLES[table][name].show(settings.get(name)) for name in FOLLOWING[table]}
    if isinstance(settings, ProducerSettings):
        shown["acks"] = str(settings.acks)  # Kafka shows `all` as its number
    return shown


def _open_there(kafka: Any, table: str, given: dict[str, str]) -> Any:
    question = {"table": table, "settings": given, "servers": given.get("bootstrap.servers")}
    if not kafka.accepts("open_client", **question):
        return REFUSED
    values = kafka.ask("open_client", **question)
    return {name: _in_our_names(values[name]) for name in FOLLOWING[table]}


def _in_our_names(text: str) -> str:
    return ",".join(JAVA_NAMES.get(part.removeprefix("class "), part) for part in text.split(","))
