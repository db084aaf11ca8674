"""Truncates the logs of followers, many at once and off the event loop.

After a fail-over, thousands of followers may have to truncate. Truncations that arrive together are begun in small
slices, then made durable in workers in one batch (`storage.truncation.finish_all`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from penstock.metadata.errors import Refused
from penstock.replication.following import Following
from penstock.runtime.workers import Workers
from penstock.storage.pages import ColdPages, PageLoader
from penstock.storage.truncation import PendingTruncation, finish_all

logger = logging.getLogger(__name__)

LOGS_PER_TURN = 16  # begun per iteration of the event loop; each renames or opens a few files

OnTruncated = Callable[[bool], None]
"""Called once, with whether the log serves again."""


class _Wanted(NamedTuple):
    following: Following
    offset: int
    end_offset: int
    """Where the log ended when this was decided."""
    is_full: bool
    on_truncated: OnTruncated


class Truncator:
    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._wanted: deque[_Wanted] = deque()
        self._begun: list[PendingTruncation] = []
        self._is_scheduled = False

    def truncate(
        self,
        following: Following,
        offset: int,
        on_truncated: OnTruncated,
        *,
        is_full: bool = False,
    ) -> None:
        """Truncate to `offset`, or delete everything and start there; not if the leader epoch or the end of the log has
        changed by then."""
        try:
            end_offset = following.position().offset
        except Refused:  # its log directory failed
            on_truncated(False)
            return
        self._wanted.append(_Wanted(following, offset, end_offset, is_full, on_truncated))
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._begin_some)

    def _begin_some(self) -> None:
        self._is_scheduled = False
        for _ in range(min(LOGS_PER_TURN, len(self._wanted))):
            self._begin(self._wanted.popleft(), None)
        if self._wanted:
            self._schedule()
        elif self._begun:
            begun, self._begun = self._begun, []
            finish_all(begun)

    def _begin(self, wanted: _Wanted, loader: PageLoader | None) -> None:
        begin = partial(
            wanted.following.begin_truncation,
            wanted.offset,
            end_offset=wanted.end_offset,
            is_full=wanted.is_full,
        )
        try:
            pending = begin() if loader is None else loader.run(begin)
        except ColdPages as cold:
            loader = loader or PageLoader(self._workers)
            loader.load([cold.piece], lambda error: self._loaded(wanted, loader, error))
            return
        except Refused as refusal:  # deleted, offline or changed by now
            logger.debug("%s was not truncated: %s", wanted.following.partition, refusal)
            wanted.on_truncated(False)
            return
        except Exception:
            logger.exception("truncating %s to offset %d failed", wanted.following.partition, wanted.offset)
            wanted.on_truncated(False)
            return
        if pending is None:
            wanted.on_truncated(True)
            return
        pending.done.add_done_callback(lambda done: wanted.on_truncated(_is_done_well(done)))
        self._begun.append(pending)

    def _loaded(self, wanted: _Wanted, loader: PageLoader, error: BaseException | None) -> None:
        if isinstance(error, asyncio.CancelledError):
            return  # the node stops
        self._begin(wanted, loader)
        self._schedule()


def _is_done_well(done: asyncio.Future[None]) -> bool:
    return not done.cancelled() and done.exception() is None
