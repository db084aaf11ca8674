"""Decodes strings: the bytes themselves, if they are UTF-8."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
from pyspark.sql.types import DataType, StringType

from penstock.spark.decoding.base import Decoded, Decoder, read_rows


@dataclasses.dataclass(frozen=True)
class TextDecoder(Decoder):
    """Makes no copy of a column that is all UTF-8."""

    data_type: DataType = dataclasses.field(default_factory=StringType)

    def _decode_present(self, column: pa.Array) -> Decoded:
        try:
            return Decoded(column.cast(pa.string()), [])
        except pa.ArrowInvalid:
            texts, bad = read_rows(column.to_pylist(), bytes.decode)
            return Decoded(pa.array(texts, pa.string()), bad)
