"""Other modes of kcat: listing metadata, finding offsets by time."""

from __future__ import annotations

import json

from compat.clients.kcat import run_kcat
from harness.admin import create_topic
from harness.brokers import Broker


def test_kcat_lists_brokers_topics_and_partitions(cluster: Broker) -> None:
    name = create_topic(cluster.bootstrap, "kcat-listed", partitions=3)

    metadata = json.loads(run_kcat(cluster.bootstrap, "-L", "-J"))

    [broker] = metadata["brokers"]
    assert broker["name"] == cluster.bootstrap
    [topic] = [topic for topic in metadata["topics"] if topic["topic"] == name]
    assert [partition["partition"] for partition in topic["partitions"]] == [0, 1, 2]
    assert {partition["leader"] for partition in topic["partitions"]} == {broker["id"]}


def test_kcat_lists_one_topic(cluster: Broker) -> None:
    name = create_topic(cluster.bootstrap, "kcat-one")
    listing = run_kcat(cluster.bootstrap, "-L", "-t", name).decode()
    assert f'topic "{name}" with 1 partitions:' in listing


def test_kcat_finds_an_offset_by_time(cluster: Broker) -> None:
    name = create_topic(cluster.bootstrap, "kcat-query")
    for value in (b"first", b"second"):
        run_kcat(cluster.bootstrap, "-P", "-t", name, "-p", "0", stdin=value)
    printed = run_kcat(
        cluster.bootstrap, "-C", "-t", name, "-p", "0", "-o", "beginning", "-e", "-q", "-f", "%T\n"
    )
    _first_ms, second_ms = map(int, printed.split())

    found = run_kcat(cluster.bootstrap, "-Q", "-t", f"{name}:0:{second_ms}").decode()

    assert found.strip() == f"{name} [0] offset 1"


def test_kcat_reads_the_last_records(cluster: Broker) -> None:
    name = create_topic(cluster.bootstrap, "kcat-tail")
    run_kcat(cluster.bootstrap, "-P", "-t", name, "-p", "0", stdin=b"a\nb\nc\nd\n")
    assert run_kcat(cluster.bootstrap, "-C", "-t", name, "-p", "0", "-o", "-2", "-e", "-q") == b"c\nd\n"
    assert run_kcat(cluster.bootstrap, "-C", "-t", name, "-p", "0", "-o", "1", "-c", "1", "-q") == b"b\n"


def test_kcat_consumes_in_a_group_with_default_settings(cluster: Broker) -> None:
    """A new group then waits three seconds for more members."""
    name = create_topic(cluster.bootstrap, "kcat-group", partitions=3)
    lines = b"".join(b"line %d\n" % number for number in range(90))
    run_kcat(cluster.bootstrap, "-P", "-t", name, stdin=lines)
    arguments = ["-G", f"{name}-readers", "-e", "-q", "-X", "auto.offset.reset=earliest", name]

    found = run_kcat(cluster.bootstrap, *arguments)

    assert sorted(found.splitlines()) == sorted(lines.splitlines())
    assert run_kcat(cluster.bootstrap, *arguments) == b""
