"""Rules for all rows of all tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import penstock
from penstock.config.declare import Setting
from penstock.config.tables import BROKER, BROKER_DYNAMIC, CLIENT_METRICS, GROUP, IP, TOPIC, USER
from penstock.config.tables import group as group_table
from penstock.config.tables import topic as topic_table
from penstock.config.tables.clients import ADMIN, CONSUMER, PRODUCER, admin, consumer, producer

ALL = [
    *BROKER_DYNAMIC.values(),
    *TOPIC.values(),
    *GROUP.values(),
    *CLIENT_METRICS.values(),
    *USER.values(),
    *IP.values(),
]
CLIENTS = [*PRODUCER.values(), *CONSUMER.values(), *ADMIN.values()]
NAMES = {setting.name for setting in ALL + CLIENTS}


def test_no_name_occurs_twice_in_a_table() -> None:
    assert len(BROKER_DYNAMIC) == len(BROKER) + 3


def test_no_name_occurs_twice_in_a_client_table() -> None:
    for module, table in ((producer, PRODUCER), (consumer, CONSUMER), (admin, ADMIN)):
        assert len(table) == len(module.SETTINGS)


@pytest.mark.parametrize(
    "setting", {s.doc: s for s in ALL + CLIENTS}.values(), ids=lambda setting: setting.name
)
def test_a_setting_is_documented_in_sentences(setting: Setting) -> None:
    assert re.fullmatch(r"[A-Z`].*\.", setting.doc), setting.doc
    assert "  " not in setting.doc
    assert "<" not in setting.doc.replace("<listener>", "").replace("<mechanism>", "").replace(
        "<setting>", ""
    )


def test_documentation_speaks_of_settings_that_exist() -> None:
    mentioned = {
        name for setting in ALL + CLIENTS for name in re.findall(r"`([a-z]+(?:\.[a-z.]+)+)`", setting.doc)
    }

    assert mentioned - NAMES == set()


def test_a_default_is_of_its_type_and_obeys_its_rule() -> None:
    for setting in ALL + CLIENTS:
        if (
            setting.default is None or setting.name == "controller.listener.names"
        ):  # empty, which is not allowed as a value
            continue
        text = setting.show(setting.default)
        assert text is not None
        assert setting.parse(text) == setting.default, setting.name
        assert type(setting.parse(text)) is type(setting.default), setting.name


def test_a_topics_synonyms_are_settings_of_the_broker() -> None:
    for name, synonyms in topic_table.BROKER_SYNONYMS.items():
        assert name in TOPIC
        assert all(synonym.name in BROKER for synonym in synonyms)


# Names that the code composes, so that they are not found as a whole.
BUILT_NAMES = re.compile(
    r"compression\.(gzip|lz4|zstd)\.level"
    r"|(offsets\.topic|transaction\.state\.log|share\.coordinator\.state\.topic)"
    r"\.(num\.partitions|replication\.factor|segment\.bytes|min\.isr)"
    r"|group\.(consumer|streams)\.(min|max)\.(session\.timeout|heartbeat\.interval|assignment\.interval)\.ms"
)


def test_supported_settings_are_read_somewhere() -> None:
    """A setting that nothing reads must not be documented as supported."""
    package = Path(penstock.__file__).parent
    sources = [path for path in package.rglob("*.py") if package / "config" / "tables" not in path.parents]
    code = "\n".join(path.read_text() for path in sources)
    synonyms = {synonym.name for each in topic_table.BROKER_SYNONYMS.values() for synonym in each}
    synonyms.update(group_table.BROKER_SYNONYMS.values())

    unread = [
        setting.name
        for setting in (*BROKER_DYNAMIC.values(), *TOPIC.values(), *GROUP.values())
        if setting.applies
        and f'"{setting.name}"' not in code
        and setting.name not in synonyms
        and not BUILT_NAMES.fullmatch(setting.name)
    ]

    assert unread == []


@pytest.mark.parametrize("table", [PRODUCER, CONSUMER, ADMIN], ids=["producer", "consumer", "admin"])
def test_supported_client_settings_are_read_by_clients(table: dict[str, Setting]) -> None:
    folder = Path(penstock.__file__).parent / "client"
    names_only = {"option_hints.py", "options.py", "setting_values.py"}
    assert names_only <= {path.name for path in folder.rglob("*.py")}
    sources = {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*.py")
        if path.name not in names_only
    }
    code = "\n".join(sources.values())
    work = code.replace(sources["setting_checks.py"], "")  # a setting that is only checked has no effect yet

    unread = [
        name
        for name, setting in table.items()
        if setting.applies and f'"{name}"' not in code and not BUILT_NAMES.fullmatch(name)
    ]
    read = [name for name, setting in table.items() if not setting.applies and f'"{name}"' in work]

    assert (unread, read) == ([], [])


# Settings that programs use: none of them may be ignored.
EVERYDAY = {
    "producer": """
        acks batch.size bootstrap.servers buffer.memory client.dns.lookup client.id compression.type
        connections.max.idle.ms delivery.timeout.ms enable.idempotence interceptor.classes key.serializer linger.ms
        max.in.flight.requests.per.connection max.request.size partitioner.class receive.buffer.bytes
        request.timeout.ms retries security.protocol send.buffer.bytes transactional.id value.serializer
        """,
    "consumer": """
        allow.auto.create.topics auto.offset.reset bootstrap.servers client.dns.lookup client.id
        connections.max.idle.ms default.api.timeout.ms enable.auto.commit fetch.max.wait.ms fetch.min.bytes group.id
        group.instance.id group.protocol heartbeat.interval.ms interceptor.classes isolation.level key.deserializer
        max.partition.fetch.bytes max.poll.interval.ms max.poll.records partition.assignment.strategy
        receive.buffer.bytes request.timeout.ms security.protocol send.buffer.bytes session.timeout.ms
        value.deserializer
        """,
    "admin": "bootstrap.servers client.id default.api.timeout.ms request.timeout.ms retries security.protocol",
}


@pytest.mark.parametrize("kind", EVERYDAY)
def test_everyday_settings_of_clients_are_in_force(kind: str) -> None:
    table = {"producer": PRODUCER, "consumer": CONSUMER, "admin": ADMIN}[kind]

    assert [name for name in EVERYDAY[kind].split() if not table[name].applies] == []
