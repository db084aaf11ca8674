"""Log files as tables, for `penstock logs dump`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from penstock.cli.dump import decoders, indexes
from penstock.cli.dump.segments import DumpedBatch, SegmentFile, describe_origin, sequence_of
from penstock.cli.failures import Refusal
from penstock.cli.output import Column, show_time, to_json
from penstock.records.errors import RecordsError
from penstock.storage.errors import CorruptFile

SUFFIXES = (".log", ".checkpoint", ".index", ".timeindex", ".txnindex", ".snapshot")

TIME = Column("timestamp", show=show_time)
BATCH_COLUMNS: Sequence[str | Column] = (
    "base_offset",
    "last_offset",
    "records",
    Column("max_timestamp", show=show_time),
    "codec",
    "bytes",
    "position",
    "leader_epoch",
    "producer",
    "producer_epoch",
    "sequence",
    "flags",
    "valid",
)
RECORD_COLUMNS: Sequence[str | Column] = ("offset", TIME, "key", "value", "headers", "sequence", "control")

DECODERS = {
    "text": decoders.plain_decoder,
    "offsets": decoders.offsets_decoder,
    "transactions": decoders.transactions_decoder,
    "metadata": decoders.metadata_decoder,
}

Row = Sequence[object]


@dataclass(slots=True)
class Listing:
    """The content of one file."""

    path: str
    kind: str
    title: str
    columns: Sequence[str | Column]
    rows: Iterable[Row]
    problems: list[str] = field(default_factory=list)
    """Complete after the last row."""

    def print_json_lines(self) -> None:
        """One object per line, so that a program can read a file larger than memory."""
        keys = [column if isinstance(column, str) else column.key for column in self.columns]
        for row in self.rows:
            print(to_json({"file": self.path, "kind": self.kind, **dict(zip(keys, row, strict=True))}))
        for problem in self.problems:
            print(to_json({"file": self.path, "kind": "problem", "problem": problem}))


def log_files(paths: Iterable[str]) -> Iterator[str]:
    """Files as they are; for a directory all its log files, ordered by offset."""
    for path in paths:
        if not os.path.isdir(path):
            yield path
            continue
        names = sorted(name for name in os.listdir(path) if name.endswith(SUFFIXES))
        if not names:
            raise Refusal(
                f"{path} contains no log files; name the directory of a partition, such as orders-0"
            )
        yield from (os.path.join(path, name) for name in names)


def list_file(path: str, *, wants_records: bool, decoder: str, rows_max: int | None) -> Listing:
    """The content of a file, by its suffix."""
    os.stat(path)  # fails for a missing file before anything is printed
    match os.path.splitext(path)[1]:
        case ".log" | ".checkpoint":
            return _segment(path, wants_records=wants_records, decoder=decoder, rows_max=rows_max)
        case ".index":
            entries = [entry for entry in indexes.read_offset_index(path) if entry.position > 0]  # see below
            wrong = indexes.check_offset_index(path, entries)
            problems = [f"offset {one.indexed} in the index, {one.found} in the log" for one in wrong]
            return _listing(path, "offset index", ("offset", "position"), entries, rows_max, problems)
        case ".timeindex":
            return _time_index(path, rows_max)
        case ".txnindex":
            columns = ("version", "producer", "first_offset", "last_offset", "last_stable_offset")
            aborted = indexes.read_aborted_index(path)
            return _listing(path, "aborted transactions", columns, aborted, rows_max, [])
        case ".snapshot":
            return _producers(path, rows_max)
    raise Refusal(f"{path} is not a log file: the suffix must be one of {', '.join(SUFFIXES)}")


def _listing(
    path: str,
    kind: str,
    columns: Sequence[str | Column],
    rows: Iterable[Row],
    rows_max: int | None,
    problems: list[str],
) -> Listing:
    return Listing(path, kind, kind, columns, list(islice(rows, rows_max)), problems)


def _segment(path: str, *, wants_records: bool, decoder: str, rows_max: int | None) -> Listing:
    problems: list[str] = []
    decode = decoders.decoder_for(path) if decoder == "auto" else DECODERS[decoder]()
    return Listing(
        path,
        "record" if wants_records else "batch",
        describe_origin(path) or "a segment",
        RECORD_COLUMNS if wants_records else BATCH_COLUMNS,
        islice(_walk(path, decode if wants_records else None, problems), rows_max),
        problems,
    )


def _walk(path: str, decode: decoders.Decoder | None, problems: list[str]) -> Iterator[Row]:
    """Batches, or with a decoder records, one by one: a segment may be larger than memory."""
    with SegmentFile(path) as segment:
        if decode is None:
            yield from map(_batch, segment.batches())
        else:
            yield from _records(segment, decode, problems)
        if segment.garbage_bytes:
            problems.append(f"{segment.garbage_bytes} bytes at the end are not a batch")


def _batch(batch: DumpedBatch) -> Row:
    header = batch.header
    flags = [
        name
        for name, is_set in (("transactional", header.is_transactional), ("control", header.is_control))
        if is_set
    ]
    return (
        header.base_offset,
        header.last_offset,
        header.record_count,
        header.max_timestamp,
        header.compression.name.lower(),
        header.size_bytes,
        batch.position,
        header.leader_epoch,
        header.producer_id if header.has_producer_id else None,
        header.producer_epoch if header.has_producer_id else None,
        header.base_sequence if header.base_sequence >= 0 else None,
        flags,
        batch.is_valid,
    )


def _records(segment: SegmentFile, decode: decoders.Decoder, problems: list[str]) -> Iterator[Row]:
    for batch in segment.batches():
        header = batch.header
        if not batch.is_valid:
            problems.append(
                f"the batch at position {batch.position} (offset {header.base_offset}) is damaged"
            )
            continue
        try:
            for record in segment.records(batch):
                shown = decoders.Shown(None, None) if header.is_control else decode(record)
                sequence = sequence_of(record, header)
                yield (
                    record.offset,
                    record.timestamp,
                    shown.key,
                    shown.value,
                    {str(name): value for name, value in record.headers},
                    sequence if sequence >= 0 else None,
                    decoders.describe_control(record) if header.is_control else None,
                )
        except RecordsError as problem:
            problems.append(f"the batch at position {batch.position}: {problem}")


def _time_index(path: str, rows_max: int | None) -> Listing:
    # A running Kafka preallocates its indexes with zeros; no real entry is zero.
    entries = [entry for entry in indexes.read_time_index(path) if entry.timestamp_ms > 0]
    found = indexes.check_time_index(path, entries)
    problems = [
        *(f"timestamp {one.indexed} in the index, {one.found} in the log" for one in found.wrong_times),
        *(f"timestamp {one.indexed} comes after {one.found}" for one in found.out_of_order),
        *(f"no batch ends at offset {one.indexed}" for one in found.not_found),
    ]
    return _listing(path, "time index", (TIME, "offset"), entries, rows_max, problems)


def _producers(path: str, rows_max: int | None) -> Listing:
    columns = (
        "producer",
        "epoch",
        "coordinator_epoch",
        "transaction_start_offset",
        Column("last_timestamp", show=show_time),
        "last_sequence",
        "last_offset",
    )
    try:
        producers = indexes.read_producer_snapshot(path)
    except CorruptFile as problem:
        return Listing(path, "producer", "producers", columns, [], [str(problem)])
    rows: list[Row] = [
        (
            producer.producer_id,
            producer.epoch,
            producer.coordinator_epoch if producer.coordinator_epoch >= 0 else None,
            producer.transaction_start_offset if producer.transaction_start_offset >= 0 else None,
            producer.last_timestamp_ms,
            producer.batches[-1].last_sequence if producer.batches else None,
            producer.batches[-1].last_offset if producer.batches else None,
        )
        for producer in producers
    ]
    return Listing(path, "producer", "producers", columns, list(rows[:rows_max]), [])
