"""Which decoder the options select."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType

from harness.registry import RegistryInMemory
from penstock.client.errors import BadConfiguration
from penstock.client.serializers import AvroSerializer, JsonSchemaSerializer
from penstock.spark.decoding import decoder_of
from penstock.spark.errors import BadOption
from penstock.spark.options import Options, Use

AVRO = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
JSON = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}


def options(**given: str) -> Options:
    return Options.read(
        {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders", **given}, Use.BATCH_READ
    )


def type_of(column: str = "value", **given: str) -> str:
    decoder = decoder_of(options(**given), column=column)
    assert decoder is not None
    return decoder.field(column).dataType.simpleString()


def test_bytes_stay_bytes() -> None:
    assert decoder_of(options()) is None
    assert decoder_of(options(valueFormat="json", valueSchema="id INT"), column="key") is None


def test_keys_and_values_have_separate_formats() -> None:
    given = {"keyFormat": "string", "valueFormat": "json", "valueSchema": "id BIGINT"}

    assert type_of("key", **given) == "string"
    assert type_of("value", **given) == "struct<id:bigint>"


def test_json_takes_its_type_from_the_readers_schema() -> None:
    schema = StructType([StructField("value", StructType([StructField("id", LongType())]))])

    decoder = decoder_of(options(valueFormat="json"), schema)

    assert decoder is not None
    assert decoder.data_type == schema["value"].dataType


def test_avro_takes_its_schema_from_options() -> None:
    assert type_of(valueFormat="avro", valueSchema=json.dumps(AVRO)) == "struct<id:bigint>"


@pytest.mark.parametrize(("format", "serializer"), [("avro", AvroSerializer), ("json", JsonSchemaSerializer)])
def test_a_registry_gives_the_schema_of_the_topic(
    registry: RegistryInMemory, format: str, serializer: Any
) -> None:
    schema = AVRO if format == "avro" else JSON
    data = serializer(registry.url, schema).for_topic("orders", is_key=False)({"id": 7})

    decoder = decoder_of(options(valueFormat=format, schemaRegistryUrl=registry.url))

    assert decoder is not None
    assert decoder.data_type.simpleString() == "struct<id:bigint>"
    decoded = decoder.decode(pa.array([data, b"\1" + data[1:]], pa.binary()))
    assert decoded.values.to_pylist() == [{"id": 7}, None]
    assert [bad.row for bad in decoded.bad] == [1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"valueFormat": "json"}, "option valueFormat needs option valueSchema"),
        ({"valueFormat": "protobuf"}, "FileDescriptorSet"),
        ({"valueFormat": "arrow"}, "needs option valueSchema"),
        ({"valueSchema": "id INT"}, "option valueSchema does not apply"),
        ({"valueFormat": "string", "valueSchema": "id INT"}, "valueFormat=string"),
    ],
)
def test_contradictory_options_are_rejected(given: dict[str, str], message: str) -> None:
    with pytest.raises(BadOption) as caught:
        decoder_of(options(**given))

    assert message in str(caught.value)


def test_a_missing_subject_is_named(registry: RegistryInMemory) -> None:
    with pytest.raises(BadOption, match="cannot get the schema of orders-value"):
        decoder_of(options(valueFormat="avro", schemaRegistryUrl=registry.url))


def test_a_schema_of_another_type_is_rejected(registry: RegistryInMemory) -> None:
    AvroSerializer(registry.url, AVRO).for_topic("orders", is_key=False)({"id": 7})

    with pytest.raises(BadOption, match="has type AVRO, but option valueFormat is json"):
        decoder_of(options(valueFormat="json", schemaRegistryUrl=registry.url))


def test_several_topics_have_no_default_subject(registry: RegistryInMemory) -> None:
    given = {"subscribe": "a,b", "valueFormat": "avro", "schemaRegistryUrl": registry.url}

    with pytest.raises(BadOption, match="option valueSubject is required"):
        decoder_of(options(**given))

    AvroSerializer(registry.url, AVRO).for_topic("orders", is_key=False)({"id": 7})
    assert type_of(**given, valueSubject="orders-value") == "struct<id:bigint>"


class TestLibraries:
    """penstock[spark] installs the libraries of formats, but an environment may lack them."""

    @pytest.mark.parametrize(
        ("format", "schema", "module", "library"),
        [
            ("avro", '{"type": "enum", "name": "Lone", "symbols": ["A"]}', "fastavro", "fastavro"),
            ("protobuf", "CgVoZWxsbw==", "google.protobuf.descriptor_pb2", "protobuf"),
            ("json", "lone INT", "msgspec", "msgspec"),
        ],
    )
    def test_a_missing_library_is_named_with_the_extra_that_installs_it(
        self, monkeypatch: pytest.MonkeyPatch, format: str, schema: str, module: str, library: str
    ) -> None:
        monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed

        def decode() -> None:
            decoder = decoder_of(options(valueFormat=format, valueSchema=schema))
            assert decoder is not None
            decoder.decode(pa.array([b'{"lone": "x"}']))  # JSON needs it for the slow reader

        with pytest.raises(BadConfiguration) as caught:
            decode()

        assert str(caught.value) == f"this needs {library}: pip install 'penstock[serializers]'"

    def test_the_extra_spark_installs_all_of_them(self) -> None:
        project = tomllib.loads((Path(__file__).parents[4] / "pyproject.toml").read_text())
        extras = project["project"]["optional-dependencies"]

        assert "penstock[arrow,serializers]" in extras["spark"]
        assert {each.partition(">")[0] for each in extras["serializers"]} >= {
            "fastavro",
            "msgspec",
            "protobuf",
        }
