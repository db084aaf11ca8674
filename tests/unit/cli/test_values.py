"""Parsing of pairs, partitions, times and endpoints."""

from __future__ import annotations

import pytest

from penstock.cli.commands.configs import read_resource
from penstock.cli.commands.offsets import read_time
from penstock.cli.commands.quorum import read_endpoint
from penstock.cli.failures import Misuse
from penstock.cli.values import read_pairs, read_partition
from penstock.client.admin.configs import ConfigResource
from penstock.client.cluster import TopicPartition


def test_pairs_may_have_commas_and_equals_signs_in_their_values() -> None:
    assert read_pairs(["a=b,c", " d = e=f "], option="--set") == {"a": "b,c", "d": "e=f"}
    with pytest.raises(Misuse, match="--set a: must be key=value"):
        read_pairs(["a"], option="--set")


@pytest.mark.parametrize("text", ["orders", "orders:", ":0", "orders:x", "orders:-1"])
def test_an_invalid_partition_is_rejected(text: str) -> None:
    with pytest.raises(Misuse, match="write it as topic:0"):
        read_partition(text)


def test_a_partition_is_a_topic_and_a_number() -> None:
    assert read_partition("orders:12") == TopicPartition("orders", 12)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("latest", "latest"),
        ("max-timestamp", "max-timestamp"),
        ("-2", -2),
        ("1000", 1000),
        ("1970-01-01T00:00:01Z", 1000),
        ("1970-01-01T00:00:01", 1000),
        ("1970-01-01T01:00:01+01:00", 1000),
    ],
)
def test_a_time_is_a_name_a_moment_or_milliseconds(text: str, expected: object) -> None:
    assert read_time(text) == expected


def test_brokers_have_no_name_and_others_need_one() -> None:
    assert read_resource("brokers", None, ()) == (ConfigResource.all_brokers(), ())
    assert read_resource("brokers", "log.", ("message.",)) == (
        ConfigResource.all_brokers(),
        ("log.", "message."),
    )
    assert read_resource("client-metrics", "m", ()) == (ConfigResource.client_metrics("m"), ())
    with pytest.raises(Misuse, match="name the group"):
        read_resource("group", None, ())


def test_an_endpoint_names_its_listener() -> None:
    endpoint = read_endpoint("CONTROLLER://[::1]:9093")

    assert (endpoint.listener, endpoint.host, endpoint.port) == ("CONTROLLER", "::1", 9093)
    with pytest.raises(Misuse, match="must be NAME://HOST:PORT"):
        read_endpoint("10.0.0.4:9093")
