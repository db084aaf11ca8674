"""Libraries that only some serializers need."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from penstock.client.errors import BadConfiguration
from penstock.client.serializers import AvroSerializer, ProtobufDeserializer, deserializer_of, serializer_of


@dataclass
class Order:
    id: int


@pytest.mark.parametrize(
    ("library", "make", "extra"),
    [
        ("fastavro", lambda: AvroSerializer("http://localhost:8081", "string"), "serializers"),
        ("google.protobuf", lambda: ProtobufDeserializer(dict), "serializers"),
        ("msgspec", lambda: serializer_of(Order), "serializers"),
        ("pyarrow", lambda: deserializer_of("arrow"), "arrow"),
    ],
)
def test_a_missing_library_is_named_with_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch, library: str, make: Callable[[], Any], extra: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)

    with pytest.raises(BadConfiguration) as refusal:
        make()

    name = "protobuf" if library == "google.protobuf" else library
    assert str(refusal.value) == f"this needs {name}: pip install 'penstock[{extra}]'"
