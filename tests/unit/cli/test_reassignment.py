"""Plans to move partitions: read, refused, proposed and written."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from penstock.cli.reassignment import BadPlan, propose, read_plan, read_topics, to_json
from penstock.client.admin.cluster import BrokerDescription
from penstock.client.admin.log_dirs import Replica
from penstock.client.cluster import TopicPartition

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)


def plan(*parts: dict[str, object], version: int = 1) -> str:
    return json.dumps({"version": version, "partitions": list(parts)})


def brokers(*ids: int, racks: str = "") -> list[BrokerDescription]:
    return [
        BrokerDescription(id=each, host="h", port=1, rack=rack or None)
        for each, rack in zip(ids, racks or [""] * len(ids), strict=True)
    ]


def test_a_plan_is_read_with_its_directories() -> None:
    text = plan(
        {"topic": "orders", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "/data"]},
        {"topic": "orders", "partition": 1, "replicas": [2]},
    )

    read = read_plan(text)

    assert read.replicas == {A: (1, 2), B: (2,)}
    assert read.directories == {Replica("orders", 0, 2): "/data"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no json", "not a valid JSON"),
        ("[]", "not a plan of version 1"),
        (plan(version=2), "not a plan of version 1"),
        (plan(), "cannot be empty"),
        (plan({"topic": "orders", "replicas": [1]}), "needs a topic, a partition and replicas"),
        (
            plan({"topic": "orders", "partition": 0, "replicas": ["x"]}),
            "needs a topic, a partition and replicas",
        ),
        (plan({"topic": "orders", "partition": 0, "replicas": []}), "cannot be empty: orders-0"),
        (plan({"topic": "orders", "partition": 0, "replicas": [1, 2, 1]}), "multiple entries for 1"),
        (
            plan(*[{"topic": "orders", "partition": 0, "replicas": [1]}] * 2),
            "duplicate topic partitions: orders-0",
        ),
        (
            plan({"topic": "orders", "partition": 0, "replicas": [1], "log_dirs": []}),
            "are different for orders-0",
        ),
    ],
)
def test_an_invalid_plan_is_rejected_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(BadPlan, match=message):
        read_plan(text)


def test_topics_to_move_are_read() -> None:
    assert read_topics('{"version": 1, "topics": [{"topic": "a"}, {"topic": "b"}]}') == ["a", "b"]
    with pytest.raises(BadPlan, match="needs a topic"):
        read_topics('{"topics": [{}]}')


def test_a_plan_is_written_as_kafkas_tool_writes_it() -> None:
    written = to_json({B: (2,), A: (1, 2)}, {Replica("orders", 0, 1): "/data"})

    assert written == (
        '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1,2],"log_dirs":["/data","any"]},'
        '{"topic":"orders","partition":1,"replicas":[2],"log_dirs":["any"]}]}'
    )
    assert read_plan(written).replicas == {A: (1, 2), B: (2,)}


def test_a_proposal_spreads_leaders_and_replicas_evenly() -> None:
    current = {TopicPartition("orders", index): (9, 8) for index in range(12)}

    proposed = propose(current, brokers(1, 2, 3))

    assert all(len(set(replicas)) == 2 for replicas in proposed.values())
    assert set(Counter(replicas[0] for replicas in proposed.values()).values()) == {4}
    assert set(Counter(broker for replicas in proposed.values() for broker in replicas).values()) == {8}


def test_a_proposal_puts_the_replicas_of_a_partition_into_different_racks() -> None:
    current = {TopicPartition("orders", index): (9, 8) for index in range(4)}
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}

    proposed = propose(current, brokers(1, 2, 3, 4, racks="aabb"))

    assert all({racks[broker] for broker in replicas} == {"a", "b"} for replicas in proposed.values())


def test_a_proposal_keeps_the_replication_factor_or_is_rejected() -> None:
    assert propose({A: (9,)}, brokers(4)) == {A: (4,)}
    with pytest.raises(BadPlan, match="has 2 replicas, but the list has only 1 registered broker"):
        propose({A: (1, 2)}, brokers(4))
