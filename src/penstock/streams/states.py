"""Queries of table state, answered from the changelogs.

A changelog is committed together with the outputs of its batch, so a consumer of committed records sees no row of a
batch that may still fail. Each task commits its own transaction: during a commit some rows already belong to the new
batch and others to the previous one. Any process may query, not only the one that runs the application. Rows are
cached, and each query first reads on to the end of the changelog, so the first query takes longest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from penstock.client.cluster import TopicPartition
from penstock.client.errors import BrokerError, GroupIdNotFound, IllegalState, UnknownTopicOrPartition
from penstock.spark import clients
from penstock.streams.compile import names
from penstock.streams.nouns import TopologyError
from penstock.streams.serdes import Serde, SessionWindowed, TimeWindowed
from penstock.streams.settings import AppSettings
from penstock.streams.stores import Store
from penstock.streams.topology import GlobalTable, Node, Source, Topology, history_of, is_own_changelog

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

    from penstock import Admin


def table_state(topology: Topology, name: str, settings: AppSettings) -> TableState:
    """The state of a store."""
    stores = topology.stores
    if name not in stores:
        raise TopologyError(f"no table is called {name}; tables: {', '.join(stores) or 'none'}")
    node = stores[name]
    topic = _topic_of(node, name, settings)
    is_own = topic == names.changelog(settings.application_id, name)
    store = topology.store_of_processor(name)
    if store is not None:
        key, value = _of_processor(store)
    else:
        assert node.key is not None
        assert node.value is not None
        key, value = node.key, node.value
    return TableState(
        topic,
        key.for_topic(topic, is_key=True),
        value.for_topic(topic, is_key=False),
        settings.client,
        application_id=settings.application_id if is_own else None,
        is_versioned=history_of(node) is not None,
    )


class TableState:
    """A table as stored in its changelog."""

    def __init__(
        self,
        topic: str,
        key: Serde[Any],
        value: Serde[Any],
        client: Mapping[str, Any],
        *,
        application_id: str | None = None,
        is_versioned: bool = False,
    ) -> None:
        self.topic = topic
        self._application_id = application_id
        """The application that creates the topic; None if the topic belongs to another program."""
        self._topic_id: str | None = None
        self._is_versioned = is_versioned
        self._times: dict[bytes, int] = {}
        """The timestamp of the last value, for tables ordered by timestamp."""
        self._key = key
        self._value = value
        self._client = {**client, "isolation.level": "read_committed"}
        self._rows: dict[bytes, bytes] = {}
        self._positions: dict[TopicPartition, int] = {}

    def get(self, key: Any) -> Any:
        """The value of a key; None if there is none."""
        self._read_on()
        data = self._key.encode(key)
        return None if data is None else self._value.decode(self._rows.get(data))

    def items(self) -> Iterator[tuple[Any, Any]]:
        """All rows, in the order of their serialized keys."""
        yield from self.range()

    def range(self, first: Any = None, last: Any = None) -> Iterator[tuple[Any, Any]]:
        """The rows from the key `first` to the key `last`, both included, in the order of their serialized keys."""
        self._read_on()
        begin = b"" if first is None else self._key.encode(first) or b""
        end = None if last is None else self._key.encode(last)
        for key in sorted(self._rows):
            if key >= begin and (end is None or key <= end):
                yield self._key.decode(key), self._value.decode(self._rows[key])

    def to_dataframe(self, spark: SparkSession | None = None) -> DataFrame:
        """All rows as a DataFrame with the columns `key`, `value`, and `timestamp` of the last change; with windows
        also `start` and `end`."""
        import penstock.spark
        from penstock.streams.compile.frames import latest_rows

        self._partitions()
        session = penstock.spark.session() if spark is None else penstock.spark.register(spark)
        return latest_rows(
            session, self.topic, self._key, self._value, self._client, by_time=self._is_versioned
        )

    def _read_on(self) -> None:
        partitions = self._partitions()
        with clients.consumer(self._client) as consumer:
            consumer.assign(partitions)
            begins = consumer.beginning_offsets(partitions)
            ends = consumer.end_offsets(partitions)
            if all(self._positions.get(partition, -1) >= ends[partition] for partition in partitions):
                return
            for partition in partitions:
                consumer.seek(partition, max(begins[partition], self._positions.get(partition, 0)))
            for batch in consumer.read(ends):
                if self._is_versioned:
                    batch = self._newer(batch)
                pairs = zip(batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True)
                for key, value in pairs:
                    if value is None:
                        self._rows.pop(key, None)
                    elif key is not None:
                        self._rows[key] = value
            self._positions = {partition: ends[partition] for partition in partitions}

    def _partitions(self) -> list[TopicPartition]:
        """The partitions from the cluster: the client's cached metadata may still show a deleted topic."""
        with clients.admin(self._client) as admin:
            try:
                described = admin.describe_topic(self.topic)
            except UnknownTopicOrPartition:
                if self._application_id is None:
                    raise
                raise self._no_state(admin, self._application_id) from None
        if (
            described.topic_id != self._topic_id
        ):  # the topic was recreated: discard what was read from the old one
            self._topic_id = described.topic_id
            self._rows, self._times, self._positions = {}, {}, {}
        return [TopicPartition(self.topic, partition.index) for partition in described.partitions]

    def _no_state(self, admin: Admin, application_id: str) -> IllegalState:
        """A program creates its topics when it starts, and commits offsets with its first batch."""
        servers = self._client["bootstrap.servers"]
        starting = "start it with app.run() or `penstock pipeline run FILE`, then query again"
        try:
            has_run = bool(admin.list_group_offsets(application_id))
        except GroupIdNotFound:
            has_run = False
        except BrokerError as error:
            return IllegalState(
                f"{servers} has no topic {self.topic}: {application_id} has not run yet, or the topic was deleted "
                f"(checking failed: {error}); {starting}"
            )
        if has_run:
            return IllegalState(
                f"{application_id} has run, but its topic {self.topic} was deleted from {servers}, so it cannot be "
                "queried. A restart recreates the topic for rows that change from then on; another "
                "application.id computes all rows again"
            )
        return IllegalState(
            f"{application_id} has not run yet on {servers}, so this table has no state: {starting}"
        )

    def _newer(self, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        """Drop values that are older than the known value of their key."""
        kept = []
        times = batch.column("timestamp").cast("int64").to_pylist()
        for at, (key, time) in enumerate(zip(batch.column("key").to_pylist(), times, strict=True)):
            if time >= self._times.get(key, time):
                self._times[key] = time
                kept.append(at)
        return batch.take(kept)


def _topic_of(node: Node, name: str, settings: AppSettings) -> str:
    if isinstance(node, GlobalTable):
        return node.topic
    if is_own_changelog(node):
        source = node.parents[0]
        assert isinstance(source, Source)
        return source.topics[0]
    return names.changelog(settings.application_id, name)


def _of_processor(store: Store[Any, Any]) -> tuple[Serde[Any], Serde[Any]]:
    if not store.logged:
        raise TopologyError(f"the store {store.name} has no changelog, so other processes cannot query it")
    key: Serde[Any] = store.key
    if store.kind == "window":
        assert store.window_ms is not None
        key = TimeWindowed(store.key, store.window_ms)
    elif store.kind == "session":
        key = SessionWindowed(store.key)
    return key, store.value
