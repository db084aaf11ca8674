"""Validates what producers write, and converts it to the form in which it is stored.

In the common case (one intact v2 batch, with the topic's compression and timestamp type) the bytes stay unchanged: the
kernel reads the records once, decompresses them if needed, and checks that they match the header. So every consumer
can read what is in a log. Recompression and old message sets make new bytes.

Checking compressed records costs as much as their uncompressed size. So a caller on the event loop passes the `Effort`
that it can spend; `TakesLong` means that the same call must run in a worker, bounded only by `DECOMPRESSED_BYTES_MAX`.
`validate` uses nothing but its arguments, so it may run there.

Every error is a `Refused` with the code that Kafka's clients act on. Nothing is written in part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.records import kernel
from penstock.records.batch import (
    COMPRESSION_MASK,
    CONTROL_MASK,
    MAGIC,
    MAGIC_AT,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    BatchHeader,
    Compression,
    RecordScan,
    set_max_timestamp,
    stamp_append_time,
)
from penstock.records.compression import DECOMPRESSED_BYTES_MAX
from penstock.records.convert import recompress, up_convert
from penstock.records.errors import RecordsError, TooLarge

NEWEST_PRODUCE_VERSION = 13
BATCHES_ONLY_VERSION = 3  # from here on a request has one v2 batch per partition, and no older format
ZSTD_VERSION = 7  # KIP-110
FOREVER_MS = 2**63 - 1  # Kafka's "no bound"
FAULTS_MAX = 100  # records that an error names; many invalid records must not make a large response

KIB, MIB = 1 << 10, 1 << 20
EFFORT_BYTES = MIB  # decompressed and checked in 1 to 3 ms, the longest that other requests should wait
RECOMPRESSION_EFFORT = 8  # compressing a byte takes about as long as checking so many
MESSAGE_EFFORT = 16  # and so does making a Python object of a message, per byte
MESSAGE_SET_BYTES_MAX = 8 * MIB  # decompressed; every message is an object of ten times its size
MESSAGE_SET_SHRINKS = 4  # a set of tiny messages becomes a batch of a quarter of its size

UNUSUAL_MASK = TIMESTAMP_TYPE_MASK | TRANSACTIONAL_MASK | CONTROL_MASK


class RecordFault(NamedTuple):
    """An invalid record of a produced batch, and why (KIP-467)."""

    record_index: int
    message: str


class RecordsRefused(Refused):
    """An error that names records, so that the producer can drop those and send the rest again."""

    def __init__(self, error: ErrorCode, faults: list[RecordFault]) -> None:
        super().__init__(
            error, f"{len(faults)} record(s) of the batch are invalid; the first: {faults[0].message}"
        )
        self.faults = faults


class TakesLong(Exception):
    """Checking these records takes longer than the caller's `Effort`; nothing was decided."""


class Effort:
    """How much may still be checked before other requests get their turn."""

    __slots__ = ("bytes_left",)

    def __init__(self, bytes_left: int = EFFORT_BYTES) -> None:
        self.bytes_left = bytes_left

    def spend(self, size: int) -> None:
        if size > self.bytes_left:
            raise TakesLong
        self.bytes_left -= size


class SettingsSource(Protocol):
    def get(self, name: str, /) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRules:
    """A topic's settings for what it accepts, as plain values. The defaults are Kafka's."""

    max_message_bytes: int = 1_048_588
    compression: Compression | None = None
    """None keeps the producer's codec."""
    compression_level: int | None = None
    stamps_append_time: bool = False
    timestamp_before_max_ms: int = FOREVER_MS
    timestamp_after_max_ms: int = 3_600_000
    needs_keys: bool = False
    min_insync_replicas: int = 1

    @classmethod
    def read(cls, source: SettingsSource) -> Self:
        """Read the values by their topic-level names, e.g. from `TopicSettings`."""
        name = source.get("compression.type")
        compression = None if name == "producer" else COMPRESSION_BY_NAME[name]
        level = f"compression.{name}.level" if name in ("gzip", "lz4", "zstd") else None
        return cls(
            max_message_bytes=source.get("max.message.bytes"),
            compression=compression,
            compression_level=None if level is None else _level(source.get(level)),
            stamps_append_time=source.get("message.timestamp.type") == "LogAppendTime",
            timestamp_before_max_ms=source.get("message.timestamp.before.max.ms"),
            timestamp_after_max_ms=source.get("message.timestamp.after.max.ms"),
            needs_keys="compact" in source.get("cleanup.policy"),
            min_insync_replicas=source.get("min.insync.replicas"),
        )


