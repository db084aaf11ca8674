"""`penstock produce` and `penstock consume` with a broker: tables, JSON, and errors."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.admin import create_topic
from harness.brokers import PenstockBroker, free_port
from integration.cli.conftest import Commands, Start

WAIT_SECONDS = 30.0
Type = Callable[[bytes], None]

pytestmark = pytest.mark.penstock_only("tests Penstock's command line")


@pytest.fixture
def topic(node: PenstockBroker) -> str:
    return create_topic(node.bootstrap, "records", partitions=2)


def test_typed_records_are_written_and_read(commands: Commands, topic: str, typed: Type) -> None:
    typed(b"one\ntwo\xff\n")

    wrote = commands.run(f"produce {topic} --partition 1 --key k --header h=1")
    read = commands.run(f"consume {topic}")

    assert re.fullmatch(rf"wrote 2 records \(9 bytes\) to {topic} in [\d.]+ s\n", wrote.out)
    head, first, second = read.rows()
    assert head == ["topic", "partition", "offset", "timestamp", "key", "value"]
    assert (first[:3], first[4:]) == ([topic, "1", "0"], ["k", "one", "[h=1]"])
    assert second[4:] == ["k", r"two\xff", "[h=1]"]


def test_programs_get_json_from_both(commands: Commands, topic: str) -> None:
    wrote = commands.run(f"produce {topic} a b --partition 0 --json").json()
    records = commands.run(f"consume {topic} --json").json_lines()

    assert (wrote["topic"], wrote["records"], wrote["partitions"]) == (topic, 2, {"0": 2})
    assert [(record["partition"], record["offset"], record["value"]) for record in records] == [
        (0, 0, "a"),
        (0, 1, "b"),
    ]


def test_json_copies_records_from_one_topic_to_another(
    commands: Commands, node: PenstockBroker, topic: str, typed: Type
) -> None:
    copy = create_topic(node.bootstrap, "copy", partitions=2)
    commands.run(f"produce {topic} v --key k --header a=1 --header a=2 --partition 1")
    typed(b'{"value": {"base64": "/w=="}, "key": null, "partition": 0}\n')
    commands.run(f"produce {topic} --format json")

    typed(commands.run(f"consume {topic} --json").out.encode())
    commands.run(f"produce {copy} --format json")

    def facts(name: str) -> list[dict[str, object]]:
        records = commands.run(f"consume {name} --json").json_lines()
        kept = ("partition", "offset", "timestamp", "key", "value", "headers")
        return sorted(({key: record[key] for key in kept} for record in records), key=str)

    assert facts(copy) == facts(topic)


def test_files_and_separators(commands: Commands, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "orders.txt"
    file.write_text("k1:v1\nk2:NULL\n")

    commands.run(
        f"produce {topic} --file {file} --key-separator : --null NULL --partition 0 -z zstd --acks 1"
    )

    assert commands.run(f"consume {topic} --template '{{key}}={{value}}'").out == "k1=v1\nk2=-\n"


def test_numbers_are_written_and_printed_as_numbers(commands: Commands, topic: str, typed: Type) -> None:
    typed(b"alice\t1\nbob\t-2\n")
    commands.run_arguments(
        ["produce", topic, "--key-separator", r"\t", "--value-format", "long", "--partition", "0"]
    )

    rows = commands.run_arguments(
        ["consume", topic, "--format", "key-value", "--key-separator", "=", "--value-format", "long"]
    )
    by_setting = commands.run(f"consume {topic} -X value.deserializer=long --json").json_lines()
    wrong = commands.run(f"consume {topic} --value-format integer", status=1)

    assert rows.out == "alice=1\nbob=-2\n"
    assert [record["value"] for record in by_setting] == [1, -2]
    assert f"{topic}-0, offset 0: the value is not integer: it has 8 bytes, but integer has 4" in wrong.err


def test_numbers_are_copied_to_another_topic_as_json(
    commands: Commands, node: PenstockBroker, topic: str, typed: Type
) -> None:
    copies = create_topic(node.bootstrap, "copies", partitions=1)
    commands.run(f"produce {topic} 7 8 --value-format double --partition 0")

    typed(commands.run(f"consume {topic} --value-format double --json").out.encode())
    commands.run(f"produce {copies} --format json --value-format double --partition 0")

    assert commands.run(f"consume {copies} --value-format double --format raw").out == "7.0\n8.0\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--key-separator :", "No key separator found on line number 3: 'bad'"),
        ("--key-separator : --value-format long", "No key separator found on line number 3: 'bad'"),
        ("--format json", "line 1 is not JSON"),
    ],
)
def test_a_bad_line_reports_how_many_records_before_it_were_written(
    commands: Commands, topic: str, typed: Type, options: str, message: str
) -> None:
    typed(b"a:1\nb:2\nbad\nc:3\n")

    failed = commands.run(f"produce {topic} {options} --partition 0", status=1)
    read = commands.run(f"consume {topic} --json").json_lines()

    assert message in failed.err
    assert f"wrote {len(read)} record" in failed.err
    assert len(read) == (0 if "json" in options else 2)


def test_start_and_end_options(commands: Commands, topic: str) -> None:
    commands.run(f"produce {topic} a b c d e --partition 0")

    def values(options: str) -> list[str]:
        return commands.run(f"consume {topic} --format raw {options}").out.split()

    assert values("") == ["a", "b", "c", "d", "e"]
    assert values("--from -2") == ["d", "e"]
    assert values("--from 1 --limit 2") == ["b", "c"]
    assert values("--from 99") == []
    assert values("--from latest") == []
    assert values("--from 1h") == ["a", "b", "c", "d", "e"]
    assert values("--from 2100-01-01") == []
    assert values("--partition 1") == []


def test_aborted_records_can_be_skipped(commands: Commands, node: PenstockBroker, topic: str) -> None:
    from penstock import Producer

    with Producer(node.bootstrap, transactional_id=f"tx-{topic}") as producer:
        with producer.transaction():
            producer.send(topic, b"kept", partition=0)
        producer.begin()
        producer.send(topic, b"dropped", partition=0)
        producer.flush()
        producer.abort()

    assert commands.run(f"consume {topic} --format raw").out.split() == ["kept", "dropped"]
    assert commands.run(f"consume {topic} --format raw --committed").out.split() == ["kept"]


def test_a_group_continues_at_its_committed_offset(commands: Commands, topic: str) -> None:
    commands.run(f"produce {topic} a b c --partition 0")

    assert commands.run(f"consume {topic} --group g-{topic} --limit 2 --format raw").out.split() == ["a", "b"]
    assert commands.run(f"consume {topic} --group g-{topic} --limit 1 --format raw").out.split() == ["c"]


def test_reading_an_empty_topic_ends_at_once(commands: Commands, topic: str) -> None:
    assert commands.run(f"consume {topic} --json").out == ""


@pytest.mark.parametrize(
    ("line", "status", "message"),
    [
        ("consume no-such-topic", 1, "no-such-topic"),
        ("consume no-such-topic --group g", 1, "no-such-topic"),
        ("perf consume no-such-topic -n 1", 1, "no-such-topic"),
        ("consume TOPIC --partition 7", 2, "has no partition 7: its partitions are 0 to 1"),
        ("consume TOPIC --from yesterday", 2, "--from yesterday"),
        ("produce TOPIC x --partition 9", 1, "9"),
        ("produce TOPIC --file /no/such/file", 1, "/no/such/file: No such file or directory"),
        ("produce TOPIC x -X linger.msx=5", 1, "linger.ms"),
        ("produce TOPIC x -X nonsense", 2, "must be key=value"),
        ("produce TOPIC x --command-config /no/such/file", 1, "/no/such/file"),
        ("produce bad/name x", 1, "bad/name"),
    ],
)
def test_an_error_is_one_sentence(
    line: str, status: int, message: str, commands: Commands, topic: str
) -> None:
    done = commands.run(line.replace("TOPIC", topic), status=status)

    assert message in done.err
    assert "Traceback" not in done.err
    assert done.err.startswith("penstock: ")


IMPATIENT = "-X default.api.timeout.ms=500 -X request.timeout.ms=300"
IMPATIENT_PRODUCER = "-X max.block.ms=500"


@pytest.mark.parametrize(
    "line",
    [
        f"produce t x {IMPATIENT_PRODUCER}",
        f"perf produce t -n 1 {IMPATIENT_PRODUCER}",
        f"consume t {IMPATIENT}",
        f"top --once {IMPATIENT}",
    ],
)
def test_without_a_broker_the_address_is_named(line: str, commands: Commands) -> None:
    port = free_port()

    done = commands.run(f"{line} -b 127.0.0.1:{port}", status=1)

    assert f"127.0.0.1:{port}" in done.err
    assert done.err.count("\n") == 1


def test_ctrl_c_ends_reading_at_once_and_reports_what_was_read(
    commands: Commands, node: PenstockBroker, topic: str, start: Start
) -> None:
    commands.run(f"produce {topic} a b")
    process = start(node, "consume", topic, "--follow", "--format", "raw")
    assert process.stdout is not None
    assert sorted(process.stdout.readline() for _ in range(2)) == ["a\n", "b\n"]

    os.killpg(process.pid, signal.SIGINT)
    _, output = process.communicate(timeout=WAIT_SECONDS)

    assert process.returncode == 130
    assert output == "\npenstock: stopped: read 2 records\n"


@pytest.mark.parametrize("command", [["consume"], ["kafka-console-consumer", "--from-beginning", "--topic"]])
def test_sigterm_works_like_ctrl_c(
    command: list[str], commands: Commands, node: PenstockBroker, topic: str, start: Start
) -> None:
    commands.run(f"produce {topic} a")
    is_ours = command == ["consume"]
    process = start(node, *command, topic, *(["--follow", "--format", "raw"] if is_ours else []))
    assert process.stdout is not None
    assert process.stdout.readline() == "a\n"

    process.terminate()
    _, output = process.communicate(timeout=WAIT_SECONDS)

    assert process.returncode == 143
    assert output == (
        "\npenstock: stopped: read 1 record\n" if is_ours else "Processed a total of 1 messages\n"
    )


def test_ctrl_c_ends_writing_after_typed_records_are_written(
    commands: Commands, node: PenstockBroker, topic: str, start: Start
) -> None:
    process = start(node, "produce", topic)
    follower = start(node, "consume", topic, "--follow", "--format", "raw")
    assert process.stdin is not None
    assert follower.stdout is not None
    for line in ("typed\n", "more\n"):
        process.stdin.write(line)
        process.stdin.flush()
        assert follower.stdout.readline() == line

    os.killpg(process.pid, signal.SIGINT)
    os.killpg(follower.pid, signal.SIGINT)
    _, output = process.communicate(timeout=WAIT_SECONDS)
    follower.communicate(timeout=WAIT_SECONDS)

    assert process.returncode == 130
    # The follower may see the second record before the producer gets its response.
    assert re.search(rf"stopped: wrote (2 records \(9|1 record \(5) bytes\) to {topic}", output), output


def test_a_closed_pipe_ends_it_silently(
    commands: Commands, node: PenstockBroker, topic: str, start: Start
) -> None:
    commands.run(f"produce {topic} {' '.join(str(number) for number in range(50))}")
    process = start(node, "consume", topic, "--follow", "--format", "raw")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()

    commands.run(f"produce {topic} {' '.join(str(number) for number in range(50))}")

    assert process.wait(WAIT_SECONDS) == 0
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.stdin is not None
    process.stdin.close()
