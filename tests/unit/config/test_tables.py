"""What holds for every row of every table."""

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


def test_no_name_stands_twice_in_a_table() -> None:
    assert len(BROKER_DYNAMIC) == len(BROKER) + 3


def test_no_name_stands_twice_in_a_table_of_clients() -> None:
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
        ):  # empty, which nobody may say
            continue
        text = setting.show(setting.default)
        assert text is not None
        assert setting.parse(text) == setting.default, setting.name
        assert type(setting.parse(text)) is type(setting.default), setting.name


def test_a_topics_synonyms_are_settings_of_the_broker() -> None:
    for name, synonyms in topic_table.BROKER_SYNONYMS.items():
        assert name in TOPIC
        assert all(synonym.name in BROKER for synonym in synonyms)


# Names that the code puts together, so that they stand nowhere as a whole.
BUILT_NAMES = re.compile(
    r"compression\.(gzip|lz4|zstd)\.level"
    r"|(offsets\.topic|transaction\.state\.log|share\.coordinator\.state\.topic)"
    r"\.(num\.partitions|replication\.factor|segment\.bytes|min\.isr)"
    r"|group\.(consumer|streams)\.(min|max)\.(session\.timeout|heartbeat\.interval|assignment\.interval)\.ms"
)


def test_what_is_said_to_be_in_force_is_read_somewhere() -> None:
    """A documented setting that nothing obeys is a lie."""
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
