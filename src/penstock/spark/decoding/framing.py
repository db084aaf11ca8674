"""Decodes values that start with the id of their schema: rows are grouped by id, and each group is read with its
schema.

A topic has one or two schemas at a time, so a column has one or two groups. Ids that the registry does not know make
rows bad. A registry that does not answer is not the records' fault: it fails the task, which Spark retries.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from functools import lru_cache

import numpy
import pyarrow as pa

from penstock.client.errors import RegistryError
from penstock.client.serializers.framing import HEAD_BYTES, read_head
from penstock.client.serializers.registry import Registry
from penstock.spark.decoding.base import Bad, Decoded, Decoder, all_bad, bad_by
from penstock.spark.decoding.buffers import bytes_of, without_first

NOT_FOUND = 404


@dataclasses.dataclass(frozen=True)
class RegistryAt:
    """The address of a registry. Its client, with its cache, is created once per process."""

    url: str
    login: str = dataclasses.field(default="", repr=False)
    """`user:password`."""

    @property
    def client(self) -> Registry:
        return _client(self)


@lru_cache
def _client(at: RegistryAt) -> Registry:
    user, _, password = at.login.partition(":")
    return Registry(at.url, user=user or None, password=password or None)


@dataclasses.dataclass(frozen=True)
class Framed(Decoder):
    """A decoder of values that start with a schema id."""

    registry: RegistryAt

    @abstractmethod
    def _decode_group(self, schema_id: int, bodies: pa.Array) -> Decoded:
        """Decode the rest of rows that name the same schema."""

    def _decode_present(self, column: pa.Array) -> Decoded:
        ids, bad = schema_ids(column)
        found = sorted(set(ids.tolist()))
        if len(found) == 1 and not bad:
            return self._group(found[0], column)
        order: list[int] = []
        parts: list[pa.Array] = []
        for schema_id in found:
            rows = numpy.flatnonzero(ids == schema_id)
            if schema_id < 0:  # no schema id: already in `bad`
                parts.append(pa.nulls(len(rows), self.arrow_type))
            else:
                values, worse = self._group(schema_id, column.take(pa.array(rows)))
                parts.append(values)
                bad += [each._replace(row=int(rows[each.row])) for each in worse]
            order += rows.tolist()
        places = numpy.empty(len(order), numpy.int64)
        places[order] = numpy.arange(len(order))
        values = pa.concat_arrays(parts or [pa.nulls(0, self.arrow_type)]).take(pa.array(places))
        return Decoded(values, sorted(bad))

    def _group(self, schema_id: int, column: pa.Array) -> Decoded:
        try:
            return self._decode_group(schema_id, without_first(column, HEAD_BYTES))
        except RegistryError as error:
            if error.status != NOT_FOUND:
                raise
            reason = f"schema {schema_id} is not in the registry: {error}"
            return all_bad(len(column), self.arrow_type, reason, "penstock.errors.RegistryError")


def schema_ids(column: pa.Array) -> tuple[numpy.ndarray, list[Bad]]:
    """The id that each row starts with, and the rows without one, whose id is -1."""
    data, offsets = bytes_of(column)
    begins = offsets[:-1].astype(numpy.int64)
    whole = numpy.diff(offsets) >= HEAD_BYTES
    begins = begins[whole]
    ids = numpy.full(len(column), -1, numpy.int64)
    read = numpy.zeros(len(begins), numpy.int64)
    for index in range(1, HEAD_BYTES):
        read = (read << 8) | data[begins + index]
    ids[whole] = numpy.where(data[begins] == 0, read, -1)
    bad = []
    for row in numpy.flatnonzero(ids < 0).tolist():
        try:
            read_head(column[row].as_py())
        except ValueError as error:
            bad.append(bad_by(row, error))
    return ids, bad
