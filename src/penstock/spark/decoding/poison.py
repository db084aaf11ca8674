"""Handles records that cannot be decoded: they fail the query, are null, are dropped, or become dead letters.

`Decoding` runs in the reading task, as a transform of Arrow batches: it replaces columns that have a decoder, and
handles bad rows by the option `poison`. Without bad rows it costs nothing beyond the decoding.

Dead letters are delivered before the task ends, and so before Spark counts its records as read: a record is in the
query's output, in the dead letter topic, or will be read again. `dead_letters.py` explains repeated reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from typing import NamedTuple

import numpy
import pyarrow as pa
from pyspark.sql.types import StructType

from penstock.client.cluster import TopicPartition
from penstock.spark.decoding.base import Bad, Decoder
from penstock.spark.decoding.choosing import decoder_of
from penstock.spark.decoding.dead_letters import DeadLetters, Letter, letters_of
from penstock.spark.errors import BadOption, PoisonRecord
from penstock.spark.lookup import reads_topic
from penstock.spark.options import Options

DECODED = ("key", "value")
TO_NAME_A_RECORD = ("topic", "partition", "offset")
TO_SEND_A_RECORD = (*TO_NAME_A_RECORD, "key", "value", "timestamp", "headers")

Decoders = Mapping[str, Decoder]


class Fault(NamedTuple):
    """A bad key or value in a batch."""

    column: str
    bad: Bad


def decoders_of(options: Options, schema: StructType | None = None) -> dict[str, Decoder]:
    """The decoders by column. This asks the registry."""
    check(options)
    given = {column: decoder_of(options, schema, column=column) for column in DECODED}
    found = {column: decoder for column, decoder in given.items() if decoder is not None}
    if not found:
        for name in ("poison", "deadLetterTopic"):
            if options.is_set(name):
                raise BadOption(f"option {name} needs a format: set valueFormat or keyFormat")
    return found


def check(options: Options) -> None:
    """Reject contradictory options."""
    topic = options.get("deadLetterTopic")
    policy = options.get("poison")
    if topic is None and policy == "deadLetter":
        raise BadOption("option poison=deadLetter needs deadLetterTopic")
    if topic is not None and options.is_set("poison") and policy != "deadLetter":
        raise BadOption(f"option poison={policy} contradicts deadLetterTopic: remove one of them")
    if topic is not None and reads_topic(options, topic):
        raise BadOption(
            f"option deadLetterTopic: the query reads {topic}, so it would read its own dead letters"
        )


class Decoding:
    """Turns batches of records into batches with the columns `names`, with keys and values decoded.

    Created on the driver, pickled to the tasks.
    """

    def __init__(self, options: Options, names: tuple[str, ...], decoders: Decoders) -> None:
        self._names = names
        self._decoders = {name: decoder for name, decoder in decoders.items() if name in names}
        self._topic: str | None = options.get("deadLetterTopic")
        self._policy: str = "deadLetter" if self._topic is not None else options.get("poison")
        self._settings = options.settings
        self._query: str | None = options.get("groupId")

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns to read, including those that locate a bad record."""
        more = () if not self._decoders else TO_SEND_A_RECORD if self._topic is not None else TO_NAME_A_RECORD
        return tuple(dict.fromkeys((*self._names, *more)))

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        letters = None
        if self._topic is not None:
            letters = DeadLetters(self._topic, self._settings, self._query)
        with letters or nullcontext():
            for batch in batches:
                yield self._decode(batch, letters)

    def _decode(self, batch: pa.RecordBatch, letters: DeadLetters | None) -> pa.RecordBatch:
        faults: list[Fault] = []
        columns = []
        fields = []
        for name in self._names:
            column, field = batch.column(name), batch.schema.field(name)
            decoder = self._decoders.get(name)
            if decoder is not None:
                column, bad = decoder.decode(column)
                field = pa.field(name, decoder.arrow_type)
                faults += [Fault(name, each) for each in bad]
            columns.append(column)
            fields.append(field)
        decoded = pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
        return self._handle(batch, decoded, faults, letters) if faults else decoded

    def _handle(
        self, batch: pa.RecordBatch, decoded: pa.RecordBatch, faults: list[Fault], letters: DeadLetters | None
    ) -> pa.RecordBatch:
        if self._policy == "fail":
            raise PoisonRecord(
                self._message(batch, min(faults, key=lambda fault: fault.bad.row), len(faults))
            )
        if self._policy == "null":
            return decoded
        if letters is not None:
            letters.send(self._letters(batch, faults))
        kept = numpy.ones(batch.num_rows, bool)
        kept[[fault.bad.row for fault in faults]] = False
        return decoded.filter(pa.array(kept))

    def _message(self, batch: pa.RecordBatch, fault: Fault, count: int) -> str:
        topic, partition, offset = (batch.column(name)[fault.bad.row].as_py() for name in TO_NAME_A_RECORD)
        decoder = type(self._decoders[fault.column]).__name__
        more = f" ({count - 1} more in this batch)" if count > 1 else ""
        return (
            f"cannot decode the {fault.column} at offset {offset} of {TopicPartition(topic, partition)} ({decoder}):"
            f" {fault.bad.reason}{more}. The option deadLetterTopic sends such records to another topic; poison=null or"
            " poison=drop continues without them"
        )

    def _letters(self, batch: pa.RecordBatch, faults: list[Fault]) -> list[Letter]:
        by_row: dict[int, list[Fault]] = {}
        for fault in faults:
            by_row.setdefault(fault.bad.row, []).append(fault)
        rows = sorted(by_row)
        records = batch.select(TO_SEND_A_RECORD).take(pa.array(rows)).to_pylist()
        return letters_of(
            records,
            [
                [(column, _class_name(self._decoders[column]), bad) for column, bad in by_row[row]]
                for row in rows
            ],
        )


def _class_name(decoder: Decoder) -> str:
    return f"{type(decoder).__module__}.{type(decoder).__qualname__}"