def _level(level: int) -> int | None:
    """None for -1, with which `compression.gzip.level` leaves the choice to the codec."""
    return None if level == -1 else level


COMPRESSION_BY_NAME = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


def validate(
    records: memoryview,
    rules: ProduceRules,
    *,
    request_version: int,
    now_ms: int,
    effort: Effort | None = None,
) -> tuple[memoryview, list[BatchHeader]]:
    """The batches to append and their headers, final except for offset and leader epoch."""
    if len(records) <= MAGIC_AT:
        raise Refused(ErrorCode.INVALID_RECORD, "the produce request has no record batch for this partition")
    if records[MAGIC_AT] != MAGIC:
        records = _convert_message_set(records, rules, request_version, effort)
    if len(records) > rules.max_message_bytes:
        raise Refused(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the record batch has {len(records)} bytes, more than max.message.bytes={rules.max_message_bytes}",
        )
    try:
        header, scan = kernel.inspect_batch(records)
    except RecordsError as error:
        raise _refusal(error) from error
    _check_header(records, header, request_version)
    if scan is None:
        scan = _scan_compressed(records, effort)
    _check_records(records, scan, rules, now_ms)
    if rules.compression is not None and rules.compression != header.attributes & COMPRESSION_MASK:
        records, header = _recompress(records, rules.compression, scan, rules, effort)
    if rules.stamps_append_time:
        stamp_append_time(records, 0, now_ms)
        header = kernel.read_header(records, 0)
    elif scan.max_timestamp != header.max_timestamp:
        # Lookups and retention by time use this number, so it is corrected, as Kafka does.
        set_max_timestamp(records, 0, scan.max_timestamp)
        header = kernel.read_header(records, 0)
    return records, [header]


def _convert_message_set(
    records: memoryview, rules: ProduceRules, request_version: int, effort: Effort | None
) -> memoryview:
    """A message set (v0 or v1) as one v2 batch: the log holds nothing else."""
    if request_version >= BATCHES_ONLY_VERSION:
        raise Refused(
            ErrorCode.INVALID_RECORD,
            f"Produce v{request_version} needs record batches with magic 2, not {records[MAGIC_AT]}",
        )
    if len(records) > MESSAGE_SET_SHRINKS * rules.max_message_bytes:
        raise Refused(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the message set has {len(records)} bytes, more than max.message.bytes={rules.max_message_bytes}",
        )
    limit_bytes = MESSAGE_SET_BYTES_MAX
    if effort is not None:
        effort.spend(len(records) * MESSAGE_EFFORT)
        limit_bytes = 0  # this decompresses nothing
    try:
        return memoryview(up_convert(records, limit_bytes=limit_bytes))
    except TooLarge as error:
        if effort is not None:
            raise TakesLong from error
        raise _refusal(error) from error
    except RecordsError as error:
        raise _refusal(error) from error


def _scan_compressed(records: memoryview, effort: Effort | None) -> RecordScan:
    """Check that a compressed batch holds the records that its header declares."""
    try:
        if effort is None:
            scan = kernel.scan_records(records, limit_bytes=DECOMPRESSED_BYTES_MAX)
        else:
            scan = kernel.scan_records(records, limit_bytes=effort.bytes_left)
            effort.spend(scan.payload_bytes)
    except TooLarge as error:
        if effort is not None:
            raise TakesLong from error
        raise _refusal(error) from error
    except RecordsError as error:
        raise _refusal(error) from error
    if not scan.has_consecutive_offsets:
        raise Refused(ErrorCode.INVALID_RECORD, "the relative offsets of a record batch must be 0, 1, 2, ...")
    return scan


