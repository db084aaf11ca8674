"""Creates decoders from options: `valueFormat`, `valueSchema`, `valueMessage`, `valueSubject`, and the same for
keys.

This runs on the driver, once, when Spark asks for the schema of the source. The result, including schemas from a
registry, is fixed for the life of the query: a newer schema changes how values are resolved, never the type of the
column.
"""

from __future__ import annotations

import dataclasses
from functools import cached_property

import pyarrow as pa
from pyspark.sql.types import StructType

from penstock.client.errors import RegistryError
from penstock.spark.decoding.arrow_ipc import ArrowDecoder
from penstock.spark.decoding.avro import AvroDecoder, RegisteredAvroDecoder, texts_of
from penstock.spark.decoding.base import Decoded, Decoder
from penstock.spark.decoding.ddl import data_type_of
from penstock.spark.decoding.framing import Framed, RegistryAt
from penstock.spark.decoding.json_schema import data_type_by
from penstock.spark.decoding.json_text import JsonDecoder
from penstock.spark.decoding.protobuf import ProtobufDecoder, RegisteredProtobufDecoder
from penstock.spark.decoding.protobuf_schemas import files_in
from penstock.spark.decoding.text import TextDecoder
from penstock.spark.errors import BadOption
from penstock.spark.options import Options

REGISTRY_TYPES = {"avro": "AVRO", "json": "JSON", "protobuf": "PROTOBUF"}


def decoder_of(
    options: Options, schema: StructType | None = None, *, column: str = "value"
) -> Decoder | None:
    """The decoder of the keys or the values; None if they stay bytes.

    `schema` is the schema that the user gave to the reader, if any: JSON takes its type from there.
    """
    assert column in ("key", "value")
    wanted = _Wanted(column, options, schema)
    match options.get(f"{column}Format"):
        case "bytes":
            wanted.reject_schema()
            return None
        case "string":
            wanted.reject_schema()
            return TextDecoder()
        case "json":
            return wanted.json()
        case "avro":
            return wanted.avro()
        case "protobuf":
            return wanted.protobuf()
        case "arrow":
            return ArrowDecoder.of(wanted.need_schema("columns, such as `id BIGINT, name STRING`"))
        case other:
            raise BadOption(f"unknown format {other}")


@dataclasses.dataclass(frozen=True)
class RegisteredJsonDecoder(Framed):
    """JSON after the id of its schema. Whatever that schema is, values are read as the query's type."""

    def _decode_group(self, schema_id: int, bodies: pa.Array) -> Decoded:
        return self._plain.decode(bodies)

    @cached_property
    def _plain(self) -> JsonDecoder:
        return JsonDecoder(self.data_type)


class _Wanted:
    """The options of one column."""

    def __init__(self, column: str, options: Options, given: StructType | None) -> None:
        self._column = column
        self._options = options
        self._given = given
        self._schema: str | None = options.get(f"{column}Schema")
        self._message: str | None = options.get(f"{column}Message")
        url = options.get("schemaRegistryUrl")
        self._registry = RegistryAt(url, options.get("schemaRegistryLogin") or "") if url else None

    def json(self) -> Decoder:
        if self._schema is not None:
            data_type = data_type_of(self._schema)
        elif self._given is not None and self._column in self._given.names:
            data_type = self._given[self._column].dataType
        elif self._registry is not None:
            data_type = data_type_by(self._latest("json")[-1])
        else:
            data_type = data_type_of(self.need_schema("columns, such as `id BIGINT, name STRING`"))
        decoder = JsonDecoder(data_type)
        return decoder if self._registry is None else RegisteredJsonDecoder(data_type, self._registry)

    def avro(self) -> Decoder:
        texts = (self._schema,) if self._schema is not None else None
        if self._registry is not None:
            return RegisteredAvroDecoder.of(self._registry, texts or self._latest("avro"))
        return AvroDecoder.of(texts or (self.need_schema("an Avro schema in JSON"),))

    def protobuf(self) -> Decoder:
        if self._registry is not None and self._schema is None:
            self._latest("protobuf")
            return RegisteredProtobufDecoder.latest(self._registry, self._subject(), self._message)
        files = files_in(self.need_schema("a FileDescriptorSet, as base64 or by its path"), self._message)
        if self._registry is not None:
            return RegisteredProtobufDecoder.of(self._registry, files)
        return ProtobufDecoder.of(files)

    def need_schema(self, what: str) -> str:
        if self._schema is None:
            raise BadOption(f"{self._name('Format')} needs {self._name('Schema')}: {what}")
        return self._schema

    def reject_schema(self) -> None:
        if self._schema is not None:
            format = self._options.get(f"{self._column}Format")
            raise BadOption(
                f"{self._name('Schema')} does not apply to {self._column}Format={format}: set json, avro, ..."
            )

    def _latest(self, format: str) -> tuple[str, ...]:
        """The latest schema of the subject, after those that it refers to."""
        assert self._registry is not None
        subject, client = self._subject(), self._registry.client
        try:
            schema = client.latest(subject).schema
        except RegistryError as error:
            raise BadOption(f"cannot get the schema of {subject} from the registry: {error}") from error
        if schema.type != REGISTRY_TYPES[format]:
            raise BadOption(
                f"the schema of {subject} has type {schema.type}, but {self._name('Format')} is {format}"
            )
        return texts_of(client, schema)

    def _subject(self) -> str:
        given: str | None = self._options.get(f"{self._column}Subject")
        if given is not None:
            return given
        topics = self._options.get("subscribe") or sorted(self._options.get("assign") or ())
        if len(topics) != 1:
            raise BadOption(f"{self._name('Subject')} is required unless the source reads exactly one topic")
        return f"{topics[0]}-{self._column}"

    def _name(self, end: str) -> str:
        return f"option {self._column}{end}"
