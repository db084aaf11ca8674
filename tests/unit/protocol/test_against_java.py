"""Kafka's own serializers read what we write, and write the same bytes: every message, every version.

This does not detect two swapped fields of the same type; `test_against_kafka_json` does.
"""

from __future__ import annotations

from typing import Any

import pytest

from oracle import jars
from oracle.catalogue import (
    Message,
    declared_group_records,
    declared_messages,
    declared_records,
    declared_transaction_records,
    versions_of,
)
from oracle.java import Question, new_classpath, old_classpath, rewrite_all
from oracle.samples import sample
from oracle.schema import definitions, versions_in
from penstock.protocol.codec import codec
from penstock.protocol.declare import Kind, declaration_of

SEEDS = range(4)


def test_kafka_4_writes_the_bytes_that_we_write() -> None:
    known = (
        definitions(jars.new_clients(), "common/message")
        | definitions(jars.new_metadata(), "common/metadata")
        | definitions(jars.new_group_coordinator(), "common/message")
        | definitions(jars.new_transaction_coordinator(), "common/message")
    )
    every = versions_of(
        declared_messages() | declared_records() | declared_group_records() | declared_transaction_records()
    )

    _check([(cls, version) for cls, version in every if _knows(known, cls, version)], new_classpath())


def test_kafka_3_writes_the_bytes_that_we_write_in_versions_that_kafka_4_dropped() -> None:
    known = definitions(jars.new_clients(), "common/message")
    dropped = [
        (cls, version) for cls, version in versions_of(declared_messages()) if not _knows(known, cls, version)
    ]

    assert len(dropped) > 50, "Produce 0 to 2, Fetch 0 to 3, and so on"
    _check(dropped, old_classpath())


def _knows(kafka: dict[str, dict[str, Any]], cls: Message, version: int) -> bool:
    return cls.__name__ in kafka and version in versions_in(kafka[cls.__name__]["validVersions"])


def _check(versions: list[tuple[Message, int]], classpath: list[str]) -> None:
    cases = [(cls, version, seed) for cls, version in versions for seed in SEEDS]
    messages = [sample(cls, version, seed) for cls, version, seed in cases]
    ours = [
        codec(cls, version).encode(message)
        for (cls, version, _), message in zip(cases, messages, strict=True)
    ]
    questions = [
        Question(_java_class(case[0]), case[1], data) for case, data in zip(cases, ours, strict=True)
    ]

    answers = rewrite_all(questions, classpath=classpath)

    wrong = [
        f"sample({cls.__name__}, {version}, {seed}): ours {data.hex()}, Kafka's {_shown(answer)}"
        for (cls, version, seed), data, answer in zip(cases, ours, answers, strict=True)
        if answer != data
    ]
    if wrong:
        pytest.fail(f"{len(wrong)} of {len(cases)} differ:\n" + "\n".join(wrong[:10]))
    for (cls, version, _), data, message in zip(cases, ours, messages, strict=True):
        assert codec(cls, version).decode(data) == (message, len(data))


def _java_class(cls: Message) -> str:
    kind, name = declaration_of(cls).kind, cls.__name__
    if name in declared_group_records():
        return f"coordinator.group.generated.{name}"
    if name in declared_transaction_records():
        return f"coordinator.transaction.generated.{name}"
    if kind is Kind.RECORD:
        return f"common.metadata.{name}"
    if kind is Kind.MESSAGE and not name.endswith("Header"):
        return f"common.message.{name}"
    return f"common.message.{name}Data"


def _shown(answer: bytes | str) -> str:
    return answer if isinstance(answer, str) else answer.hex()
