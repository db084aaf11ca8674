"""Changes of partitions that follow from a change of brokers: fencing, unfencing, shutdown, failed directories."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from penstock.controller.broker_index import PartitionKey
from penstock.controller.elections import Change, Election, Electorate, change_partition
from penstock.controller.placement import default_directory
from penstock.controller.state import ControllerState
from penstock.metadata.directories import is_online
from penstock.metadata.features import ELIGIBLE_LEADERS
from penstock.metadata.image import MetadataImage, PartitionImage, TopicImage
from penstock.metadata.records import PartitionChangeRecord
from penstock.metadata.resources import topic_resource
from penstock.protocol.types import Uuid

MIN_ISR = "min.insync.replicas"
UNCLEAN_ELECTION = "unclean.leader.election.enable"


def has_eligible_leaders(image: MetadataImage) -> bool:
    """Whether the cluster keeps eligible leader replicas (KIP-966)."""
    return bool(image.features.get(ELIGIBLE_LEADERS))


class LeaderRules:
    """Who may lead which partition, for one decision. Settings of a topic are read once."""

    def __init__(
        self,
        state: ControllerState,
        *,
        added: int | None = None,
        excluded: Collection[int] = (),
        offline: Collection[Uuid] = (),
    ) -> None:
        """`added` is a broker that this decision unfences; `excluded` brokers must not lead after it, as those that are
        being fenced. `offline` are log directories that failed."""
        self._image = state.image
        self._settings = state.settings
        self.has_eligible_leaders = has_eligible_leaders(state.image)
        self._directories: dict[int, frozenset[Uuid]] = {
            node_id: frozenset(broker.directories).difference(offline)
            for node_id, broker in state.image.brokers.items()
            if (broker.is_active or (node_id == added and not broker.in_controlled_shutdown))
            and node_id not in excluded
            and not state.sessions.is_being_fenced(node_id)
        }
        """The online log directories of the brokers that may lead."""
        self._topics: dict[str, tuple[int, Election]] = {}

    def electorate(
        self, topic: TopicImage, partition: PartitionImage, *, election: Election | None = None
    ) -> Electorate:
        """`election` is by default ONLINE, or UNCLEAN where the topic allows it."""
        min_isr, default_election = self._of_topic(topic)
        return Electorate(
            is_acceptable=lambda node_id: self.is_acceptable(partition, node_id),
            min_isr=min_isr,
            has_eligible_leaders=self.has_eligible_leaders,
            election=default_election if election is None else election,
        )

    def is_acceptable(self, partition: PartitionImage, node_id: int) -> bool:
        """Whether the broker is active, and the log directory of its replica online."""
        online = self._directories.get(node_id)
        if online is None or node_id not in partition.replicas:
            return False
        return is_online(partition.directories[partition.replicas.index(node_id)], online)

    def has_candidate(self, partition: PartitionImage) -> bool:
        """Whether the partition has no leader, but a replica that is alive."""
        return not partition.has_leader and any(
            self.is_acceptable(partition, node_id) for node_id in partition.replicas
        )

    def default_directory(self, node_id: int) -> Uuid:
        return default_directory(self._image.brokers[node_id])

    def allows_unclean_election(self, topic: TopicImage) -> bool:
        return self._of_topic(topic)[1] is Election.UNCLEAN

    def _of_topic(self, topic: TopicImage) -> tuple[int, Election]:
        found = self._topics.get(topic.name)
        if found is None:
            own = self._image.settings_of(topic_resource(topic.name))
            min_isr = int(own[MIN_ISR]) if MIN_ISR in own else self._settings.get(MIN_ISR)
            is_unclean = self._settings.get(UNCLEAN_ELECTION)
            if UNCLEAN_ELECTION in own:
                is_unclean = own[UNCLEAN_ELECTION].strip().lower() == "true"
            found = self._topics[topic.name] = (
                min(min_isr, len(topic.partitions[0].replicas)),
                Election.UNCLEAN if is_unclean else Election.ONLINE,
            )
        return found


def partition_changes(
    state: ControllerState,
    keys: Iterable[PartitionKey],
    rules: LeaderRules,
    *,
    leaving: int | None = None,
    unclean_shutdown: int | None = None,
) -> list[PartitionChangeRecord]:
    """Elect leaders of the partitions.

    The broker `leaving` is removed from the ISR, and may stay eligible. The broker `unclean_shutdown` may have lost
    records: it is removed from the ISR and from the eligible leader replicas.
    """
    topics = state.image.topics
    records = []
    removed = (leaving, unclean_shutdown)
    unclean = () if unclean_shutdown is None else (unclean_shutdown,)
    for topic_id, index in keys:
        topic = topics.with_id(topic_id)
        assert topic is not None, "the index follows the image"
        partition = topic.partitions[index]
        change = Change(
            isr=[node_id for node_id in partition.isr if node_id not in removed],
            unclean_shutdown=unclean,
            default_directory=rules.default_directory,
        )
        record = change_partition(
            partition, topic_id, index, change=change, electorate=rules.electorate(topic, partition)
        )
        if record is not None:
            records.append(record)
    return records
