"""Rules that hold for every image of the metadata, and between two images."""

from __future__ import annotations

from penstock.metadata.image import MetadataImage, PartitionImage
from simulator.world import BrokenPromise


def check_image(image: MetadataImage) -> None:
    """Leaders and in-sync replicas are replicas on brokers that may have these roles."""
    for topic in image.topics.by_name.values():
        for index, partition in enumerate(topic.partitions):
            for complaint in complaints_about(partition, image):
                raise BrokenPromise(
                    f"{topic.name}-{index} at metadata offset {image.offset} {complaint}: {partition}"
                )


def complaints_about(partition: PartitionImage, image: MetadataImage) -> list[str]:
    replicas, isr = set(partition.replicas), set(partition.isr)
    eligible = set(partition.eligible_leaders)
    fenced = {broker.node_id for broker in image.brokers.values() if broker.is_fenced}
    unusable = fenced | {node_id for node_id in replicas if node_id not in image.brokers}
    found = []
    if not isr | eligible <= replicas:
        found.append("has in-sync or eligible leader replicas that are no replicas")
    if isr & eligible:
        found.append("has replicas that are both in sync and eligible leaders")
    if partition.has_leader and partition.leader not in isr:
        found.append("has a leader that is not in sync")
    if partition.has_leader and partition.leader in unusable:
        found.append("has a leader that is fenced")
    if isr & unusable and (partition.has_leader or len(isr) > 1):
        found.append("counts a fenced broker as in sync")
    return found


def check_successor(before: MetadataImage, after: MetadataImage) -> None:
    """Epochs never go back."""
    for name, topic in before.topics.by_name.items():
        later = after.topics.by_name.get(name)
        if later is None or later.topic_id != topic.topic_id:
            continue
        for index, (old, new) in enumerate(zip(topic.partitions, later.partitions, strict=False)):
            if new.leader_epoch < old.leader_epoch or new.partition_epoch < old.partition_epoch:
                raise BrokenPromise(f"the epochs of {name}-{index} went back: {old}, then {new}")
            if new.leader != old.leader and new.has_leader and new.leader_epoch == old.leader_epoch:
                raise BrokenPromise(
                    f"{name}-{index} got another leader in the same leader epoch: {old}, then {new}"
                )
        if len(later.partitions) < len(topic.partitions):
            raise BrokenPromise(f"{name} lost partitions")
    for node_id, broker in before.brokers.items():
        registered = after.brokers.get(node_id)
        if registered is not None and registered.epoch < broker.epoch:
            raise BrokenPromise(
                f"the epoch of broker {node_id} went back: {broker.epoch}, then {registered.epoch}"
            )
