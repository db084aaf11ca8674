"""Compares the logs of replicas as they are on the disks, without the nodes' own code for it.

Log matching: if two replicas have a batch with the same base offset and leader epoch, the batches are equal, byte by
byte, whether they are in sync or not. Otherwise two leaders wrote in one epoch. In-sync replicas have equal logs below
the high watermark. For compacted topics see also `tables`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple
from zlib import crc32

from penstock.records import kernel
from penstock.records.batch import BatchHeader, Record
from penstock.storage.layout import LOG_SUFFIX, SWAP_SUFFIX, parse_segment_file, segment_file
from simulator.cluster import SimulatedCluster
from simulator.node import SimulatedNode
from simulator.world import BrokenPromise


class Batch(NamedTuple):
    base_offset: int
    last_offset: int
    leader_epoch: int
    checksum: int
    """Of all its bytes."""


def log_dirs_of(node: SimulatedNode) -> list[str]:
    directories = node.properties["log.dirs"].split(",")
    metadata = node.properties.get("metadata.log.dir")
    return directories if metadata is None or metadata in directories else [*directories, metadata]


def find_folder(node: SimulatedNode, partition: str) -> str | None:
    """The folder of a partition ("topic-0"); None if this node has no replica."""
    for directory in log_dirs_of(node):
        folder = f"{directory}/{partition}"
        if node.disk.is_directory(folder):
            return folder
    return None


def folders_of(node: SimulatedNode) -> list[str]:
    """Names of all partitions on this node, except those being deleted or moved."""
    names = []
    for directory in log_dirs_of(node):
        if node.disk.is_directory(directory):
            found = node.disk.list(directory)
            names += [
                name for name in found if "." not in name and node.disk.is_directory(f"{directory}/{name}")
            ]
    return sorted(names)


def scan_batches(node: SimulatedNode, folder: str) -> Iterator[tuple[BatchHeader, memoryview]]:
    """All complete batches. The end of a log may be torn if the node is dead."""
    for path in _segment_paths(node, folder):
        data = memoryview(node.disk.content(path))
        position = 0
        while position < len(data):
            try:
                header = kernel.check_batch(data[position:])
            except Exception:
                break
            yield header, data[position : position + header.size_bytes]
            position += header.size_bytes


def _segment_paths(node: SimulatedNode, folder: str) -> list[str]:
    """In the order of their offsets. A compacted segment is named `.swap` until the originals are out of the way."""
    paths: dict[int, str] = {}
    for suffix in (SWAP_SUFFIX, ""):
        for name in node.disk.list(folder):
            parsed = parse_segment_file(name.removesuffix(suffix)) if name.endswith(suffix) else None
            if parsed is not None and parsed[1] == LOG_SUFFIX:
                paths[parsed[0]] = f"{folder}/{segment_file(*parsed)}{suffix}"
    return [paths[base_offset] for base_offset in sorted(paths)]


def read_batches(node: SimulatedNode, folder: str) -> list[Batch]:
    return [
        Batch(header.base_offset, header.last_offset, header.leader_epoch, crc32(data))
        for header, data in scan_batches(node, folder)
    ]


class LogMatching:
    """Remembers every batch that was ever found, by partition, base offset and leader epoch.

    Compaction removes records from batches, so the batches of compacted topics are compared record by record.
    """

    def __init__(self, cluster: SimulatedCluster, *, compacted: Collection[str] = ()) -> None:
        """`compacted` are names of topics."""
        self._cluster = cluster
        self._compacted = compacted
        self._known: dict[tuple[str, int, int], tuple[int, int]] = {}
        self._known_records: dict[tuple[str, int, int], tuple[Record, int]] = {}

    def check(self) -> None:
        """Look at all disks. Logs of one partition must agree with each other, and with what was found before."""
        for node_id, node in self._cluster.nodes.items():
            for partition in folders_of(node):
                folder = find_folder(node, partition)
                assert folder is not None, "it was just listed"
                if partition.rpartition("-")[0] in self._compacted:
                    for header, data in scan_batches(node, folder):
                        for record in kernel.iterate_records(data):
                            self._note_record(node_id, partition, header.leader_epoch, record)
                else:
                    for batch in read_batches(node, folder):
                        self._note(node_id, partition, batch)

    def _note(self, node_id: int, partition: str, batch: Batch) -> None:
        key = (partition, batch.base_offset, batch.leader_epoch)
        checksum, found_on = self._known.setdefault(key, (batch.checksum, node_id))
        if checksum != batch.checksum:
            raise BrokenPromise(
                f"{partition}: node {node_id} and node {found_on} have different batches at offset"
                f" {batch.base_offset}, both of leader epoch {batch.leader_epoch}"
            )

    def _note_record(self, node_id: int, partition: str, leader_epoch: int, record: Record) -> None:
        key = (partition, record.offset, leader_epoch)
        known, found_on = self._known_records.setdefault(key, (record, node_id))
        if known != record:
            raise BrokenPromise(
                f"{partition}: node {node_id} has {record}, and node {found_on} {known}, both of leader epoch"
                f" {leader_epoch}"
            )


def check_replicas_equal(
    cluster: SimulatedCluster, partition: str, node_ids: list[int], *, end_offset: int, start_offset: int = 0
) -> None:
    """The logs of these replicas are equal up to `end_offset`, and none ends before it."""
    expected: list[Batch] | None = None
    for node_id in node_ids:
        node = cluster.nodes[node_id]
        folder = find_folder(node, partition)
        if folder is None:
            raise BrokenPromise(f"{partition}: node {node_id} is in sync, but has no log")
        batches = read_batches(node, folder)
        if batches and batches[-1].last_offset + 1 < end_offset:
            raise BrokenPromise(
                f"{partition}: node {node_id} is in sync, but its log ends at {batches[-1].last_offset + 1}, before"
                f" the high watermark {end_offset}"
            )
        chosen = [each for each in batches if start_offset <= each.base_offset < end_offset]
        if expected is None:
            expected = chosen
        elif chosen != expected:
            different = next(
                (pair for pair in zip(expected, chosen, strict=False) if pair[0] != pair[1]), (None, None)
            )
            raise BrokenPromise(
                f"{partition}: in-sync replicas {node_ids[0]} and {node_id} differ below the high watermark"
                f" {end_offset}: {different[0]} and {different[1]}, {len(expected)} and {len(chosen)} batches"
            )
