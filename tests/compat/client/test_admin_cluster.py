"""Admin with three nodes of Apache Kafka: reassignments, leader elections, and a quorum of three."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.admin import new_name
from harness.kafka_cluster import KafkaCluster
from harness.waiting import wait_until
from penstock import Admin, TopicPartition, errors
from penstock.cli.main import main

ALL = [1, 2, 3]


@pytest.fixture
def admin(kafka_cluster: KafkaCluster) -> Iterator[Admin]:
    with Admin(kafka_cluster.bootstrap) as admin:
        yield admin


def test_a_topic_just_created_is_found_on_every_node(admin: Admin) -> None:
    for _ in range(5):
        name = new_name("made")
        admin.create_topic(name, 3, 2)

        assert len(admin.describe_topic(name).partitions) == 3
        assert len(admin.topic_offsets([name])) == 3


def test_partitions_are_reassigned_and_the_progress_is_shown(admin: Admin) -> None:
    topic = new_name("moved")
    admin.create_topic(topic, replicas=[[1, 2]])
    where = TopicPartition(topic, 0)
    wait_until(lambda: set(admin.describe_topic(topic).partitions[0].in_sync) == {1, 2}, "both are in sync")

    admin.reassign_partitions({where: [3, 1]})
    wait_until(lambda: not admin.list_reassignments([where]), "nothing moves any more")

    wait_until(lambda: admin.describe_topic(topic).partitions[0].replicas == (3, 1), "it has moved")
    with pytest.raises(errors.ItemsFailed) as failed:
        admin.reassign_partitions({where: None})
    assert isinstance(failed.value.failures[where], errors.NoReassignmentInProgress)
    with pytest.raises(errors.ItemsFailed) as unknown:
        admin.reassign_partitions({where: [1, 9]})
    assert isinstance(unknown.value.failures[where], errors.InvalidReplicaAssignment)


def test_the_preferred_leader_leads_again_after_an_election(admin: Admin) -> None:
    topic = new_name("elected")
    admin.create_topic(topic, replicas=[[1, 2]])
    where = TopicPartition(topic, 0)
    wait_until(lambda: set(admin.describe_topic(topic).partitions[0].in_sync) == {1, 2}, "both are in sync")
    admin.reassign_partitions(
        {where: [2, 1]}
    )  # the order changes, and with it the preferred leader; the leader stays
    wait_until(lambda: admin.describe_topic(topic).partitions[0].replicas == (2, 1), "the order has changed")

    assert admin.elect_leaders([where]) == {where: None}

    wait_until(lambda: admin.describe_topic(topic).partitions[0].leader == 2, "the preferred one leads")
    with pytest.raises(errors.ItemsFailed) as failed:
        admin.elect_leaders([where])
    assert isinstance(failed.value.failures[where], errors.ElectionNotNeeded)


def test_the_quorum_and_every_broker_are_described(admin: Admin) -> None:
    quorum = admin.describe_quorum()

    assert [voter.id for voter in quorum.voters] == ALL
    assert quorum.leader in ALL
    assert list(admin.api_versions()) == ALL
    assert list(admin.describe_log_dirs()) == ALL


def test_controllers_are_used_if_they_are_configured(
    kafka_cluster: KafkaCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    with Admin(bootstrap_controllers=kafka_cluster.controllers) as admin:
        assert [voter.id for voter in admin.describe_quorum().voters] == ALL
        assert [node.id for node in admin.describe_cluster().brokers] == ALL
        assert admin.describe_features().features["metadata.version"].level > 0

    where = ["--bootstrap-controller", kafka_cluster.controllers]
    assert main(["kafka-metadata-quorum", *where, "describe", "--status"]) == 0
    assert "LeaderId:" in capsys.readouterr().out


def test_the_commands_reassign_partitions_and_show_it(
    kafka_cluster: KafkaCluster,
    admin: Admin,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP_SERVERS", kafka_cluster.bootstrap)

    def run(line: str) -> str:
        capsys.readouterr()
        assert main(shlex.split(line)) == 0, line
        return capsys.readouterr().out

    topic = new_name("moved")
    admin.create_topic(topic, 3, 2)
    plan = tmp_path / "plan.json"
    admin.describe_topic(topic)
    plan.write_text(run(f"reassign propose {topic} --brokers 2,3"))

    run(f"reassign start {plan} --throttle 10000000")
    wait_until(
        lambda: all(each["is_done"] for each in json.loads(run(f"reassign status {plan} --json"))),
        "all have moved",
    )

    moved = [set(partition.replicas) for partition in admin.describe_topic(topic).partitions]
    assert moved == [{2, 3}, {2, 3}, {2, 3}]
    assert run("kafka-reassign-partitions --list") == "No partition reassignments found.\n"
    verified = run(f"kafka-reassign-partitions --verify --reassignment-json-file {plan}").splitlines()
    assert verified[:2] == [
        "Status of partition reassignment:",
        f"Reassignment of partition {topic}-0 is completed.",
    ]
    assert verified[-2:] == [
        "Clearing broker-level throttles on brokers 1,2,3",
        f"Clearing topic-level throttles on topic {topic}",
    ]
