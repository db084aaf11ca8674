"""The cluster at a glance."""

from __future__ import annotations

from penstock.cli.cluster_overview import overview
from penstock.client.admin.cluster import BrokerDescription, ClusterDescription
from penstock.client.admin.quorum import QuorumDescription, QuorumReplica
from penstock.client.admin.topics import PartitionDescription, TopicDescription


def broker(node_id: int, rack: str | None = None, *, is_fenced: bool = False) -> BrokerDescription:
    return BrokerDescription(id=node_id, host="h", port=9090 + node_id, rack=rack, is_fenced=is_fenced)


def partition(
    index: int, leader: int | None, replicas: tuple[int, ...], isr: tuple[int, ...]
) -> PartitionDescription:
    return PartitionDescription(index=index, leader=leader, leader_epoch=1, replicas=replicas, in_sync=isr)


def topic(name: str, *partitions: PartitionDescription) -> TopicDescription:
    return TopicDescription(name=name, topic_id=None, is_internal=False, partitions=partitions)


def voter(node_id: int, end: int) -> QuorumReplica:
    return QuorumReplica(
        id=node_id, directory_id=None, log_end_offset=end, last_fetch_ms=None, last_caught_up_ms=None
    )


def test_the_overview_counts_leaders_and_replicas_that_are_missing() -> None:
    found = overview(
        ClusterDescription(
            cluster_id="c", controller=1, brokers=(broker(1, "a"), broker(2, "b", is_fenced=True), broker(4))
        ),
        QuorumDescription(
            leader=1,
            leader_epoch=3,
            high_watermark=90,
            voters=(voter(1, 100), voter(2, 60), voter(3, 100)),
            observers=(voter(4, 99),),
        ),
        [
            topic("orders", partition(0, 1, (1, 2, 4), (1, 4)), partition(1, 4, (4, 1), (4, 1))),
            topic("lost", partition(0, None, (2,), (2,))),
        ],
        moving=2,
    )

    assert (found.partitions, found.under_replicated, found.offline, found.moving) == (3, 1, 1, 2)
    rows = {
        row.node: (row.state, row.controller, row.lag, row.leaders, row.replicas, row.out_of_sync)
        for row in found.nodes
    }
    assert rows == {
        1: ("alive", "leader", 0, 1, 2, 0),
        2: ("fenced", "voter", 40, 0, 2, 1),
        3: ("-", "voter", 0, 0, 0, 0),
        4: ("alive", None, 1, 1, 2, 0),
    }


def test_a_voter_whose_directory_is_gone_is_shown_as_lagging() -> None:
    """Its node is also an observer, with another directory. Its lag was shown, and the missing voter went unnoticed."""
    found = overview(
        ClusterDescription(cluster_id="c", controller=2, brokers=(broker(1), broker(2))),
        QuorumDescription(
            leader=2,
            leader_epoch=3,
            high_watermark=90,
            voters=(voter(1, -1), voter(2, 99)),
            observers=(voter(1, 99),),
        ),
        [],
        moving=0,
    )

    assert [(row.node, row.controller, row.lag) for row in found.nodes] == [
        (1, "voter", 100),
        (2, "leader", 0),
    ]
