"""The next state of a partition: its leader, ISR, eligible leader replicas and replicas, as one record.

Every change of a partition goes through `change_partition`: fencing, unfencing, controlled shutdown, AlterPartition,
reassignments and elections. The rules are those of Kafka's controller (KIP-631, KIP-704, KIP-858, KIP-966).

- The leader is a member of the ISR. If none of them is alive, it comes from the eligible leader replicas (ELR), then it
  is the last known leader. Only an unclean election elects another replica.
- The leader epoch goes up if the record has a leader. That is the case if the leader changes, and if a replica is
  removed, because followers and clients must notice that.
- A replica that leaves the ISR while the ISR has fewer than `min.insync.replicas` members becomes eligible, because it
  has all committed records. A replica that was shut down uncleanly may have lost some, and is not eligible.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from penstock.metadata.directories import UNASSIGNED
from penstock.metadata.image import NO_LEADER, MetadataImage, PartitionImage
from penstock.metadata.records import PartitionChangeRecord
from penstock.metadata.replay import LEADER_UNCHANGED, RECOVERY_UNCHANGED
from penstock.protocol.types import Uuid

RECOVERED = 0
RECOVERING = 1


class Election(Enum):
    PREFERRED = "preferred"
    """The preferred leader if it is in sync; otherwise the present leader stays."""
    ONLINE = "online"
    """The present leader stays if it can; otherwise the first replica that is in sync."""
    UNCLEAN = "unclean"
    """As ONLINE; if no replica is in sync, any replica that is alive, which may lose records."""


@dataclass(frozen=True, slots=True)
class Electorate:
    """Who may lead a partition."""

    is_acceptable: Callable[[int], bool]
    """Whether a replica is alive: its broker is active, and its log directory online."""
    min_isr: int
    """`min.insync.replicas` of the topic."""
    has_eligible_leaders: bool = True
    """Whether the cluster keeps eligible leader replicas (`eligible.leader.replicas.version`)."""
    election: Election = Election.ONLINE


def _unassigned(node_id: int) -> Uuid:
    return UNASSIGNED


class Change(NamedTuple):
    """The wanted changes of a partition. None: no change."""

    isr: Sequence[int] | None = None
    replicas: Sequence[int] | None = None
    adding: Sequence[int] | None = None
    removing: Sequence[int] | None = None
    unclean_shutdown: Collection[int] = ()
    """Replicas that may have lost records: they must not stay eligible."""
    leader_recovery_state: int | None = None
    directories: dict[int, Uuid] | None = None
    """New log directories of replicas, by node id."""
    default_directory: Callable[[int], Uuid] = _unassigned
    """The log directory of a new replica."""

    @property
    def changes_replicas(self) -> bool:
        return self.replicas is not None or self.directories is not None


def change_partition(
    partition: PartitionImage, topic_id: Uuid, index: int, *, change: Change, electorate: Electorate
) -> PartitionChangeRecord | None:
    """The record that makes the change and elects a leader; None if nothing changes."""
    target = _Target.of(partition, change)
    target.complete_reassignment()
    if electorate.has_eligible_leaders:
        target.update_eligible(partition, electorate, change.unclean_shutdown)
    record = PartitionChangeRecord(partition_id=index, topic_id=topic_id)
    _elect(record, partition, target, electorate)
    changes_replicas = change.changes_replicas or partition.adding_replicas or partition.removing_replicas
    if (
        changes_replicas
        and record.leader == LEADER_UNCHANGED
        and set(partition.replicas) - set(target.replicas)
    ):
        record.leader = partition.leader  # a removed replica must stop fetching: a new epoch tells it
    _set_eligible(record, partition, target, electorate)
    # Without eligible leader replicas, the ISR keeps its last member: only that one is known to have all records.
    keeps_isr = not target.isr and not electorate.has_eligible_leaders
    if record.isr is None and not keeps_isr and target.isr != list(partition.isr):
        record.isr = target.isr
    if electorate.has_eligible_leaders:
        _set_last_known_leader(record, partition)
    if changes_replicas:
        _set_replicas(record, partition, target, change)
    if target.leader_recovery_state != partition.is_recovering:
        record.leader_recovery_state = target.leader_recovery_state
    return None if _is_empty(record) else record


def partitions_without_isr(image: MetadataImage, topic: str) -> Iterator[tuple[Uuid, int, PartitionImage]]:
    """Partitions that only an eligible leader replica or the last known leader can lead. Of all topics if the name is
    empty."""
    names = [topic] if topic else list(image.topics.by_name)
    for found in (image.topics.get(name) for name in names):
        if found is not None:
            for index, partition in enumerate(found.partitions):
                if not partition.isr and (partition.eligible_leaders or partition.last_known_leaders):
                    yield found.topic_id, index, partition


@dataclass(slots=True)
class _Target:
    """The partition after the change, before a leader is elected."""

    isr: list[int]
    replicas: list[int]
    adding: list[int]
    removing: list[int]
    eligible: list[int]
    leader_recovery_state: int

    @classmethod
    def of(cls, partition: PartitionImage, change: Change) -> _Target:
        return cls(
            isr=list(partition.isr if change.isr is None else change.isr),
            replicas=list(partition.replicas if change.replicas is None else change.replicas),
            adding=list(partition.adding_replicas if change.adding is None else change.adding),
            removing=list(partition.removing_replicas if change.removing is None else change.removing),
            eligible=list(partition.eligible_leaders),
            leader_recovery_state=int(partition.is_recovering)
            if change.leader_recovery_state is None
            else change.leader_recovery_state,
        )

    def complete_reassignment(self) -> None:
        """Remove the old replicas once all new ones are in the ISR. If the replication factor goes down, all replicas
        that stay must be in the ISR."""
        if not self.adding and not self.removing:
            return
        isr = [node_id for node_id in self.isr if node_id not in self.removing]
        replicas = [node_id for node_id in self.replicas if node_id not in self.removing]
        needed = replicas if len(self.removing) > len(self.adding) else self.adding
        if not isr or not set(needed) <= set(isr):
            return
        self.isr, self.replicas, self.adding, self.removing = isr, replicas, [], []

    def update_eligible(
        self, partition: PartitionImage, electorate: Electorate, unclean_shutdown: Collection[int]
    ) -> None:
        """Replicas that left the ISR are eligible as long as the ISR is too small to have committed anything since."""
        if len(self.isr) >= min(electorate.min_isr, len(self.replicas)):
            self.eligible = []
            return
        candidates = {*partition.eligible_leaders, *partition.isr}.intersection(self.replicas)
        self.eligible = sorted(candidates.difference(self.isr, unclean_shutdown))


class _Elected(NamedTuple):
    leader: int
    is_unclean: bool


def _elect(
    record: PartitionChangeRecord, partition: PartitionImage, target: _Target, electorate: Electorate
) -> None:
    elected = _choose(partition, target, electorate)
    if elected.leader == partition.leader:
        return
    record.leader = elected.leader
    if elected.is_unclean:
        record.isr = [elected.leader]
        target.eligible = []
        if not partition.is_recovering:
            # The leader may lack committed records. It reports the end of its recovery.
            record.leader_recovery_state = target.leader_recovery_state = RECOVERING
    elif elected.leader in target.eligible:
        target.isr = [elected.leader]
        target.eligible.remove(elected.leader)


def _choose(partition: PartitionImage, target: _Target, electorate: Electorate) -> _Elected:
    is_acceptable = electorate.is_acceptable

    candidates = [partition.leader, *target.replicas]
    if electorate.election is Election.PREFERRED:
        candidates = [target.replicas[0], *candidates]
    has_all_records = target.isr
    if electorate.has_eligible_leaders and not target.isr:
        has_all_records = target.eligible
    for node_id in candidates:
        if node_id in has_all_records and is_acceptable(node_id):
            return _Elected(node_id, is_unclean=False)
    if electorate.has_eligible_leaders and not target.isr and not target.eligible:
        for node_id in partition.last_known_leaders[:1]:
            if is_acceptable(node_id):
                return _Elected(node_id, is_unclean=True)
    if electorate.election is Election.UNCLEAN:
        for node_id in target.replicas:
            if is_acceptable(node_id):
                return _Elected(node_id, is_unclean=True)
    return _Elected(NO_LEADER, is_unclean=False)


def _set_eligible(
    record: PartitionChangeRecord, partition: PartitionImage, target: _Target, electorate: Electorate
) -> None:
    if not electorate.has_eligible_leaders:
        target.eligible = []
    if target.eligible != list(partition.eligible_leaders):
        record.eligible_leader_replicas = target.eligible


def _set_last_known_leader(record: PartitionChangeRecord, partition: PartitionImage) -> None:
    """Remember the last leader when no replica can replace it; forget it when the partition has a leader again."""
    if record.leader == NO_LEADER and partition.has_leader:
        record.last_known_elr = [partition.leader]
    elif partition.last_known_leaders and _leader_after(record, partition) != NO_LEADER:
        record.last_known_elr = []


def _leader_after(record: PartitionChangeRecord, partition: PartitionImage) -> int:
    return partition.leader if record.leader == LEADER_UNCHANGED else record.leader


def _set_replicas(
    record: PartitionChangeRecord, partition: PartitionImage, target: _Target, change: Change
) -> None:
    if target.replicas != list(partition.replicas):
        record.replicas = target.replicas
    if target.adding != list(partition.adding_replicas):
        record.adding_replicas = target.adding
    if target.removing != list(partition.removing_replicas):
        record.removing_replicas = target.removing
    known = dict(zip(partition.replicas, partition.directories, strict=True))
    known.update(change.directories or {})
    directories = [
        known[node_id] if node_id in known else change.default_directory(node_id)
        for node_id in target.replicas
    ]
    if directories != list(partition.directories):
        record.directories = directories


def _is_empty(record: PartitionChangeRecord) -> bool:
    return (
        record.leader == LEADER_UNCHANGED
        and record.leader_recovery_state == RECOVERY_UNCHANGED
        and record.isr is None
        and record.replicas is None
        and record.adding_replicas is None
        and record.removing_replicas is None
        and record.eligible_leader_replicas is None
        and record.last_known_elr is None
        and record.directories is None
    )
