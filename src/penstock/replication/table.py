"""The partitions of this node, kept up to date with the cluster's metadata.

`apply` is called for every committed change, in order: it creates and deletes logs, makes leaders and followers, and
applies changed settings. Handlers only look partitions up. When a log directory fails, only its partitions go offline.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from penstock.metadata.delta import MetadataDelta
from penstock.metadata.directories import LOST, UNKNOWN, is_reserved
from penstock.metadata.errors import Refused
from penstock.metadata.image import EMPTY_IMAGE, NO_LEADER, MetadataImage, PartitionImage, TopicImage
from penstock.metadata.names import METADATA_TOPIC
from penstock.metadata.resources import ResourceType, topic_resource
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Uuid, uuid_text
from penstock.replication.isr import IsrContext
from penstock.replication.partition import Partition
from penstock.replication.quota import ThrottledReplicas
from penstock.replication.validation import ProduceRules, SettingsSource
from penstock.storage.errors import StorageError
from penstock.storage.settings import LogSettings
from penstock.storage.store import LogStore

logger = logging.getLogger(__name__)

TopicSettingsOf = Callable[[MetadataImage, str], SettingsSource]
"""One topic's settings in an image: its overrides over the broker's."""

Settings = tuple[LogSettings, ProduceRules, ThrottledReplicas]

NOTHING_HELD: dict[int, Partition] = {}


class PartitionTable:
    def __init__(
        self,
        *,
        node_id: int,
        logs: LogStore,
        topic_settings: TopicSettingsOf,
        isr_context: IsrContext | None = None,
    ) -> None:
        """Without `isr_context`, ISRs change only with the metadata."""
        self.node_id = node_id
        self.image = EMPTY_IMAGE
        """The metadata that was last applied."""
        self._logs = logs
        self._topic_settings = topic_settings
        self._isr_context = isr_context
        self._by_name: dict[str, dict[int, Partition]] = {}
        self._by_id: dict[Uuid, dict[int, Partition]] = {}
        self._offline: set[tuple[str, int]] = set()
        """Replicas of this node whose log could not be created or opened."""
        self._defaults: Settings | None = None
        """The settings of topics without overrides; most topics have none, and there may be thousands."""
        self._latest: tuple[str, Settings] | None = None
        """Name and settings of the topic with overrides that was read last: its partitions come one after the other."""

    # -- looking up

    def get(self, topic: str, index: int) -> Partition | None:
        """The local replica, whatever its role, or None."""
        return self._by_name.get(topic, NOTHING_HELD).get(index)

    def get_by_id(self, topic_id: Uuid, index: int) -> Partition | None:
        return self._by_id.get(topic_id, NOTHING_HELD).get(index)

    def find(self, topic: str, index: int) -> Partition:
        """The local replica, or an error that tells the client what to do."""
        partition = self._by_name.get(topic, NOTHING_HELD).get(index)
        if partition is None:
            raise self._absence(self.image.topics.get(topic), topic, index)
        return partition

    def find_by_id(self, topic_id: Uuid, index: int) -> Partition:
        partition = self._by_id.get(topic_id, NOTHING_HELD).get(index)
        if partition is None:
            topic = self.image.topics.with_id(topic_id)
            if topic is None:
                raise Refused(
                    ErrorCode.UNKNOWN_TOPIC_ID,
                    f"no topic has the id {uuid_text(topic_id)}; it may have been deleted",
                )
            raise self._absence(topic, topic.name, index)
        return partition

    def all(self) -> Iterator[Partition]:
        for partitions in self._by_name.values():
            yield from partitions.values()

    def offline(self) -> set[tuple[Uuid, int]]:
        """Topic ids and indexes of the partitions whose replica here is in a failed log directory."""
        found = {(partition.topic_id, partition.index) for partition in self.all() if partition.is_offline}
        for name, index in self._offline:
            topic = self.image.topics.get(name)
            if topic is not None:
                found.add((topic.topic_id, index))
        return found

    def is_offline(self, topic: TopicImage, index: int) -> bool:
        """Whether this node has a replica in a failed log directory."""
        partition = self.get_by_id(topic.topic_id, index)
        return (topic.name, index) in self._offline if partition is None else partition.is_offline

    def visible_partitions(self, topic: TopicImage) -> Sequence[PartitionImage]:
        """A topic's partitions as clients see them: one whose log directory failed under this node has no leader,
        whatever the metadata says."""
        if not self._offline and all(directory.is_online for directory in self._logs.directories):
            return topic.partitions
        held = self._by_id.get(topic.topic_id, NOTHING_HELD)
        return [
            self._without_this_node(partition)
            if (topic.name, index) in self._offline or (index in held and held[index].is_offline)
            else partition
            for index, partition in enumerate(topic.partitions)
        ]

    def _without_this_node(self, partition: PartitionImage) -> PartitionImage:
        return replace(
            partition,
            leader=NO_LEADER if partition.leader == self.node_id else partition.leader,
            isr=tuple(node_id for node_id in partition.isr if node_id != self.node_id),
            directories=tuple(
                LOST if node_id == self.node_id else directory_id
                for node_id, directory_id in zip(partition.replicas, partition.directories, strict=True)
            ),
        )

    def _absence(self, topic: TopicImage | None, name: str, index: int) -> Refused:
        if topic is None or not 0 <= index < len(topic.partitions):
            return Refused(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the partition {name}-{index} does not exist"
            )
        if (name, index) in self._offline:
            return Refused(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory of {name}-{index} is offline")
        # On another broker: the client's metadata is old, and this error makes it refresh.
        return Refused(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"broker {self.node_id} has no replica of {name}-{index}; its leader is {topic.partitions[index].leader}",
        )

    # -- following the metadata

    def apply(self, delta: MetadataDelta) -> None:
        """Apply one change of the metadata. The first is the whole metadata when the node started."""
        is_start = delta.before is EMPTY_IMAGE
        self.image = delta.image
        self._defaults = self._latest = None
        # Deletions first: a new topic may have the name of one that was deleted in the same change.
        for topic_id, change in delta.topics.items():
            if change.after is None and change.before is not None:
                self._delete_topic(change.before, topic_id)
        # Settings before partitions: a larger `min.insync.replicas` must hold before the ISR shrinks in the same delta.
        # Otherwise the leader could acknowledge records that an eligible leader replica lacks (KIP-966).
        self._renew_settings(delta)
        for change in delta.topics.values():
            if change.after is not None:
                known = change.before.partitions if change.before is not None else ()
                for index in change.changed_partitions:
                    was_here = index < len(known) and self.node_id in known[index].replicas
                    self._apply_partition(change.after, index, is_new=not was_here and not is_start)

    def remove_strays(self) -> None:
        """Mark logs that no partition of this node claims as stray; once, after the metadata was read at start."""
        for stray in list(self._logs.all()):
            if stray.topic == METADATA_TOPIC:
                continue  # the quorum's own log, which no record assigns
            partition = self.get(stray.topic, stray.partition)
            if partition is None or partition.topic_id != stray.topic_id:
                logger.warning(
                    "%s-%d is not assigned to this node; marking it as stray", stray.topic, stray.partition
                )
                self._logs.mark_stray(stray.topic, stray.partition)

    def close(self) -> None:
        """Fail all delayed requests; the store closes the logs."""
        for partition in self.all():
            partition.stop(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _apply_partition(self, topic: TopicImage, index: int, *, is_new: bool) -> None:
        """Create, change or delete the local replica as the metadata says."""
        state = topic.partitions[index]
        partition = self.get_by_id(topic.topic_id, index)
        if self.node_id not in state.replicas:
            self._offline.discard((topic.name, index))
            if partition is not None:
                logger.info("%s was moved away from this node", partition)
                self._drop(partition)
            return
        try:
            if partition is None:
                partition = self._open(topic, index, is_new=is_new)
            if state.leader == self.node_id:
                partition.make_leader(state)
            else:
                partition.make_follower(state)
        except (StorageError, Refused) as error:
            if (topic.name, index) not in self._offline:  # once, and not with every change of the partition
                logger.error("%s-%d cannot be served: %s", topic.name, index, error)
            if partition is None:
                self._offline.add((topic.name, index))

    def _open(self, topic: TopicImage, index: int, *, is_new: bool) -> Partition:
        log_settings, rules, throttled = self._settings_of(topic.name)
        local = self._logs.claim(topic.name, index, topic.topic_id)
        if local is None:
            path = self._directory_for(topic.partitions[index], is_new=is_new)
            local = self._logs.create(topic.name, index, topic.topic_id, log_settings, path=path)
        else:
            if local.io.offline is not None:  # it failed after the log was loaded
                raise local.io.refusal()
            local.set_topic_settings(log_settings)
        partition = Partition(
            topic.name,
            index,
            topic.topic_id,
            node_id=self.node_id,
            log=local,
            rules=rules,
            context=self._isr_context,
        )
        partition.set_throttled(throttled)
        held = self._by_name.setdefault(topic.name, {})
        self._by_id[topic.topic_id] = held
        held[index] = partition
        self._offline.discard((topic.name, index))
        return partition

    def _directory_for(self, state: PartitionImage, *, is_new: bool) -> str | None:
        """Where to create a log: the directory in the metadata, or None for any.

        A missing log may be in an offline directory, or in one that was removed from `log.dirs`. Creating an empty one
        elsewhere would serve a partition without its records, so the replica stays offline. In the second case it is
        copied again, once it can no longer be elected.
        """
        wanted = state.directories[state.replicas.index(self.node_id)]
        directories = self._logs.directories
        if not is_reserved(wanted):
            for directory in directories:
                if directory.is_online and directory.directory_id == wanted:
                    return directory.path
        offline = [directory.path for directory in directories if not directory.is_online]
        if not is_new and offline:
            raise Refused(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"its log is missing, and may be in a log directory that is offline: {', '.join(offline)}",
            )
        if not is_new and wanted not in UNKNOWN and _can_be_elected(state, self.node_id):
            gone = f"{uuid_text(wanted)} is not in log.dirs any more" if wanted != LOST else "has failed"
            raise Refused(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"its log directory {gone}; the replica is copied again once another "
                "broker leads the partition. If no other replica is in sync, bring the directory back, or give its "
                "newest records up with an unclean leader election",
            )
        return None

    def _settings_of(self, topic: str) -> Settings:
        if self.image.settings_of(topic_resource(topic)):
            if self._latest is None or self._latest[0] != topic:
                self._latest = topic, self._read_settings(topic)
            return self._latest[1]
        if self._defaults is None:
            self._defaults = self._read_settings(topic)
        return self._defaults

    def _read_settings(self, topic: str) -> Settings:
        source = self._topic_settings(self.image, topic)
        return (
            LogSettings.read(source),
            ProduceRules.read(source),
            ThrottledReplicas.read(source, node_id=self.node_id),
        )

    def _delete_topic(self, topic: TopicImage, topic_id: Uuid) -> None:
        for partition in list(self._by_id.get(topic_id, NOTHING_HELD).values()):
            self._drop(partition)
        self._offline -= {(topic.name, index) for index in range(len(topic.partitions))}

    def _drop(self, partition: Partition) -> None:
        held = self._by_id[partition.topic_id]
        del held[partition.index]
        if not held:
            del self._by_id[partition.topic_id]
            del self._by_name[partition.topic]
        partition.stop(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        try:
            self._logs.delete(partition.topic, partition.index)
        except StorageError as error:
            logger.error("the log of %s cannot be deleted: %s", partition, error)

    def _renew_settings(self, delta: MetadataDelta) -> None:
        """Apply changed settings to the topics that were named or, after a change of the broker's settings, to all."""
        names = [resource.name for resource in delta.configs if resource.type == ResourceType.TOPIC]
        if any(resource.type == ResourceType.BROKER for resource in delta.configs):
            names = list(self._by_name)
        for name in names:
            partitions = self._by_name.get(name)
            if not partitions:
                continue
            log_settings, rules, throttled = self._settings_of(name)
            for partition in partitions.values():
                partition.set_rules(rules)
                partition.set_throttled(throttled)
                if not partition.is_offline:
                    partition.log.settings = log_settings


def _can_be_elected(state: PartitionImage, node_id: int) -> bool:
    """Whether the controller takes the replica for one that has all records, or would elect it as the last known
    leader while others have records. With a single replica, no follower could truncate to its empty log."""
    if node_id in state.isr or node_id in state.eligible_leaders:
        return True
    return node_id in state.last_known_leaders and len(state.replicas) > 1
