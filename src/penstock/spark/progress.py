"""Commits how far a query has come to its consumer group (`groupId`), so that every lag tool sees the pipeline.

The group has no members, and nothing is ever read back from it: a query's own memory is its checkpoint. What cannot be
committed is a warning; a pipeline does not stop because somebody cannot watch it.
"""

from __future__ import annotations

import logging
import time

from penstock import errors
from penstock.spark import clients
from penstock.spark.offsets import Offsets
from penstock.spark.options import Options

logger = logging.getLogger("penstock.spark")

PATIENCE_S = 5.0  # whoever stops Spark waits for what its listeners are at; the next batch commits anew
AGAIN_S = 3600.0  # brokers forget a group that says nothing for some days


class GroupProgress:
    """What one query commits. Repeats nothing, and can be pickled."""

    def __init__(self, options: Options) -> None:
        self._settings = options.settings
        self._group: str | None = options.get("groupId")
        self._committed: Offsets | None = None
        self._at_s = 0.0

    def commit(self, offsets: Offsets, *, is_late: bool = False) -> None:
        """Everything before these offsets has been processed. Who hears of it late takes back nothing that somebody
        else has committed meanwhile."""
        if self._group is None or not offsets:
            return
        if offsets == self._committed and time.monotonic() < self._at_s + AGAIN_S:
            return
        try:
            with clients.admin(self._settings) as admin:
                wanted = offsets
                if is_late:
                    there = admin.list_group_offsets(self._group, offsets, timeout=PATIENCE_S)
                    wanted = {
                        partition: offset
                        for partition, offset in offsets.items()
                        if (found := there.get(partition)) is None or found.offset < offset
                    }
                if wanted:
                    admin.alter_group_offsets(self._group, wanted, timeout=PATIENCE_S)
        except errors.PenstockError as error:
            logger.warning("offsets were not committed to group %s: %s", self._group, error)
        self._committed = dict(offsets)
        self._at_s = time.monotonic()
