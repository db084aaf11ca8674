"""`penstock produce`: read records from their source, write them, and report the result."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import BinaryIO

from penstock.cli.failures import Misuse, Refusal
from penstock.cli.output import Output, say
from penstock.cli.record_writer import Written, write_records
from penstock.cli.records.formats import FormatWriter
from penstock.cli.records.line_reader import Header, LineRules, NewRecord, read_json, read_lines


@dataclass(frozen=True, slots=True)
class Source:
    """Where records come from, and the defaults for all of them."""

    values: tuple[str, ...]
    file: str | None
    format: str
    key: str | None
    key_separator: str | None
    headers: tuple[str, ...]
    null: str | None
    partition: int | None
    key_writer: FormatWriter | None = None
    value_writer: FormatWriter | None = None

    def check(self) -> None:
        if self.values and self.file is not None:
            raise Misuse("give values or --file, not both")
        if self.key is not None and self.key_separator is not None:
            raise Misuse("give --key (for all records) or --key-separator (for each), not both")
        if self.format != "lines" and self.key_separator is not None:
            raise Misuse(f"--key-separator needs --format lines, not {self.format}")
        for header in self.headers:
            if "=" not in header:
                raise Misuse(f"--header {header}: must be name=value")

    def records(self, stream: BinaryIO | None) -> Iterator[NewRecord]:
        """All records, from the command line or from a stream."""
        rules = LineRules(
            has_key=self.key_separator is not None,
            key_separator=self.key_separator or "\t",
            null_marker=self.null,
            write_key=None if self.key_writer is None else self.key_writer.write_text,
            write_value=None if self.value_writer is None else self.value_writer.write_text,
        )
        if stream is None:
            found = read_lines(self.values, rules)
        elif self.format == "whole":
            found = iter([NewRecord(self._whole(stream.read()))])
        else:
            lines = (line.decode("utf-8", "surrogateescape") for line in stream)
            found = read_lines(lines, rules) if self.format == "lines" else self._read_json(lines)
        return map(self._complete, found)

    def _whole(self, data: bytes) -> bytes:
        if self.value_writer is None:
            return data
        try:
            return self.value_writer.write_text(data.decode())
        except ValueError as problem:
            raise Refusal(f"cannot serialize the input: {problem}") from problem

    def _read_json(self, lines: Iterator[str]) -> Iterator[NewRecord]:
        return read_json(
            lines,
            write_key=None if self.key_writer is None else self.key_writer.write,
            write_value=None if self.value_writer is None else self.value_writer.write,
        )

    def _complete(self, record: NewRecord) -> NewRecord:
        """Add the defaults that the record does not set itself."""
        if self.key is None and self.partition is None and not self.headers:
            return record
        return record._replace(
            key=self._key() if record.key is None and self.key is not None else record.key,
            partition=self.partition if record.partition is None else record.partition,
            headers=(*record.headers, *map(self._header, self.headers)),
        )

    def _key(self) -> bytes | None:
        assert self.key is not None
        if self.key_writer is None or self.key == self.null:
            return self._encode(self.key)
        try:
            return self.key_writer.write_text(self.key)
        except ValueError as problem:
            raise Misuse(f"--key {self.key}: {problem}") from problem

    def _header(self, text: str) -> Header:
        name, _, value = text.partition("=")
        return name, self._encode(value)

    def _encode(self, text: str) -> bytes | None:
        return None if text == self.null else text.encode("utf-8", "surrogateescape")


def run(topic: str, source: Source, settings: Mapping[str, object], output: Output) -> None:
    """Write the records and print the result."""
    source.check()
    with ExitStack() as stack:
        stream: BinaryIO | None = None
        size: int | None = None
        if source.file is not None:
            stream = stack.enter_context(open(source.file, "rb"))
            size = os.fstat(stream.fileno()).st_size
        elif not source.values:
            stream = sys.stdin.buffer
        is_typed = stream is not None and stream.isatty()
        if is_typed:
            say(f"Each line is a record of {topic}; Ctrl-D ends.")
        began = time.perf_counter()
        progress = output.progress(f"writing to {topic}", total=size, unit="bytes")
        if not is_typed:  # the bar would disturb typing
            stack.enter_context(progress)
        written = write_records(
            topic,
            source.records(stream),
            settings,
            on_progress=lambda written: progress.update(written.bytes),
        )
        seconds = time.perf_counter() - began
    output.result(_sentence(topic, written, seconds), _facts(topic, written, seconds))


def _sentence(topic: str, written: Written, seconds: float) -> str:
    return f"wrote {written} to {topic} in {seconds:.2f} s"


def _facts(topic: str, written: Written, seconds: float) -> dict[str, object]:
    return {
        "topic": topic,
        "records": written.records,
        "bytes": written.bytes,
        "seconds": round(seconds, 3),
        "partitions": {str(partition): count for partition, count in sorted(written.partitions.items())},
    }
