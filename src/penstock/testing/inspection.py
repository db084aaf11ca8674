"""The files of a log as a node finds them when it starts, read by other eyes than the node's.

A node scans what a crash may have damaged and believes the rest. So what it does not build anew has to be right:
an index that a power cut emptied or zeroed makes lookups by time pass over a segment, and retention drop it.
"""

from __future__ import annotations

from struct import Struct

from penstock.records import kernel
from penstock.storage.layout import LOG_SUFFIX, TIME_INDEX_SUFFIX, parse_segment_file, segment_file
from penstock.testing.disk import SimulatedDisk
from penstock.testing.simulation import BrokenPromise

_TIME_ENTRY = Struct(">qi")


def check_time_indexes(disk: SimulatedDisk, folder: str) -> None:
    """Every segment but the last, which is still written to, ends its time index with its latest time."""
    parsed = [parse_segment_file(name) for name in disk.list(folder)]
    base_offsets = sorted(found[0] for found in parsed if found is not None and found[1] == LOG_SUFFIX)
    for base_offset in base_offsets[:-1]:
        log = disk.read_file(f"{folder}/{segment_file(base_offset, LOG_SUFFIX)}")
        latest = max((header.max_timestamp for header in kernel.read_headers(log)), default=-1)
        path = f"{folder}/{segment_file(base_offset, TIME_INDEX_SUFFIX)}"
        entries = list(_TIME_ENTRY.iter_unpack(disk.read_file(path)))
        noted = entries[-1][0] if entries else -1
        if noted != latest:
            raise BrokenPromise(
                f"{path} is believed: its latest time is {noted}, that of the records {latest}"
            )
