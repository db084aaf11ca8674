"""Our declarations agree with Kafka's definitions: fields, types, versions, nullability, tags, defaults.

The definitions are JSON in Kafka's jars: Kafka 4.3 for everything that it still has, Kafka 3.9 for the versions that
4.0 dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from oracle import jars
from oracle.catalogue import (
    Message,
    declared_group_records,
    declared_messages,
    declared_records,
    declared_transaction_records,
)
from oracle.schema import (
    Json,
    definitions,
    every_field,
    kafka_fields,
    our_fields,
    stable_versions,
    versions_in,
)
from penstock.protocol.declare import NEVER, FieldOptions, Kind, declaration_of
from penstock.protocol.errors import ErrorCode
from penstock.protocol.plan import Fixed, Plan, plan_message
from penstock.protocol.types import ZERO_UUID, WireType

MESSAGES = declared_messages()
METADATA_RECORDS = declared_records()
GROUP_RECORDS = declared_group_records()
TRANSACTION_RECORDS = declared_transaction_records()
RECORDS = METADATA_RECORDS | GROUP_RECORDS | TRANSACTION_RECORDS

RENAMED_MESSAGES = {"ListConfigResources": "ListClientMetricsResources"}
"""Messages that 3.9 calls by another name."""

RENAMED_FIELDS = {
    "VoteRequest": {
        "CandidateEpoch": "ReplicaEpoch",
        "CandidateId": "ReplicaId",
        "CandidateDirectoryId": "ReplicaDirectoryId",
    },
    "ListClientMetricsResourcesResponse": {
        "ClientMetricsResources": "ConfigResources",
        "Name": "ResourceName",
    },
}


@pytest.fixture(scope="session")
def new() -> dict[str, Json]:
    return definitions(jars.new_clients(), "common/message")


@pytest.fixture(scope="session")
def old() -> dict[str, Json]:
    found = dict(definitions(jars.old_clients(), "common/message"))
    for now, before in RENAMED_MESSAGES.items():
        for kind in ("Request", "Response"):
            found[now + kind] = _with_new_names(found.pop(before + kind))
    found["VoteRequest"] = _with_new_names(found["VoteRequest"])
    return found


@pytest.fixture(scope="session")
def records() -> dict[str, Json]:
    return metadata_definitions() | group_definitions() | transaction_definitions()


def metadata_definitions() -> dict[str, Json]:
    return definitions(jars.new_metadata(), "common/metadata")


def group_definitions() -> dict[str, Json]:
    return definitions(jars.new_group_coordinator(), "common/message")


def transaction_definitions() -> dict[str, Json]:
    return definitions(jars.new_transaction_coordinator(), "common/message")


def _with_new_names(definition: Json) -> Json:
    names = RENAMED_FIELDS.get(definition["name"], {})

    def renamed(fields: list[Json]) -> list[Json]:
        return [
            {**field, "name": names.get(field["name"], field["name"])}
            | ({"fields": renamed(field["fields"])} if "fields" in field else {})
            for field in fields
        ]

    return {**definition, "fields": renamed(definition["fields"])}


def test_every_message_of_kafka_is_declared_except_those_of_zookeeper(
    new: dict[str, Json], old: dict[str, Json]
) -> None:
    from_zookeeper = {
        f"{name}{kind}"
        for name in ("LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown")
        for kind in ("Request", "Response")
    }
    assert set(MESSAGES) == (set(new) | set(old)) - from_zookeeper


def test_every_metadata_record_of_kafka_is_declared() -> None:
    assert set(METADATA_RECORDS) == set(metadata_definitions())


def test_every_group_record_is_declared_except_those_of_share_groups() -> None:
    assert set(GROUP_RECORDS) == {name for name in group_definitions() if not name.startswith("ShareGroup")}


def test_every_record_of_transactions_is_declared() -> None:
    assert set(TRANSACTION_RECORDS) == set(transaction_definitions())


@pytest.mark.parametrize("name", MESSAGES)
def test_versions_reach_from_the_oldest_of_3_9_to_the_newest_of_4_3(
    name: str, new: dict[str, Json], old: dict[str, Json]
) -> None:
    declaration = declaration_of(MESSAGES[name])
    definition = new[name] if name in new else old[name]
    stable = [*stable_versions(old, name), *stable_versions(new, name)]

    assert (declaration.first_version, declaration.last_version) == (min(stable), max(stable))
    assert declaration.key == definition.get("apiKey")
    assert _flexible_versions(MESSAGES[name]) == _within(declaration.versions, definition["flexibleVersions"])


@pytest.mark.parametrize("name", RECORDS)
def test_records_have_the_type_and_the_versions_of_kafka(name: str, records: dict[str, Json]) -> None:
    declaration = declaration_of(RECORDS[name])
    definition = records[name]

    assert declaration.kind is Kind.RECORD
    assert declaration.key == definition["apiKey"]
    assert declaration.versions == versions_in(definition["validVersions"])
    assert _flexible_versions(RECORDS[name]) == _within(declaration.versions, definition["flexibleVersions"])


@pytest.mark.parametrize("name", MESSAGES)
def test_every_version_has_the_fields_of_kafka(name: str, new: dict[str, Json], old: dict[str, Json]) -> None:
    for version in declaration_of(MESSAGES[name]).versions:
        ours = our_fields(plan_message(MESSAGES[name], version))
        words = [kafka[name] for kafka in (new, old) if version in stable_versions(kafka, name)]
        assert words, f"neither Kafka has {name} v{version}"
        for definition in words:
            assert ours == kafka_fields(definition, version), f"{name} v{version}"


@pytest.mark.parametrize("name", RECORDS)
def test_every_version_of_a_record_has_the_fields_of_kafka(name: str, records: dict[str, Json]) -> None:
    for version in declaration_of(RECORDS[name]).versions:
        assert our_fields(plan_message(RECORDS[name], version)) == kafka_fields(records[name], version)


@pytest.mark.parametrize("name", MESSAGES)
def test_defaults_are_those_of_kafka(name: str, new: dict[str, Json], old: dict[str, Json]) -> None:
    fields: dict[str, Json] = {}
    for path, field in [*_fields_of(old, name), *_fields_of(new, name)]:
        # The newer Kafka decides, but each marks as ignorable only what some version of its own lacks.
        ignorable = [each.get("ignorable") in (True, "true") for each in (field, fields.get(path, {}))]
        fields[path] = {**field, "ignorable": any(ignorable)}
    _check_defaults(MESSAGES[name], fields)


@pytest.mark.parametrize("name", RECORDS)
def test_defaults_of_records_are_those_of_kafka(name: str, records: dict[str, Json]) -> None:
    _check_defaults(RECORDS[name], dict(every_field(records[name])))


@pytest.mark.parametrize("name", [*MESSAGES, *RECORDS])
def test_error_codes_are_declared_as_such(name: str) -> None:
    cls = (MESSAGES | RECORDS)[name]
    for version in declaration_of(cls).versions:
        for path, shape in _fixed_fields(plan_message(cls, version)):
            assert (shape.type is WireType.ERROR_CODE) == path.endswith("error_code"), path


def _fields_of(kafka: dict[str, Json], name: str) -> Iterator[tuple[str, Json]]:
    return every_field(kafka[name]) if name in kafka else iter(())


def _check_defaults(cls: Message, kafka: dict[str, Json]) -> None:
    for path, options in _every_option(cls):
        field = kafka[path]
        if not options.has_default:
            assert "default" not in field, f"{path} has a default in Kafka"
            continue
        default = options.make_default()
        if "default" not in field and default is None:
            # Our own rule: a nullable string is None where Kafka leaves it empty.
            assert field["type"] == "string", path
            assert "nullableVersions" in field, path
        else:
            assert _plain(default) == _kafka_default(field), path
        if options.since > 0 or options.until < NEVER:
            assert options.ignorable == field.get("ignorable", False), path


def _kafka_default(field: Json) -> object:
    kind, stated = field["type"], field.get("default")
    if stated == "null":  # JSON null means nothing to Kafka's generator: the type's default applies
        return None
    if kind.startswith("[]"):
        return []
    if kind == "bool":
        return str(stated).lower() == "true"
    if kind in ("string", "bytes", "records"):
        return stated or ("" if kind == "string" else b"")
    if kind == "uuid":
        return ZERO_UUID
    if kind == "float64":
        return float(stated or 0)
    if kind[0].islower():
        return int(str(stated or 0), 0)
    return {}


def _plain(default: object) -> object:
    """A default in the form of `_kafka_default`; the fields of a struct are compared one by one."""
    if isinstance(default, ErrorCode):
        return int(default)
    return {} if hasattr(default, "__declaration__") else default


def _flexible_versions(cls: Message) -> set[int]:
    declaration = declaration_of(cls)
    return {version for version in declaration.versions if declaration.is_flexible(version)}


def _within(versions: range, text: str) -> set[int]:
    return {version for version in versions if version in versions_in(text)}


def _every_option(cls: Message) -> Iterator[tuple[str, FieldOptions]]:
    """The options of all fields of all versions, each with its path, structs included."""
    found: dict[str, FieldOptions] = {}

    def walk(plan: Plan, path: str) -> None:
        for name, options in declaration_of(plan.cls).fields.items():
            found[f"{path}{name}"] = options
        for step in (*plan.steps, *plan.tagged):
            shape: Any = getattr(step.shape, "element", step.shape)
            if hasattr(shape, "plan"):
                walk(shape.plan, f"{path}{step.name}.")

    for version in declaration_of(cls).versions:
        walk(plan_message(cls, version), "")
    yield from found.items()


def _fixed_fields(plan: Plan, path: str = "") -> Iterator[tuple[str, Fixed]]:
    for step in (*plan.steps, *plan.tagged):
        here = f"{path}{step.name}"
        shape: Any = getattr(step.shape, "element", step.shape)
        if isinstance(shape, Fixed):
            yield here, shape
        elif hasattr(shape, "plan"):
            yield from _fixed_fields(shape.plan, f"{here}.")