def _check_header(records: memoryview, header: BatchHeader, request_version: int) -> None:
    """Rules for every producer and every topic."""
    if header.size_bytes != len(records):
        raise Refused(
            ErrorCode.INVALID_RECORD,
            "a produce request must have exactly one record batch for each partition",
        )
    attributes = header.attributes
    if attributes & UNUSUAL_MASK:
        if attributes & CONTROL_MASK:
            raise Refused(ErrorCode.INVALID_RECORD, "clients cannot write control records")
        if attributes & TIMESTAMP_TYPE_MASK:
            raise Refused(
                ErrorCode.INVALID_TIMESTAMP,
                "producers cannot use the timestamp type LogAppendTime; set message.timestamp.type of the topic",
            )
        if header.producer_id < 0:
            # Kafka accepts it as non-transactional, but the producer must have meant something else.
            raise Refused(ErrorCode.INVALID_RECORD, "a transactional record batch must have a producer id")
    if attributes & COMPRESSION_MASK == Compression.ZSTD and request_version < ZSTD_VERSION:
        raise Refused(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Produce v{request_version} does not support zstd; use v{ZSTD_VERSION} or newer",
        )
    if header.base_offset != 0:
        raise Refused(
            ErrorCode.INVALID_RECORD,
            f"the base offset of a produced record batch must be 0, not {header.base_offset}",
        )
    if header.record_count <= 0 or header.last_offset_delta != header.record_count - 1:
        raise Refused(
            ErrorCode.INVALID_RECORD,
            f"a record batch of {header.record_count} records cannot have last offset delta {header.last_offset_delta}",
        )
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise Refused(
            ErrorCode.INVALID_RECORD,
            f"producer id {header.producer_id} sent an invalid sequence number, {header.base_sequence}",
        )


def _check_records(records: memoryview, scan: RecordScan, rules: ProduceRules, now_ms: int) -> None:
    """Rules for every record. A scan finds whether any record breaks one; only then each is checked."""
    earliest = now_ms - rules.timestamp_before_max_ms
    latest = now_ms + rules.timestamp_after_max_ms
    if (rules.needs_keys and scan.keyless_count) or (
        not rules.stamps_append_time and (scan.min_timestamp < earliest or scan.max_timestamp > latest)
    ):
        _name_faults(records, rules, earliest, latest)


def _name_faults(records: memoryview, rules: ProduceRules, earliest: int, latest: int) -> None:
    faults: list[RecordFault] = []
    code = ErrorCode.INVALID_RECORD
    for index, record in enumerate(kernel.iterate_records(records)):
        if rules.needs_keys and record.key is None:
            faults.append(RecordFault(index, "the record has no key, which a compacted topic requires"))
        elif (
            not rules.stamps_append_time
            and record.timestamp != NO_TIMESTAMP
            and not earliest <= record.timestamp <= latest
        ):
            code = ErrorCode.INVALID_TIMESTAMP
            bounds = (
                f"later than {latest}, which message.timestamp.after.max.ms allows"
                if record.timestamp > latest
                else f"earlier than {earliest}, which message.timestamp.before.max.ms allows"
            )
            faults.append(RecordFault(index, f"the timestamp {record.timestamp} is {bounds}"))
        if len(faults) == FAULTS_MAX:
            break
    if faults:
        raise RecordsRefused(code, faults)


def _recompress(
    records: memoryview,
    compression: Compression,
    scan: RecordScan,
    rules: ProduceRules,
    effort: Effort | None,
) -> tuple[memoryview, BatchHeader]:
    """The batch in the topic's `compression.type`."""
    if effort is not None:
        effort.spend(scan.payload_bytes * RECOMPRESSION_EFFORT)
    try:
        records = memoryview(recompress(records, compression, rules.compression_level))
    except RecordsError as error:
        raise _refusal(error) from error
    if len(records) > rules.max_message_bytes:
        raise Refused(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the record batch has {len(records)} bytes after recompression, more than max.message.bytes="
            f"{rules.max_message_bytes}",
        )
    return records, kernel.read_header(records, 0)


def _refusal(error: RecordsError) -> Refused:
    return Refused(ErrorCode[error.error_name], str(error))
