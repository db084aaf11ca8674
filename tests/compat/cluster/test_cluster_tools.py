"""The tools of Apache Kafka 4.3.1 for clusters, run against three nodes with a dynamic quorum."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat.clients.java import JavaTools
from harness.admin import new_name
from harness.dynamic_cluster import DIRECTORY_IDS, DynamicCluster
from harness.penstock_cluster import CLUSTER_ID
from harness.waiting import wait_until

pytestmark = [pytest.mark.timeout(600), pytest.mark.penstock_only("runs a cluster of Penstock's nodes")]

TOOLS = "org.apache.kafka.tools."


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DynamicCluster]:
    cluster = DynamicCluster(tmp_path_factory.mktemp("dynamic"), fourth_roles="controller")
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()
    cluster.check_outputs()


class Tools:
    def __init__(self, tools: JavaTools, cluster: DynamicCluster) -> None:
        self._tools = tools
        self._cluster = cluster

    def run(self, name: str, *arguments: str) -> str:
        return self._run(name, "--bootstrap-server", self._cluster.nodes[2].bootstrap, *arguments)

    def run_on_controllers(self, name: str, *arguments: str) -> str:
        return self._run(name, "--bootstrap-controller", self._cluster.controllers, *arguments)

    def _run(self, name: str, option: str, address: str, *arguments: str) -> str:
        if name == "ClusterTool":  # its command must come first
            return self._tools.run(TOOLS + name, arguments[0], option, address, *arguments[1:])
        return self._tools.run(TOOLS + name, option, address, *arguments)

    def create(self, assignment: str) -> str:
        """A new topic; `assignment` has the replicas of each partition, such as `1:2,2:3`."""
        name = new_name("tools")
        self.run("TopicCommand", "--create", "--topic", name, "--replica-assignment", assignment)
        self._cluster.await_known(name)  # the next tool may ask another node
        return name


@pytest.fixture
def tools(java_tools: JavaTools, cluster: DynamicCluster) -> Tools:
    return Tools(java_tools, cluster)


def voters(tools: Tools) -> list[int]:
    status = tools.run("MetadataQuorumCommand", "describe", "--status")
    found = re.search(r"CurrentVoters:\s+(\[.*\])", status)
    assert found is not None, status
    return sorted(int(node_id) for node_id in re.findall(r'"id": (\d+)', found[1]))


def test_the_quorum_is_described_by_brokers_and_by_controllers(tools: Tools, cluster: DynamicCluster) -> None:
    status = tools.run("MetadataQuorumCommand", "describe", "--status")
    of_broker = tools.run("MetadataQuorumCommand", "describe", "--replication")
    of_controller = tools.run_on_controllers("MetadataQuorumCommand", "describe", "--replication")

    assert f"ClusterId:              {CLUSTER_ID}" in status
    assert re.search(r"LeaderId:\s+[123]\n", status)
    for output in (of_broker, of_controller):
        rows = [line.split() for line in output.splitlines()[1:]]
        assert sorted(int(row[0]) for row in rows) == [1, 2, 3]
        assert {row[0]: row[1] for row in rows} == {str(k): v for k, v in DIRECTORY_IDS.items()}
        assert sorted(row[-1] for row in rows) == ["Follower", "Follower", "Leader"]


def test_a_controller_is_added_to_the_quorum_and_removed(
    java_tools: JavaTools, tools: Tools, cluster: DynamicCluster
) -> None:
    cluster.fourth.start()
    wait_until(
        lambda: "Observer" in tools.run("MetadataQuorumCommand", "describe", "--replication"),
        "the new controller fetches as an observer",
    )

    tools.run_on_controllers(
        "MetadataQuorumCommand", "--command-config", str(cluster.fourth_properties), "add-controller"
    )
    assert voters(tools) == [1, 2, 3, 4]

    removal = ["--controller-id", "4", "--controller-directory-id", cluster.fourth.directory_id]
    tools.run("MetadataQuorumCommand", "remove-controller", *removal)
    assert voters(tools) == [1, 2, 3]
    assert (
        java_tools.try_run(
            TOOLS + "MetadataQuorumCommand",
            "--bootstrap-server",
            cluster.nodes[1].bootstrap,
            "remove-controller",
            *removal,
        ).status
        == 1
    )
    cluster.fourth.stop()


def test_partitions_are_reassigned_and_the_preferred_leaders_elected(tools: Tools, tmp_path: Path) -> None:
    topic = tools.create("1:2,2:3")
    plan = tmp_path / "plan.json"
    moves = [
        {"topic": topic, "partition": 0, "replicas": [3, 1]},
        {"topic": topic, "partition": 1, "replicas": [1, 2, 3]},
    ]
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))

    started = tools.run(
        "reassign.ReassignPartitionsCommand", "--reassignment-json-file", str(plan), "--execute"
    )
    assert "Successfully started partition reassignments" in started
    wait_until(
        lambda: (
            tools.run(
                "reassign.ReassignPartitionsCommand", "--reassignment-json-file", str(plan), "--verify"
            ).count("is completed.")
            == 2
        ),
        "both partitions have moved",
    )
    assert "No partition reassignments found" in tools.run("reassign.ReassignPartitionsCommand", "--list")

    election = ["--election-type", "preferred", "--all-topic-partitions"]
    tools.run("LeaderElectionCommand", *election)

    def are_elected() -> bool:
        described = tools.run("TopicCommand", "--describe", "--topic", topic)
        expected = (r"0\s+Leader: 3\s+Replicas: 3,1\s", r"1\s+Leader: 1\s+Replicas: 1,2,3\s")
        return all(re.search(f"Partition: {partition}", described) for partition in expected)

    wait_until(are_elected, "the preferred replicas lead")


def test_brokers_controllers_features_and_log_directories_are_listed(
    tools: Tools, cluster: DynamicCluster
) -> None:
    topic = tools.create("1:2")
    of_brokers = tools.run("ClusterTool", "list-endpoints", "--include-fenced-brokers")
    of_controllers = tools.run_on_controllers("ClusterTool", "list-endpoints")
    features = tools.run("FeatureCommand", "describe")
    directories = tools.run("LogDirsCommand", "--describe", "--topic-list", topic)

    assert [line.split()[0] for line in of_brokers.splitlines()[1:]] == ["1", "2", "3"]
    assert of_brokers.count("unfenced") == 3
    # A removed controller stays registered, so a fourth may be listed.
    assert [line.split()[0] for line in of_controllers.splitlines()[1:4]] == ["1", "2", "3"]
    assert f"Cluster ID: {CLUSTER_ID}" in tools.run("ClusterTool", "cluster-id")
    assert re.search(r"kraft\.version.*FinalizedVersionLevel: 1\b", features)
    assert re.search(r"metadata\.version.*FinalizedVersionLevel: 4\.3", features)
    found = json.loads(directories.splitlines()[-1])
    assert [
        broker["broker"]
        for broker in found["brokers"]
        if any(directory["partitions"] for directory in broker["logDirs"])
    ] == [1, 2]


def test_topics_are_filtered_by_their_health_and_a_dead_broker_is_unregistered(
    tools: Tools, cluster: DynamicCluster
) -> None:
    """Last, because it takes a node away and brings it back."""
    everywhere, elsewhere, only_there = tools.create("1:2:3"), tools.create("1:2"), tools.create("3")

    def topics(filter_option: str) -> set[str]:
        output = tools.run("TopicCommand", "--describe", filter_option)
        listed = set(re.findall(r"Topic: (\S+)\s+Partition: 0", output))
        return listed & {everywhere, elsewhere, only_there}

    cluster.kill(3)
    wait_until(lambda: topics("--unavailable-partitions") == {only_there}, "node 3 is fenced")
    # A tool may ask another node each time.
    for option, expected in {
        "--under-replicated-partitions": {everywhere, only_there},
        "--at-min-isr-partitions": {everywhere, elsewhere},
        "--under-min-isr-partitions": {only_there},
    }.items():
        wait_until(lambda option=option, expected=expected: topics(option) == expected, option)
    fenced = tools.run("ClusterTool", "list-endpoints", "--include-fenced-brokers")
    assert re.search(r"^3\s.*\sfenced", fenced, re.MULTILINE)
    assert len(tools.run("ClusterTool", "list-endpoints").splitlines()) == 3
    assert "Broker 3 is no longer registered" in tools.run("ClusterTool", "unregister", "--id", "3")
    cluster.restart(3)
    wait_until(lambda: topics("--under-replicated-partitions") == set(), "all are in sync", seconds=60)
