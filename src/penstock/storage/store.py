"""All logs of a node, over the directories of `log.dirs`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from penstock.runtime import Runtime
from penstock.storage.log import Log
from penstock.storage.settings import LogSettings, StoreSettings


class LogStore:
    def __init__(
        self,
        paths: Sequence[str],
        *,
        runtime: Runtime,
        settings: StoreSettings,
        topic_settings: Callable[[str], LogSettings],
        node_id: int,
        cluster_id: str,
    ) -> None: ...
    async def start(self) -> None: ...
    def create(
        self, topic: str, partition: int, topic_id: bytes, settings: LogSettings, *, path: str | None = None
    ) -> Log: ...
    def get(self, topic: str, partition: int) -> Log | None: ...
    def delete(self, topic: str, partition: int) -> None: ...
    def all(self) -> Iterator[Log]: ...
    async def close(self) -> None: ...
