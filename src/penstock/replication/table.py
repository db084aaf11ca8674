"""The partitions that this node holds, kept in step with the cluster's metadata.

`apply` is called for every committed change, in order: it creates and deletes logs, installs leaders and
followers, and puts changed settings in force. Handlers only look partitions up. A log directory that fails
takes its partitions offline here and leaves the rest alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from penstock.metadata.delta import MetadataDelta
from penstock.metadata.directories import LOST, is_reserved
from penstock.metadata.errors import Refused
from penstock.metadata.image import EMPTY_IMAGE, NO_LEADER, MetadataImage, PartitionImage, TopicImage
from penstock.metadata.names import METADATA_TOPIC
from penstock.metadata.resources import ResourceType, topic_resource
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Uuid, uuid_text
from penstock.replication.partition import Partition
from penstock.replication.validation import ProduceRules, SettingsSource
from penstock.storage.errors import StorageError
from penstock.storage.settings import LogSettings
from penstock.storage.store import LogStore

logger = logging.getLogger(__name__)

TopicSettingsOf = Callable[[MetadataImage, str], SettingsSource]
"""One topic's settings as an image has them: its overrides over the broker's."""

Settings = tuple[LogSettings, ProduceRules]

NOTHING_HELD: dict[int, Partition] = {}


class PartitionTable:
    def __init__(self, *, node_id: int, logs: LogStore, topic_settings: TopicSettingsOf) -> None:
        self.node_id = node_id
        self.image = EMPTY_IMAGE
        """The metadata that this table has acted on."""
        self._logs = logs
        self._topic_settings = topic_settings
        self._by_name: dict[str, dict[int, Partition]] = {}
        self._by_id: dict[Uuid, dict[int, Partition]] = {}
        self._offline: set[tuple[str, int]] = set()
        """Replicas that should be here but whose log could not be made or opened."""
        self._defaults: Settings | None = None
        """What holds for topics that override nothing; most do not, and there may be thousands."""

    # -- looking up

    def get(self, topic: str, index: int) -> Partition | None:
        """The replica held here, whatever its role, or None."""
        return self._by_name.get(topic, NOTHING_HELD).get(index)

    def get_by_id(self, topic_id: Uuid, index: int) -> Partition | None:
        return self._by_id.get(topic_id, NOTHING_HELD).get(index)

    def find(self, topic: str, index: int) -> Partition:
        """The replica held here, or a refusal that tells a client where it went wrong."""
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
        """Topic ids and indexes of the partitions whose replica here is in a log directory that failed."""
        found = {(partition.topic_id, partition.index) for partition in self.all() if partition.is_offline}
        for name, index in self._offline:
            topic = self.image.topics.get(name)
            if topic is not None:
                found.add((topic.topic_id, index))
        return found

    def as_served(self, topic: TopicImage) -> Sequence[PartitionImage]:
        """A topic's partitions as clients should be told of them: those whose log directory failed under this node
        have no leader, whatever the metadata says."""
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
        # Held elsewhere: the client's metadata is old, and this error makes it ask anew.
        return Refused(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"broker {self.node_id} has no replica of {name}-{index}; its leader is {topic.partitions[index].leader}",
        )

    # -- following the metadata

    def apply(self, delta: MetadataDelta) -> None:
        """Act on one change of the metadata. The first one is the whole of it, as it was when the node
        started."""
        is_start = self.image is EMPTY_IMAGE
        self.image = delta.image
        self._defaults = None
        # Deletions first: a deleted topic's name may have been given to a new one in the same change.
        for topic_id, change in delta.topics.items():
            if change.after is None and change.before is not None:
                self._delete_topic(change.before, topic_id)
        for change in delta.topics.values():
            if change.after is not None:
                known = len(change.before.partitions) if change.before is not None else 0
                for index in change.changed_partitions:
                    self._place(change.after, index, is_new=index >= known and not is_start)
        self._renew_settings(delta)

    def remove_strays(self) -> None:
        """Once, after the metadata was read at start: set aside logs that no partition of this node claims."""
        for stray in list(self._logs.all()):
            if stray.topic == METADATA_TOPIC:
                continue  # the quorum's own, which no record assigns
            partition = self.get(stray.topic, stray.partition)
            if partition is None or partition.topic_id != stray.topic_id:
                logger.warning(
                    "%s-%d is not assigned to this node; setting it aside", stray.topic, stray.partition
                )
                self._logs.set_aside(stray.topic, stray.partition)

    def close(self) -> None:
        """Send away all who wait; logs are the store's to close."""
        for partition in self.all():
            partition.stop(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _place(self, topic: TopicImage, index: int, *, is_new: bool) -> None:
        """Bring the local replica, if there should be one, in line with the metadata."""
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
                partition.lead(state)
            else:
                partition.follow(state)
        except (StorageError, Refused) as error:
            logger.error("%s-%d cannot be served: %s", topic.name, index, error)
            if partition is None:
                self._offline.add((topic.name, index))

    def _open(self, topic: TopicImage, index: int, *, is_new: bool) -> Partition:
        log_settings, rules = self._settings_of(topic.name)
        local = self._logs.claim(topic.name, index, topic.topic_id)
        if local is None:
            path = self._directory_for(topic.partitions[index], is_new=is_new)
            local = self._logs.create(topic.name, index, topic.topic_id, log_settings, path=path)
        else:
            if local.volume.offline is not None:  # it failed after the log was loaded
                raise local.volume.refusal()
            local.take_up(log_settings)
        partition = Partition(topic.name, index, topic.topic_id, node_id=self.node_id, log=local, rules=rules)
        held = self._by_name.setdefault(topic.name, {})
        self._by_id[topic.topic_id] = held
        held[index] = partition
        self._offline.discard((topic.name, index))
        return partition

    def _directory_for(self, state: PartitionImage, *, is_new: bool) -> str | None:
        """Where to create a log: the directory that the metadata names, or None for any.

        A replica whose log is missing may have it in a directory that is offline. Creating an empty one
        elsewhere would then serve a partition without its records, so it stays offline.
        """
        wanted = state.directories[state.replicas.index(self.node_id)]
        directories = self._logs.directories
        if not is_reserved(wanted):
            for directory in directories:
                if directory.is_online and directory.directory_id == wanted:
                    return directory.path
        if not is_new and not all(directory.is_online for directory in directories):
            raise Refused(
                ErrorCode.KAFKA_STORAGE_ERROR,
                "its log is missing and may be in a log directory that is offline",
            )
        return None

    def _settings_of(self, topic: str) -> Settings:
        if self.image.settings_of(topic_resource(topic)):
            return _read_settings(self._topic_settings(self.image, topic))
        if self._defaults is None:
            self._defaults = _read_settings(self._topic_settings(self.image, topic))
        return self._defaults

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
        """Put changed settings in force, for topics that were named or, after a change of the broker's, for
        all."""
        names = [resource.name for resource in delta.configs if resource.type == ResourceType.TOPIC]
        if any(resource.type == ResourceType.BROKER for resource in delta.configs):
            names = list(self._by_name)
        for name in names:
            partitions = self._by_name.get(name)
            if not partitions:
                continue
            log_settings, rules = self._settings_of(name)
            for partition in partitions.values():
                partition.rules = rules
                if not partition.is_offline:
                    partition.log.settings = log_settings


def _read_settings(source: SettingsSource) -> Settings:
    return LogSettings.read(source), ProduceRules.read(source)
