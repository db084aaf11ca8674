"""Clusters on one host: ports, roles, directories, and what a later start may change."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.config.broker import BrokerSettings
from penstock.node.local_layout import CLUSTER_FILE, LayoutRefused, LocalLayout, lock, plan, write
from penstock.runtime.disk import RealDisk
from penstock.storage.meta_properties import read_meta_properties


def settings_of(layout: LocalLayout, node_id: int) -> BrokerSettings:
    """As the node reads them from its file."""
    from penstock.cli.serve import read_settings

    return read_settings(str(layout.nodes[node_id - 1].properties_file), ())


def test_nodes_have_consecutive_ports_and_their_own_directories(tmp_path: Path) -> None:
    layout = plan(tmp_path, count=3, port=9092)
    write(layout)

    assert layout.bootstrap_servers == "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"
    for node_id in (1, 2, 3):
        settings = settings_of(layout, node_id)
        assert settings.node_id == node_id
        assert settings.roles == {"broker", "controller"}
        assert settings.log_dirs == (str(tmp_path / f"node-{node_id}"),)
        assert [str(each) for each in settings.listeners] == [
            f"PLAINTEXT://127.0.0.1:{9091 + node_id}",
            f"CONTROLLER://127.0.0.1:{9191 + node_id}",
        ]
        assert settings.get("controller.quorum.voters") == (
            "1@127.0.0.1:9192",
            "2@127.0.0.1:9193",
            "3@127.0.0.1:9194",
        )


@pytest.mark.parametrize(
    ("count", "controllers"), [(1, (1,)), (2, (1,)), (3, (1, 2, 3)), (4, (1, 2, 3)), (7, (1, 2, 3))]
)
def test_a_quorum_has_one_or_three_controllers(
    tmp_path: Path, count: int, controllers: tuple[int, ...]
) -> None:
    layout = plan(tmp_path, count=count, port=9092)

    assert layout.controllers == controllers
    assert [node.node_id for node in layout.nodes if node.controller_port] == list(controllers)


def test_all_directories_belong_to_one_cluster_also_after_a_restart(tmp_path: Path) -> None:
    first = plan(tmp_path, count=3, port=9092)
    write(first)
    again = plan(tmp_path, count=3, port=9092)
    write(again)

    identities = [read_meta_properties(RealDisk(), str(tmp_path / f"node-{each}")) for each in (1, 2, 3)]
    assert {each.cluster_id for each in identities if each} == {first.cluster_id} == {again.cluster_id}
    assert [each.node_id for each in identities if each] == [1, 2, 3]


def test_a_start_that_was_interrupted_is_completed_by_the_next(tmp_path: Path) -> None:
    first = plan(tmp_path, count=3, port=9092)
    write(first)
    (tmp_path / "node-3" / "meta.properties").unlink()

    write(plan(tmp_path, count=3, port=9092))

    identity = read_meta_properties(RealDisk(), str(tmp_path / "node-3"))
    assert identity is not None
    assert identity.cluster_id == first.cluster_id


def test_a_later_start_may_use_other_ports_and_add_brokers(tmp_path: Path) -> None:
    write(plan(tmp_path, count=3, port=9092))
    layout = plan(tmp_path, count=4, port=19092)
    write(layout)

    assert layout.controllers == (1, 2, 3)
    assert settings_of(layout, 4).roles == {"broker"}
    assert settings_of(layout, 1).get("controller.quorum.voters")[0] == "1@127.0.0.1:19192"


def test_a_cluster_keeps_its_single_controller_when_it_grows(tmp_path: Path) -> None:
    """Static voters cannot be changed: node 2 and 3 would form a quorum without the metadata of node 1."""
    write(plan(tmp_path, count=2, port=9092))

    assert plan(tmp_path, count=3, port=9092).controllers == (1,)


def test_a_start_with_fewer_nodes_is_refused(tmp_path: Path) -> None:
    write(plan(tmp_path, count=3, port=9092))

    with pytest.raises(LayoutRefused, match="start it with --nodes 3"):
        plan(tmp_path, count=2, port=9092)


@pytest.mark.parametrize(("count", "replicas", "min_isr"), [(1, 1, 1), (2, 2, 1), (3, 3, 2), (5, 3, 2)])
def test_topics_survive_the_loss_of_a_node_by_default(
    tmp_path: Path, count: int, replicas: int, min_isr: int
) -> None:
    layout = plan(tmp_path, count=count, port=9092)
    write(layout)

    settings = settings_of(layout, 1)
    assert settings.get("default.replication.factor") == replicas
    assert settings.get("min.insync.replicas") == min_isr

    chosen = plan(tmp_path, count=count, port=9092, settings={"default.replication.factor": "1"})
    assert chosen.nodes[0].settings["default.replication.factor"] == "1"


def test_settings_apply_to_all_nodes_unless_they_differ_between_nodes(tmp_path: Path) -> None:
    layout = plan(tmp_path, count=3, port=9092, settings={"num.partitions": "6", "broker.rack": "a"})
    write(layout)

    assert settings_of(layout, 2).get("num.partitions") == 6
    assert settings_of(layout, 2).get("broker.rack") == "a"
    with pytest.raises(LayoutRefused, match=r"node\.id differs between the nodes"):
        plan(tmp_path, count=3, port=9092, settings={"node.id": "4"})


def test_all_nodes_of_a_host_are_one_rack(tmp_path: Path) -> None:
    """If nodes of another host join, the replicas of a partition are spread over both hosts."""
    layout = plan(tmp_path, count=3, port=9092)

    (rack,) = {node.settings["broker.rack"] for node in layout.nodes}
    assert rack


def test_values_survive_the_properties_format(tmp_path: Path) -> None:
    layout = plan(tmp_path, count=1, port=9092, settings={"broker.rack": "a\\b = c"})
    write(layout)

    assert settings_of(layout, 1).get("broker.rack") == "a\\b = c"


def test_a_cluster_is_run_by_one_process_at_a_time(tmp_path: Path) -> None:
    held = lock(tmp_path / "new")
    with pytest.raises(LayoutRefused, match=r"is running already: stop that `penstock serve --nodes` first"):
        lock(tmp_path / "new")

    held.release()

    lock(tmp_path / "new").release()


def test_the_directory_of_a_single_node_is_refused(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\n")

    with pytest.raises(LayoutRefused, match="log directory of a single node"):
        plan(tmp_path, count=3, port=9092)


def test_a_damaged_cluster_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / CLUSTER_FILE).write_text("cluster.id=x\nnodes=three\ncontrollers=1\n")

    with pytest.raises(LayoutRefused, match="is damaged"):
        plan(tmp_path, count=3, port=9092)


@pytest.mark.parametrize(("count", "port"), [(0, 9092), (101, 9092), (3, 0), (3, 65_500)])
def test_impossible_numbers_are_refused(tmp_path: Path, count: int, port: int) -> None:
    with pytest.raises(LayoutRefused, match=r"must be between|the last port"):
        plan(tmp_path, count=count, port=port)
