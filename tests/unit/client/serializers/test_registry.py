"""Requests to a schema registry, their number, and failures."""

from __future__ import annotations

import base64
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.registry import RegistryInMemory
from penstock.client.errors import BadConfiguration, RegistryError
from penstock.client.serializers import Reference, Registry, Schema
from penstock.client.serializers.registry import registry_by_settings
from penstock.client.settings import ConsumerSettings

STRING = Schema('"string"')


def test_a_schema_is_registered_once_and_found_by_its_id(registry: RegistryInMemory) -> None:
    client = Registry(registry.url)

    ids = [client.register("orders-value", STRING) for _ in range(3)]

    assert ids == [1, 1, 1]
    assert registry.asked == ["POST /subjects/orders-value/versions"]
    assert [Registry(registry.url).schema(1), client.schema(1), client.schema(1)] == [STRING] * 3
    assert registry.asked.count("GET /schemas/ids/1") == 2


def test_concurrent_threads_send_one_request(registry: RegistryInMemory) -> None:
    client = Registry(registry.url)
    client.register("orders-value", STRING)

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(client.schema, [1] * 32))

    assert found == [STRING] * 32
    assert registry.asked.count("GET /schemas/ids/1") == 1


def test_type_and_references_are_kept(registry: RegistryInMemory) -> None:
    client = Registry(registry.url)
    schema = Schema("{}", "JSON", (Reference("line.json", "line", 1),))

    schema_id = client.register("orders-value", schema)

    assert Registry(registry.url).schema(schema_id) == schema
    assert client.version_of("orders-value", schema) == 1
    assert client.latest("orders-value") == (schema_id, schema, 1)


def test_a_schema_that_must_exist_is_not_registered(registry: RegistryInMemory) -> None:
    with pytest.raises(RegistryError, match=r"Schema not found \(HTTP 404\)") as refusal:
        Registry(registry.url).find("orders-value", STRING)

    assert refusal.value.status == 404


def test_a_subject_is_one_segment_of_the_path(registry: RegistryInMemory) -> None:
    Registry(registry.url).register("a/b c", STRING)

    assert registry.asked == ["POST /subjects/a%2Fb%20c/versions"]


def test_the_next_registry_is_tried_if_one_does_not_respond(registry: RegistryInMemory) -> None:
    client = Registry(["http://127.0.0.1:1", registry.url])

    assert client.register("orders-value", STRING) == 1


def test_unreachable_registries_are_named() -> None:
    with pytest.raises(RegistryError, match=r"no schema registry answers: http://127\.0\.0\.1:1: "):
        Registry("http://127.0.0.1:1").schema(1)


@pytest.mark.parametrize("url", ["", "localhost:8081", "ftp://localhost", "http://"])
def test_an_invalid_address_is_rejected(url: str) -> None:
    with pytest.raises(BadConfiguration):
        Registry(url)


def test_credentials_may_be_in_the_address_or_separate(registry: RegistryInMemory) -> None:
    in_url = registry.url.replace("://", "://alice:se%40cret@")

    Registry(in_url).register("a", STRING)
    Registry(registry.url, user="alice", password="se@cret").register("a", STRING)

    assert registry.authorizations == ["Basic " + base64.b64encode(b"alice:se@cret").decode()] * 2


def test_a_clients_settings_have_its_registry(registry: RegistryInMemory) -> None:
    settings = ConsumerSettings.of(
        None, {"schema.registry.url": registry.url, "basic.auth.user.info": "alice:secret"}
    )

    registry_by_settings(settings).register("a", STRING)

    assert registry.authorizations == ["Basic " + base64.b64encode(b"alice:secret").decode()]
    assert "secret" not in repr(settings)
