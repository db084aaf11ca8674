"""What Kafka's administering tools make of their flags, before any broker is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.kafka import acls, configs, consumer_group_resets, consumer_groups, features, get_offsets
from penstock.cli.kafka.configs import CommandFailed, Entity
from penstock.cli.kafka.flags import BadFlags
from penstock.cli.kafka.tools import matching, message_of
from penstock.client import errors
from penstock.client.cluster import TopicPartition


def entities(*words: str) -> list[Entity]:
    return configs._entities(configs.FLAGS.read(words), words)


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
def test_entities_that_do_not_fit_are_refused(words: list[str], refusal: str) -> None:
    with pytest.raises(BadFlags, match=refusal):
        entities(*words, "--describe")


def added(text: str) -> dict[str, str]:
    return configs._added(configs.FLAGS.read(["--add-config", text]))


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
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(BadFlags, match="cannot be parsed to a Duration"):
        consumer_group_resets._duration_ms(text)


def test_a_plan_of_a_reset_is_read_from_a_file_of_either_kind(tmp_path: Path) -> None:
    file = tmp_path / "plan.csv"
    file.write_text('orders,0,5\n"a,b",1,6\n')
    said = consumer_groups.FLAGS.read(["--group", "g", "--from-file", str(file)])
    assert consumer_group_resets._read_file(said) == {
        "g": {TopicPartition("orders", 0): 5, TopicPartition("a,b", 1): 6}
    }
    file.write_text("h,orders,0,5\n")
    assert consumer_group_resets._read_file(said) == {"h": {TopicPartition("orders", 0): 5}}
    file.write_text("orders,zero,5\n")
    with pytest.raises(BadFlags, match="is not topic,partition,offset"):
        consumer_group_resets._read_file(said)


def test_a_flag_may_stand_alone_or_have_a_value() -> None:
    alone = consumer_groups.FLAGS.read(["--list", "--state", "--type", "classic"])

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
def test_partitions_are_meant_by_patterns(words: list[str], meant: list[str]) -> None:
    is_meant = get_offsets._filter(get_offsets.FLAGS.read(words))
    there = [*(TopicPartition("orders", index) for index in range(3)), TopicPartition("pay", 0)]

    assert [f"{each.topic}:{each.partition}" for each in there if is_meant(each)] == meant


def test_releases_stand_for_levels_of_the_metadata() -> None:
    assert features._level_of("3.3-IV3") == 7
    assert features._level_of("4.3") == 30
    assert features._level_of("3.7") == 19
    assert features._shown("metadata.version", 30) == "4.3-IV0"
    assert features._shown("metadata.version", 99) == "99"
    assert features._shown("group.version", 1) == "1"
    assert features._levels_of("4.2") == {"metadata.version": 29}
    assert features._levels_of("4.3")["transaction.version"] == 2
    with pytest.raises(BadFlags, match=r"Unknown metadata\.version 2\.0"):
        features._level_of("2.0")


def test_what_a_producer_and_a_consumer_need_is_known() -> None:
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

    entries = acls._entries(acls.FLAGS.read([*words, "--idempotent"]))

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
    with pytest.raises(BadFlags, match="invalid regex"):
        matching(["a"], "(")


def test_errors_are_told_without_advice() -> None:
    assert message_of(errors.TopicAlreadyExists("it is there", about="t")) == "it is there"
    assert message_of(errors.TopicAlreadyExists(about="t")) == errors.TopicAlreadyExists.code.message
    group = errors.ItemsFailed.of(
        "do it", {"a": errors.TopicAlreadyExists("one"), "b": errors.InvalidConfig("two")}, {}
    )
    assert message_of(group) == "one; two"
