"""`kafka-dump-log.sh`: print log files like Kafka's DumpLogSegments."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.cli.failures import Refusal
from penstock.cli.flags import UsageError
from penstock.cli.kafka.tool import Options, Tool, flag

if TYPE_CHECKING:
    from penstock.cli.dump.decoders import Decoder
    from penstock.records.batch import BatchHeader

STRING_DECODER = "org.apache.kafka.tools.api.StringDecoder"
EVERYTHING = "2147483647"

TOOL = Tool(
    "This tool helps to parse a log file and dump its contents to the console.",
    flag("files", "The files to dump, separated by commas.", "file1, file2, ...", is_required=True),
    flag("print-data-log", "Print the content of records; implied by any decoder."),
    flag("deep-iteration", "Print records, not only batches."),
    flag("skip-record-metadata", "Print only keys and values."),
    flag("offsets-decoder", "Decode records of __consumer_offsets."),
    flag("transaction-log-decoder", "Decode records of __transaction_state."),
    flag("cluster-metadata-decoder", "Decode records of __cluster_metadata."),
    flag("share-group-state-decoder", "Decode records of __share_group_state."),
    flag("remote-log-metadata-decoder", "Decode records of __remote_log_metadata."),
    flag("key-decoder-class", "Decoder of keys.", "class", default=STRING_DECODER),
    flag("value-decoder-class", "Decoder of values.", "class", default=STRING_DECODER),
    flag("max-bytes", "Read at most this much of each file.", "Integer: size", default=EVERYTHING),
    flag("max-message-size", "Size of largest message.", "Integer: size", default="5242880"),
    flag("index-sanity-check", "Only check the sanity of indexes."),
    flag("verify-index-only", "Check indexes without printing them."),
)

DECODERS = ("offsets-decoder", "transaction-log-decoder", "cluster-metadata-decoder")
NOT_YET = ("share-group-state-decoder", "remote-log-metadata-decoder")


def run(options: Options) -> int:
    for name in NOT_YET:
        if options.has(name):
            raise Refusal(f"--{name}: not supported yet")
    problems: list[str] = []
    for path in options.text("files").split(","):
        path = path.strip()
        print(f"Dumping {path}")
        problems += _dump_file(path, options)
    print(*problems, sep="\n", end="\n" if problems else "", file=sys.stderr)
    return 0


def _dump_file(path: str, options: Options) -> Iterator[str]:
    """Print one file. Yields its problems, which are printed at the end."""
    match os.path.splitext(path)[1]:
        case ".log" | ".checkpoint":
            yield from _dump_records(path, options)
        case ".index":
            yield from _dump_offset_index(path, options)
        case ".timeindex":
            yield from _dump_time_index(path, options)
        case ".txnindex":
            _dump_aborted(path)
        case ".snapshot":
            _dump_producers(path)
        case _:
            print(f"Ignoring unknown file {path}", file=sys.stderr)


# -- batches and records


def _dump_records(path: str, options: Options) -> Iterator[str]:
    from penstock.cli.dump.decoders import describe_control
    from penstock.cli.dump.segments import SegmentFile, describe_origin, sequence_of

    decoder = _decoder(options)
    shows_content = options.has("print-data-log") or any(options.has(name) for name in DECODERS)
    is_deep = shows_content or options.has("deep-iteration")
    is_bare = options.has("skip-record-metadata")
    gaps: list[str] = []
    with SegmentFile(path, bytes_max=options.number("max-bytes")) as segment:
        if origin := describe_origin(path):
            print(origin)
        last_offset: int | None = None
        for batch in segment.batches():
            print(batch_line(batch.header, position=batch.position, is_valid=batch.is_valid))
            if not is_deep or not batch.is_valid:
                continue
            header = batch.header
            for record in segment.records(batch):
                if last_offset is not None and record.offset != last_offset + 1:
                    gaps.append(f"  {last_offset} is followed by {record.offset}")
                last_offset = record.offset
                parts: list[str] = []
                if not is_bare:
                    headers = ",".join(str(name) for name, _ in record.headers)
                    parts.append(
                        f"offset: {record.offset} {_time_kind(header)}: {record.timestamp} "
                        f"keySize: {_size(record.key)} valueSize: {_size(record.value)} "
                        f"sequence: {sequence_of(record, header)} headerKeys: [{headers}]"
                    )
                    if header.is_control:
                        parts.append(describe_control(record))
                if shows_content and not header.is_control:
                    shown = decoder(record)
                    parts += [] if shown.key is None else [f"key: {shown.key}"]
                    parts += [] if shown.value is None else [f"payload: {shown.value}"]
                print(("| " if parts else "") + " ".join(parts))
        if segment.garbage_bytes and options.get("max-bytes") == EVERYTHING:
            print(f"Found {segment.garbage_bytes} invalid bytes at the end of {os.path.basename(path)}")
    if gaps:
        yield f"Non-consecutive offsets in {os.path.abspath(path)}"
        yield from gaps


def batch_line(header: BatchHeader, *, position: int, is_valid: bool) -> str:
    horizon = header.delete_horizon_ms
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.record_count} "
        f"baseSequence: {header.base_sequence} lastSequence: {header.last_sequence} "
        f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
        f"partitionLeaderEpoch: {header.leader_epoch} isTransactional: {_flag(header.is_transactional)} "
        f"isControl: {_flag(header.is_control)} "
        f"deleteHorizonMs: {'OptionalLong.empty' if horizon is None else f'OptionalLong[{horizon}]'} "
        f"position: {position} {_time_kind(header)}: {header.max_timestamp} size: {header.size_bytes} "
        f"magic: {header.magic} compresscodec: {header.compression.name.lower()} crc: {header.crc} "
        f"isvalid: {_flag(is_valid)}"
    )


def _time_kind(header: BatchHeader) -> str:
    from penstock.records.batch import TimestampType

    return "LogAppendTime" if header.timestamp_type is TimestampType.LOG_APPEND_TIME else "CreateTime"


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _size(data: bytes | memoryview | None) -> int:
    return -1 if data is None else len(data)


def _decoder(options: Options) -> Decoder:
    from penstock.cli.dump import decoders

    if options.has("offsets-decoder"):
        return decoders.offsets_decoder()
    if options.has("transaction-log-decoder"):
        return decoders.transactions_decoder()
    if options.has("cluster-metadata-decoder"):
        return decoders.metadata_decoder()
    formats = []
    for name in ("key-decoder-class", "value-decoder-class"):
        wanted = options.text(name).rpartition(".")[2]
        if wanted not in decoders.FORMATS:
            raise UsageError(f"--{name} must be one of {', '.join(decoders.FORMATS)}, not {wanted}")
        formats.append(decoders.FORMATS[wanted])
    return decoders.plain_decoder(*formats)


# -- indexes


def _dump_offset_index(path: str, options: Options) -> Iterator[str]:
    from penstock.cli.dump import indexes
    from penstock.storage.index import OFFSET_ENTRY_BYTES

    entries = indexes.read_offset_index(path)
    if not entries:
        print(f"{path} is empty.")
        return
    if options.has("index-sanity-check"):
        indexes.check_sanity(path, OFFSET_ENTRY_BYTES)
        print(f"{path} passed sanity check.")
        return
    if not options.has("verify-index-only"):
        for entry in entries:
            print(f"offset: {entry.offset} position: {entry.position}")
    mismatches = indexes.check_offset_index(path, entries)
    if mismatches:
        yield f"Mismatches in :{os.path.abspath(path)}"
        yield from (f"  Index offset: {one.indexed}, log offset: {one.found}" for one in reversed(mismatches))


def _dump_time_index(path: str, options: Options) -> Iterator[str]:
    from penstock.cli.dump import indexes
    from penstock.storage.index import TIME_ENTRY_BYTES

    if options.has("index-sanity-check"):
        indexes.check_sanity(path, TIME_ENTRY_BYTES)
        print(f"{path} passed sanity check.")
        return
    entries = indexes.read_time_index(path)
    if not options.has("verify-index-only"):
        for entry in entries:
            print(f"timestamp: {entry.timestamp_ms} offset: {entry.offset}")
    problems = indexes.check_time_index(path, entries)
    if problems.wrong_times:
        yield f"Found timestamp mismatch in :{os.path.abspath(path)}"
        for one in problems.wrong_times:
            yield f"  Index timestamp: {one.indexed}, log timestamp: {one.found}"
    if problems.out_of_order:
        yield f"Found out of order timestamp in :{os.path.abspath(path)}"
        for one in problems.out_of_order:
            yield f"  Index timestamp: {one.indexed}, Previously indexed timestamp: {one.found}"
    if problems.not_found:
        yield "The following indexed offsets are not found in the log."
        for one in problems.not_found:
            yield f"Indexed offset: {one.indexed}, found log offset: {one.found}"


def _dump_aborted(path: str) -> None:
    from penstock.cli.dump.indexes import read_aborted_index

    for entry in read_aborted_index(path):
        print(
            f"version: {entry.version} producerId: {entry.producer_id} firstOffset: {entry.first_offset} "
            f"lastOffset: {entry.last_offset} lastStableOffset: {entry.last_stable_offset}"
        )


def _dump_producers(path: str) -> None:
    from penstock.cli.dump.indexes import read_producer_snapshot
    from penstock.storage.errors import CorruptFile

    try:
        producers = read_producer_snapshot(path)
    except CorruptFile as problem:
        print(problem, file=sys.stderr)
        return
    for producer in producers:
        start = producer.transaction_start_offset
        line = (
            f"producerId: {producer.producer_id} producerEpoch: {producer.epoch} "
            f"coordinatorEpoch: {producer.coordinator_epoch} "
            f"currentTxnFirstOffset: {'OptionalLong.empty' if start < 0 else f'OptionalLong[{start}]'} "
            f"lastTimestamp: {producer.last_timestamp_ms} "
        )
        if producer.batches:
            last = producer.batches[-1]
            line += (
                f"firstSequence: {last.first_sequence} lastSequence: {last.last_sequence} "
                f"lastOffset: {last.last_offset} offsetDelta: {last.offset_delta} timestamp: {last.timestamp_ms}"
            )
        print(line)
