from collections import deque
from collections.abc import Callable
from typing import Any

from penstock.records._appender import ProducerBatch, Receipt
from penstock.records.batch import Buffer
from penstock.records.delivery import AnyHeaders, Host

def largest_size(key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]) -> int: ...

class Span:
    @property
    def batch(self) -> ProducerBatch: ...
    @property
    def first(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def number(self) -> int: ...

class PartitionQueue:
    line: Any
    def __init__(self, topic: str, partition: int) -> None: ...
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def open(self) -> ProducerBatch | None: ...
    @property
    def closed(self) -> deque[ProducerBatch]: ...
    def close_open(self) -> None: ...
    def take(self) -> ProducerBatch | None: ...
    def forget(self) -> bool: ...

class TopicQueues:
    sticky: PartitionQueue | None
    serialize_key: Callable[[Any], Any] | None
    serialize_value: Callable[[Any], Any] | None
    def __init__(
        self,
        name: str,
        count: int,
        serialize_key: Callable[[Any], Any] | None = None,
        serialize_value: Callable[[Any], Any] | None = None,
    ) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def queues(self) -> list[PartitionQueue]: ...
    def grow(self, count: int) -> None: ...

class Intake:
    is_plain: bool
    is_open: bool
    def __init__(
        self,
        host: Host,
        *,
        batch_bytes_max: int,
        buffer_bytes: int,
        record_bytes_max: int,
        now_ms: Callable[[], int] | None = None,
        wall_ms: Callable[[], int] | None = None,
        ignores_keys: bool = False,
    ) -> None: ...
    @property
    def topics(self) -> dict[str, TopicQueues]: ...
    @property
    def available_bytes(self) -> int: ...
    @property
    def batch_bytes_max(self) -> int: ...
    @property
    def record_bytes_max(self) -> int: ...
    def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        headers: AnyHeaders | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Receipt: ...
    def append(
        self,
        topic: TopicQueues,
        partition: int,
        timestamp_ms: int | None,
        key: Buffer | None,
        value: Buffer | None,
        headers: AnyHeaders | None,
    ) -> Receipt | None: ...
    def take_news(self) -> list[PartitionQueue]: ...
    def give_back(self, batch: ProducerBatch) -> None: ...
    def charge(self, batch: ProducerBatch) -> None: ...

class Sending:
    def _begin_sending(self, intake: Intake) -> None: ...
    def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        headers: AnyHeaders | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Receipt: ...
