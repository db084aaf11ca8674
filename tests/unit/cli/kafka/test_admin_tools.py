"""How Kafka's admin tools interpret their flags, without a broker."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.cli import kafka
from penstock.cli.flags import UsageError
from penstock.cli.kafka import acls, configs, consumer_group_resets, consumer_groups, features, get_offsets
from penstock.cli.kafka.admin import matching, message_of
from penstock.cli.kafka.configs import Entity
from penstock.cli.kafka.tool import CommandFailed
from penstock.client import errors
from penstock.client.cluster import TopicPartition


def entities(*words: str) -> list[Entity]:
    return configs._entities(configs.TOOL.parse([*words, "--describe"]))


def test_entities_belong_to_types_by_their_order() -> None:
    assert entities("--entity-type", "topics", "--entity-name", "t") == [Entity("topics", "t")]
    assert entities("--topic", "t") == [Entity("topics", "t")]
    assert entities("--entity-type", "brokers") == [Entity("brokers", None)]
    assert entities("--broker-defaults") == [Entity("brokers", "")]
    assert entities(
        "--entity-type", "users", "--entity-default", "--entity-type", "clients", "--entity-name", "c"
    ) == [Entity("users", ""), Entity("clients", "c")]


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        ([], "At least one entity type must be specified"),
        (["--entity-type", "planets"], "Invalid entity type planets"),
        (["--topic", "a", "--group", "b"], "Only 'users' and 'clients'"),
        (["--topic", "a", "--entity-type", "topics"], "Duplicate entity type"),
    ],
)
def test_invalid_entities_are_rejected(words: list[str], refusal: str) -> None:
    with pytest.raises(UsageError, match=refusal):
        entities(*words)


def added(text: str) -> dict[str, str]:
    return configs._added(configs.TOOL.parse(["--alter", "--add-config", text]))


def test_commas_in_brackets_belong_to_a_value() -> None:
    assert added("a=1,b=[x,y],c=") == {"a": "1", "b": "x,y", "c": ""}
    assert added("SCRAM-SHA-256=[iterations=8192,password=p]") == {
        "SCRAM-SHA-256": "iterations=8192,password=p"
    }
    with pytest.raises(CommandFailed, match="key=val"):
        added("a")
    with pytest.raises(CommandFailed, match="Invalid character found for config key: a b"):
        added("a b=1")


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("PT1H", 3_600_000), ("P1DT1M", 86_460_000), ("PT0.5S", 500), ("p2d", 172_800_000)],
)
def test_durations_are_read_as_iso_8601_has_them(text: str, milliseconds: int) -> None:
    assert consumer_group_resets._duration_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "P", "PT", "1H", "PT1X"])
def test_an_invalid_duration_is_rejected(text: str) -> None:
    with pytest.raises(UsageError, match="cannot be parsed to a Duration"):
        consumer_group_resets._duration_ms(text)


def test_a_plan_of_a_reset_is_read_from_a_file_of_either_kind(tmp_path: Path) -> None:
    file = tmp_path / "plan.csv"
    file.write_text('orders,0,5\n"a,b",1,6\n')
    options = consumer_groups.TOOL.parse(["--reset-offsets", "--group", "g", "--from-file", str(file)])
    assert consumer_group_resets._read_file(options) == {
        "g": {TopicPartition("orders", 0): 5, TopicPartition("a,b", 1): 6}
    }
    file.write_text("h,orders,0,5\n")
    assert consumer_group_resets._read_file(options) == {"h": {TopicPartition("orders", 0): 5}}
    file.write_text("orders,zero,5\n")
    with pytest.raises(UsageError, match="is not topic,partition,offset"):
        consumer_group_resets._read_file(options)


def test_a_flag_may_stand_alone_or_have_a_value() -> None:
    alone = consumer_groups.TOOL.parse(["--list", "--state", "--type", "classic"])

    assert (alone.has("state"), alone.get("state"), alone.get("type")) == (True, None, "classic")


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["--topic", "or.*"], ["orders:0", "orders:1", "orders:2"]),
        (["--topic", "orders,pay", "--partitions", "1"], ["orders:1"]),
        (["--topic-partitions", "orders:1-"], ["orders:1", "orders:2"]),
        (["--topic-partitions", "orders:-1,pay:0"], ["orders:0", "pay:0"]),
        (["--topic-partitions", ":2"], ["orders:2"]),
    ],
)
def test_partitions_are_selected_by_patterns(words: list[str], meant: list[str]) -> None:
    is_meant = get_offsets._filter(get_offsets.TOOL.parse(words))
    there = [*(TopicPartition("orders", index) for index in range(3)), TopicPartition("pay", 0)]

    assert [f"{each.topic}:{each.partition}" for each in there if is_meant(each)] == meant


def test_releases_stand_for_levels_of_the_metadata() -> None:
    assert features._level_of("3.3-IV3") == 7
    assert features._level_of("4.3") == 30
    assert features._level_of("3.7") == 19
    assert features._shown("metadata.version", 30) == "4.3-IV0"
    assert features._shown("metadata.version", 99) == "99"
    assert features._shown("group.version", 1) == "1"
    assert features._levels_of("3.8") == {"metadata.version": 20}
    assert features._levels_of("4.0")["group.version"] == 1
    assert features._levels_of("4.3")["transaction.version"] == 2
    with pytest.raises(UsageError, match=r"Unknown metadata\.version 2\.0"):
        features._level_of("2.0")


def test_producer_and_consumer_stand_for_their_operations() -> None:
    words = [
        "--add",
        "--allow-principal",
        "User:a",
        "--producer",
        "--consumer",
        "--topic",
        "t",
        "--group",
        "g",
    ]

    entries = acls._entries(acls.TOOL.parse([*words, "--idempotent"]))

    assert {
        (kind.name, name): [acl.operation.name for acl in made] for (kind, name, _), made in entries.items()
    } == {
        ("TOPIC", "t"): ["WRITE", "DESCRIBE", "CREATE", "READ"],
        ("GROUP", "g"): ["READ"],
        ("CLUSTER", "kafka-cluster"): ["IDEMPOTENT_WRITE"],
    }


def test_names_are_matched_as_kafkas_tools_do() -> None:
    assert matching(["b", "a", "ab"], None) == ["a", "ab", "b"]
    assert matching(["b", "a", "ab"], " 'a, b' ") == ["a", "b"]
    with pytest.raises(UsageError, match="invalid regex"):
        matching(["a"], "(")


def test_error_messages_have_no_advice() -> None:
    assert message_of(errors.TopicAlreadyExists("it is there", about="t")) == "it is there"
    assert message_of(errors.TopicAlreadyExists(about="t")) == errors.TopicAlreadyExists.code.message
    group = errors.ItemsFailed.of(
        "do it", {"a": errors.TopicAlreadyExists("one"), "b": errors.InvalidConfig("two")}, {}
    )
    assert message_of(group) == "one; two"


@pytest.mark.parametrize(
    "line",
    [
        "--list --members --offsets",
        "--list --state Empty --offsets",
        "--delete --group g --members --state",
        "--describe --group g --execute --dry-run",
        "--list --to-earliest --to-latest",
    ],
)
def test_flags_of_another_action_of_consumer_groups_are_ignored(line: str) -> None:
    consumer_groups.TOOL.parse(line.split())


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--describe --group g --members --offsets", "Option [describe] takes at most one of these options"),
        ("--describe --members --offsets", "Option [describe] takes one of these options: [all-groups]"),
        ("--reset-offsets --group g --execute --dry-run", "only accepts one of [execute] and [dry-run]"),
        (
            "--reset-offsets --group g --to-latest --to-offset 3",
            'Option "[to-offset]" can\'t be used with option "[to-latest]"',
        ),
    ],
)
def test_flags_of_an_action_of_consumer_groups_exclude_each_other(line: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        consumer_groups.TOOL.parse(line.split())


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("kafka-features feature-dependencies", "kafka-features: error: argument --feature is required"),
        ("kafka-configs --alter", "At least one entity type must be specified"),
        ("kafka-configs --alter --topic t", "At least one of --add-config, --add-config-file, or --delete-"),
        ("kafka-configs --describe --topic t --add-config a=1", "Only one of --describe or --add-config"),
        (
            "kafka-configs --describe --topic t --bootstrap-server a --bootstrap-controller b",
            "Only one of --bootstrap-server or --bootstrap-controller can be specified.",
        ),
        (
            "kafka-consumer-perf-test --timeout 1",
            "Exactly one of the following arguments is required: [topic]",
        ),
        ("kafka-consumer-perf-test --topic t", 'Missing required argument "[num-records]"'),
        ("kafka-consumer-perf-test --topic t --num-records 0", 'Missing required argument "[num-records]"'),
        (
            "kafka-metadata-quorum remove-controller --controller-id 1 --controller-directory-id x",
            "Failed to parse --controller-directory-id: 'x' is not an id",
        ),
    ],
)
def test_a_tool_reports_the_first_mistake_without_a_broker(
    line: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name, *arguments = line.split()

    assert kafka.run(name, arguments) == 1
    assert capsys.readouterr().err.startswith(message)


def test_version_mapping_ignores_the_servers(capsys: pytest.CaptureFixture[str]) -> None:
    line = "version-mapping --bootstrap-server x --bootstrap-controller y"

    assert kafka.run("kafka-features", line.split()) == 0
    assert "metadata.version" in capsys.readouterr().out
