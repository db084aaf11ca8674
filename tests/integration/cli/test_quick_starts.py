"""Kafka's published quick starts, line by line as in its documentation.

They use a fixed port and folder (localhost:9092, /tmp/kraft-combined-logs). So each test runs in its own copy of
`bin/` and `config/` with free ones, and replaces them in the typed lines; nothing else is changed. Programs that run
until stopped are started in the background, for the documentation's "open another terminal", and stopped by Ctrl-C.
Steps with several brokers are left out; services that are not implemented yet must say so.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.brokers import ROOT, answers, free_port, penstock_environment
from harness.waiting import wait_until

WAIT_SECONDS = 30.0
INTERRUPTED = 130

pytestmark = pytest.mark.penstock_only("its own scripts")


class Terminal:
    """A folder with the scripts, and a shell in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.controller_port = free_port()
        self.data = folder / "data"
        shutil.copytree(ROOT / "bin", folder / "bin")
        shutil.copytree(ROOT / "config", folder / "config", symlinks=True)
        for file in (folder / "config").glob("*.properties"):
            file.write_text(self.adapt(file.read_text()))
        # The copy has no .venv, so the scripts use the first python3 on the path.
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = {**penstock_environment(), "PATH": path, "LOG_DIR": str(folder / "logs")}
        self._started: list[subprocess.Popen[str]] = []

    def adapt(self, text: str) -> str:
        return (
            text.replace(":9092", f":{self.port}")
            .replace(":9093", f":{self.controller_port}")
            .replace("/tmp/kraft-combined-logs", str(self.data))
            .replace("/tmp/kafka-logs", str(self.folder / "kafka-logs"))
            .replace("/tmp/zookeeper", str(self.folder / "zookeeper"))
        )

    def run(self, *lines: str, typed: str | None = None, status: int = 0) -> str:
        """Type lines one after another into one shell; their output."""
        done = subprocess.run(
            ["bash", "-e", "-c", self.adapt("\n".join(lines))],
            cwd=self.folder,
            env=self.environment,
            input=typed,
            stdin=subprocess.DEVNULL if typed is None else None,
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + (done.stderr if status else "")

    def start(self, line: str) -> subprocess.Popen[str]:
        """Type a line in another terminal and leave it running."""
        process = subprocess.Popen(
            ["bash", "-c", f"exec {self.adapt(line)}"],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def serve(self, line: str) -> subprocess.Popen[str]:
        process = self.start(line)
        wait_until(
            lambda: answers(self.port) or process.poll() is not None,
            seconds=WAIT_SECONDS,
            what="the broker answers",
        )
        assert process.poll() is None, process.communicate()
        return process

    def close(self) -> None:
        for process in reversed(self._started):
            if process.poll() is None:
                process.kill()
            process.communicate()


def press_ctrl_c(process: subprocess.Popen[str]) -> tuple[str, str]:
    os.killpg(process.pid, signal.SIGINT)
    return process.communicate(timeout=WAIT_SECONDS)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path / "kafka")
    yield terminal
    terminal.close()


def read_lines(process: subprocess.Popen[str], count: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline().rstrip("\n") for _ in range(count)]


def test_the_quick_start_of_kafka_2_6_with_its_zookeeper(terminal: Terminal) -> None:
    # Step 2: Start the server
    assert "ZooKeeper is not needed" in terminal.run(
        "bin/zookeeper-server-start.sh config/zookeeper.properties"
    )
    server = terminal.serve("bin/kafka-server-start.sh config/server.properties")

    # Step 3: Create a topic
    terminal.run(
        "bin/kafka-topics.sh --create --bootstrap-server localhost:9092 --replication-factor 1 --partitions 1 "
        "--topic test"
    )
    assert terminal.run("bin/kafka-topics.sh --list --bootstrap-server localhost:9092") == "test\n"

    # Step 4: Send some messages
    producer = terminal.start("bin/kafka-console-producer.sh --bootstrap-server localhost:9092 --topic test")
    assert producer.stdin is not None
    producer.stdin.write("This is a message\nThis is another message\n")
    producer.stdin.flush()

    # Step 5: Start a consumer. What is typed in one terminal appears in the other.
    consumer = terminal.start(
        "bin/kafka-console-consumer.sh --bootstrap-server localhost:9092 --topic test --from-beginning"
    )
    assert read_lines(consumer, 2) == ["This is a message", "This is another message"]
    producer.stdin.write("And one more\n")
    producer.stdin.flush()
    assert read_lines(consumer, 1) == ["And one more"]

    # Step 6, as far as one broker goes
    described = terminal.run("bin/kafka-topics.sh --describe --bootstrap-server localhost:9092 --topic test")
    assert described.startswith("Topic: test\t")
    assert "\tTopic: test\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1" in described

    # Step 7: Kafka Connect
    terminal.run('echo -e "foo\\nbar" > test.txt')
    shown = terminal.run(
        "bin/connect-standalone.sh config/connect-standalone.properties config/connect-file-source.properties "
        "config/connect-file-sink.properties",
        status=1,
    )
    assert "not supported yet" in shown

    press_ctrl_c(producer)
    _, shown = press_ctrl_c(consumer)
    assert "Processed a total of 3 messages" in shown
    assert consumer.returncode == INTERRUPTED
    press_ctrl_c(server)
    assert server.returncode == 0


def test_the_quick_start_of_kafka_4(terminal: Terminal) -> None:
    # Step 2: Start the Kafka environment
    terminal.run(
        'KAFKA_CLUSTER_ID="$(bin/kafka-storage.sh random-uuid)"',
        "bin/kafka-storage.sh format --standalone -t $KAFKA_CLUSTER_ID -c config/server.properties",
    )
    server = terminal.serve("bin/kafka-server-start.sh config/server.properties")

    # Step 3: Create a topic to store your events
    created = terminal.run(
        "bin/kafka-topics.sh --create --topic quickstart-events --bootstrap-server localhost:9092"
    )
    assert created == "Created topic quickstart-events.\n"
    described = terminal.run(
        "bin/kafka-topics.sh --describe --topic quickstart-events --bootstrap-server localhost:9092"
    )
    head, partition = described.splitlines()
    assert head.startswith("Topic: quickstart-events\tTopicId: ")
    assert "\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: " in head
    assert partition.startswith("\tTopic: quickstart-events\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1")

    # Step 4: Write some events into the topic
    terminal.run(
        "bin/kafka-console-producer.sh --topic quickstart-events --bootstrap-server localhost:9092",
        typed="This is my first event\nThis is my second event\n",
    )

    # Step 5: Read the events
    consumer = terminal.start(
        "bin/kafka-console-consumer.sh --topic quickstart-events --from-beginning --bootstrap-server localhost:9092"
    )
    assert read_lines(consumer, 2) == ["This is my first event", "This is my second event"]
    press_ctrl_c(consumer)

    # Step 6: Import/export your data as streams of events with Kafka Connect
    terminal.run('echo "plugin.path=libs/connect-file-4.3.1.jar" >> config/connect-standalone.properties')
    terminal.run('echo -e "foo\\nbar" > test.txt')
    shown = terminal.run(
        "bin/connect-standalone.sh config/connect-standalone.properties config/connect-file-source.properties "
        "config/connect-file-sink.properties",
        status=1,
    )
    assert "not supported yet" in shown

    # Step 8: Terminate the Kafka environment
    press_ctrl_c(server)
    assert server.returncode == 0
    assert terminal.data.exists()
    terminal.run("rm -rf /tmp/kafka-logs /tmp/kraft-combined-logs")
    assert not terminal.data.exists()


def test_the_quick_start_of_kafka_3_8_without_zookeeper(terminal: Terminal) -> None:
    """It uses a file in another folder; the rest is as for Kafka 4."""
    terminal.run(
        'KAFKA_CLUSTER_ID="$(bin/kafka-storage.sh random-uuid)"',
        "bin/kafka-storage.sh format -t $KAFKA_CLUSTER_ID -c config/kraft/server.properties",
    )
    server = terminal.serve("bin/kafka-server-start.sh config/kraft/server.properties")
    press_ctrl_c(server)
    assert server.returncode == 0


def test_a_server_runs_in_the_background_until_it_is_stopped(terminal: Terminal) -> None:
    """`-daemon`, `--override`, and the stop script, which stops only the given node."""
    shown = terminal.run(
        "bin/kafka-server-start.sh -daemon config/server.properties --override node.id=4711", typed=""
    )

    assert "penstock ready: node 4711" in shown
    assert answers(terminal.port)
    assert terminal.run("bin/kafka-server-stop.sh --node-id=4712", status=1) == "No kafka server to stop\n"
    terminal.run("bin/kafka-server-stop.sh --node-id=4711")
    wait_until(lambda: not answers(terminal.port), seconds=WAIT_SECONDS, what="the broker is gone")
    assert "stopping" in (terminal.folder / "logs" / "kafkaServer.out").read_text()


def test_a_server_that_cannot_start_in_the_background_reports_why(terminal: Terminal) -> None:
    shown = terminal.run(
        "bin/kafka-server-start.sh -daemon config/server.properties --override num.partitions=0",
        typed="",
        status=2,
    )

    assert "did not start" in shown
    assert "num.partitions=0" in shown
