"""Commits the progress of a query to its consumer group (`groupId`), so that lag tools see it.

The group has no members, and its offsets are never read back: a query restarts from its checkpoint. A failed commit is
a warning, because a pipeline must not stop for its monitoring.
"""

from __future__ import annotations

import logging
import time

from penstock import errors
from penstock.spark import clients
from penstock.spark.offsets import Offsets
from penstock.spark.options import Options

logger = logging.getLogger("penstock.spark")

PATIENCE_S = 5.0  # stopping Spark waits for its listeners; the next batch commits again
AGAIN_S = 3600.0  # brokers delete the offsets of a group that is silent for days


class GroupProgress:
    """What one query commits. Skips repetitions, and can be pickled."""

    def __init__(self, options: Options) -> None:
        self._settings = options.settings
        self._group: str | None = options.get("groupId")
        self._committed: Offsets | None = None
        self._at_s = 0.0

    def commit(self, offsets: Offsets, *, is_late: bool = False) -> None:
        """Everything before these offsets has been processed. With `is_late`, newer offsets that were committed
        meanwhile stay."""
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
            logger.warning("could not commit offsets to group %s: %s", self._group, error)
        self._committed = dict(offsets)
        self._at_s = time.monotonic()
