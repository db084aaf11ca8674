"""The settings of storage, as plain attributes for the hot path.

`LogSettings` are those of one topic (its overrides over the broker's defaults); replacing `Log.settings` applies a
change with the next append. `StoreSettings` are those of all logs of a node. Names, defaults and bounds are declared
in `penstock.config`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self

NEVER = 2**63 - 1  # Kafka's "never": the largest long
UNLIMITED = -1


class SettingsSource(Protocol):
    """The source of values: `BrokerSettings` or `TopicSettings`."""

    def get(self, name: str, /) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """One topic's settings. The defaults are Kafka's."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3600 * 1000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    flush_messages: int = NEVER
    flush_ms: int = NEVER
    retention_bytes: int = UNLIMITED
    retention_ms: int = 7 * 24 * 3600 * 1000
    file_delete_delay_ms: int = 60_000
    preallocate: bool = False
    delete: bool = True
    """`cleanup.policy` includes `delete`: retention by time and size applies."""
    compact: bool = False
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = NEVER
    delete_retention_ms: int = 24 * 3600 * 1000

    @classmethod
    def read(cls, source: SettingsSource) -> Self:
        """Read the values by their topic-level names, e.g. from `TopicSettings`."""
        policies = source.get("cleanup.policy")
        if isinstance(policies, str):
            policies = policies.split(",")
        compact = "compact" in policies
        segment_ms, max_compaction_lag_ms = source.get("segment.ms"), source.get("max.compaction.lag.ms")
        return cls(
            segment_bytes=source.get("segment.bytes"),
            # Only sealed segments are compacted.
            segment_ms=min(segment_ms, max_compaction_lag_ms) if compact else segment_ms,
            segment_jitter_ms=source.get("segment.jitter.ms"),
            segment_index_bytes=source.get("segment.index.bytes"),
            index_interval_bytes=source.get("index.interval.bytes"),
            flush_messages=source.get("flush.messages"),
            flush_ms=source.get("flush.ms"),
            retention_bytes=source.get("retention.bytes"),
            retention_ms=source.get("retention.ms"),
            file_delete_delay_ms=source.get("file.delete.delay.ms"),
            preallocate=source.get("preallocate"),
            delete="delete" in policies,
            compact=compact,
            min_cleanable_dirty_ratio=source.get("min.cleanable.dirty.ratio"),
            min_compaction_lag_ms=source.get("min.compaction.lag.ms"),
            max_compaction_lag_ms=max_compaction_lag_ms,
            delete_retention_ms=source.get("delete.retention.ms"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """One node's settings. The defaults are Kafka's."""

    retention_check_interval_ms: int = 300_000
    recovery_point_interval_ms: int = 60_000
    start_offset_interval_ms: int = 60_000
    high_watermark_interval_ms: int = 5_000
    initial_task_delay_ms: int = 30_000
    recovery_threads_per_directory: int = 2
    producer_id_expiration_ms: int = 86_400_000
    producer_id_expiration_check_interval_ms: int = 600_000
    open_files_max: int = 512
    """Segment files kept open at once over all logs. A node with more file descriptors may keep more."""
    is_cleaner_enabled: bool = False

    @classmethod
    def read(cls, source: SettingsSource) -> Self:
        """Read the values by their broker-level names."""
        return cls(
            retention_check_interval_ms=source.get("log.retention.check.interval.ms"),
            recovery_point_interval_ms=source.get("log.flush.offset.checkpoint.interval.ms"),
            start_offset_interval_ms=source.get("log.flush.start.offset.checkpoint.interval.ms"),
            high_watermark_interval_ms=source.get("replica.high.watermark.checkpoint.interval.ms"),
            initial_task_delay_ms=source.get("log.initial.task.delay.ms"),
            recovery_threads_per_directory=source.get("num.recovery.threads.per.data.dir"),
            producer_id_expiration_ms=source.get("producer.id.expiration.ms"),
            producer_id_expiration_check_interval_ms=source.get("producer.id.expiration.check.interval.ms"),
            is_cleaner_enabled=source.get("log.cleaner.enable"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerSettings:
    """The settings of the log cleaner, which may change at any time. The defaults are Kafka's."""

    map_bytes: int = 128 << 20
    """For all cleaners together."""
    bytes_per_second: float = float("inf")
    backoff_ms: int = 15_000
    thread_count: int = 1

    @classmethod
    def read(cls, source: SettingsSource) -> Self:
        """Read the values by their broker-level names."""
        return cls(
            map_bytes=source.get("log.cleaner.dedupe.buffer.size"),
            bytes_per_second=source.get("log.cleaner.io.max.bytes.per.second"),
            backoff_ms=source.get("log.cleaner.backoff.ms"),
            thread_count=source.get("log.cleaner.threads"),
        )
