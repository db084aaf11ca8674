"""Checks log files as the node finds them at startup, without the node's own code for it.

The node scans only what a crash may have damaged. Everything else must be right: with an index that a power cut
emptied or zeroed, lookups by timestamp skip a segment, and retention deletes it too early.
"""

from __future__ import annotations

from struct import Struct

from penstock.records import kernel
from penstock.storage.layout import LOG_SUFFIX, TIME_INDEX_SUFFIX, parse_segment_file, segment_file
from simulator.disk import SimulatedDisk
from simulator.simulation import BrokenPromise

_TIME_ENTRY = Struct(">qi")


def check_time_indexes(disk: SimulatedDisk, folder: str) -> None:
    """In every segment except the active one, the time index ends with the segment's latest timestamp."""
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
                f"{path} ends with the timestamp {noted}, but its segment with {latest}; the node relies on it"
            )
