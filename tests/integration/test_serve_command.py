"""`penstock serve` as a process: how it reports that it is ready, why it is not, and how it ends."""

from __future__ import annotations

import resource
import signal
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from harness.admin import admin, create_topics
from harness.brokers import PenstockBroker, answers, free_port, penstock_command, penstock_environment
from harness.waiting import wait_until

WAIT_SECONDS = 30.0

pytestmark = pytest.mark.penstock_only("tests Penstock's command")


@pytest.fixture
def penstock(tmp_path: Path) -> PenstockBroker:
    return PenstockBroker(tmp_path / "broker")


def serve(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a `penstock serve` that must fail."""
    return subprocess.run(
        [*penstock_command(), "serve", *arguments],
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        env=penstock_environment(),
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_it_reports_ready_with_its_address_and_exits_with_status_0(
    penstock: PenstockBroker, number: signal.Signals
) -> None:
    process = penstock.launch()
    wait_until(lambda: "penstock ready" in penstock.output(), "it is ready")
    [line] = [line for line in penstock.output().splitlines() if line.startswith("penstock ready")]
    assert f"127.0.0.1:{penstock.port}" in line

    process.send_signal(number)

    assert process.wait(WAIT_SECONDS) == 0
    output = penstock.output()
    assert f"stopping: received {number.name}" in output
    assert output.splitlines()[-1].rpartition(" in ")[0].endswith("shutdown completed")


def test_its_log_has_version_settings_topics_and_an_unclean_shutdown(penstock: PenstockBroker) -> None:
    penstock.start()
    create_topics(penstock.bootstrap, "orders", partitions=3, config={"retention.ms": "5000"})
    penstock.kill()
    first = penstock.output()
    penstock.start()
    penstock.stop()

    assert "recovered 4 logs in" in penstock.output()
    assert "Penstock " in first
    assert f"setting listeners=PLAINTEXT://127.0.0.1:{penstock.port}" in first
    assert "started node 1 of cluster" in first
    assert "created topic orders with 3 partition(s), replication factor 1, topic id" in first
    assert "settings retention.ms=5000, requested by User:ANONYMOUS at 127.0.0.1" in first
    assert "the last shutdown was not clean" in penstock.output()


def test_ctrl_c_in_a_script_does_not_stop_a_node_started_in_the_background(
    penstock: PenstockBroker,
) -> None:
    # given: a shell starts background jobs with SIGINT ignored
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        penstock.start()
    finally:
        signal.signal(signal.SIGINT, handler)
    process = penstock.process
    assert process is not None

    # when
    process.send_signal(signal.SIGINT)

    # then: it keeps serving, also a request that comes after a stop would have
    assert answers(penstock.port)
    assert answers(penstock.port)
    assert penstock.stop() == 0


def test_the_command_line_overrides_a_properties_file(tmp_path: Path) -> None:
    port, data = free_port(), tmp_path / "data"
    file = tmp_path / "server.properties"
    file.write_text(
        "# as Kafka writes it\n"
        f"listeners=PLAINTEXT://127.0.0.1:{port}\n"
        f"log.dirs={data}\n"
        "node.id = 7\n"
        "num.partitions: 2\n"
        "num.io.threads=16\n"
    )
    command = [*penstock_command(), "serve", str(file), "--set", "num.partitions=5"]
    process = subprocess.Popen(command, env=penstock_environment(), stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("penstock ready")
        client = admin(f"127.0.0.1:{port}")
        assert list(client.list_topics(timeout=WAIT_SECONDS).brokers) == [7]
        client.create_topics([NewTopic("counted")])["counted"].result(WAIT_SECONDS)
        assert len(client.list_topics("counted", timeout=WAIT_SECONDS).topics["counted"].partitions) == 5
    finally:
        process.terminate()
        process.wait(WAIT_SECONDS)
        process.stdout.close()
    assert data.exists()


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("num.partitions", "many", ["num.partitions", "many"]),
        ("num.partitions", "0", ["num.partitions", "0", "1"]),
        ("log.message.timestamp.type", "Never", ["Never", "CreateTime", "LogAppendTime"]),
        ("no.such.setting", "1", ["no.such.setting"]),
        ("listeners", "nonsense", ["listeners", "nonsense"]),
    ],
)
def test_an_invalid_setting_is_rejected_with_the_allowed_values(
    tmp_path: Path, key: str, value: str, expected: list[str]
) -> None:
    refused = serve("--set", f"log.dirs={tmp_path}", "--set", f"{key}={value}")
    assert refused.returncode == 2
    assert refused.stdout == ""
    for text in expected:
        assert text in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_port_in_use_is_reported(penstock: PenstockBroker, tmp_path: Path) -> None:
    penstock.start()
    try:
        refused = serve(
            "--set", f"listeners=PLAINTEXT://{penstock.bootstrap}", "--set", f"log.dirs={tmp_path / 'other'}"
        )
        assert refused.returncode == 1
        assert str(penstock.port) in refused.stderr
        assert "Traceback" not in refused.stderr
    finally:
        penstock.close()


def test_a_second_process_on_the_same_data_is_rejected(penstock: PenstockBroker) -> None:
    penstock.start()
    try:
        [data] = penstock.log_directories
        refused = serve(
            "--set", f"listeners=PLAINTEXT://127.0.0.1:{free_port()}", "--set", f"log.dirs={data}"
        )
        assert refused.returncode == 1
        assert str(data) in refused.stderr
        assert "Traceback" not in refused.stderr
        assert admin(penstock.bootstrap).list_topics(timeout=WAIT_SECONDS).brokers  # the first one continues
    finally:
        penstock.close()


def test_a_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    refused = serve(
        "--set",
        f"listeners=PLAINTEXT://127.0.0.1:{free_port()}",
        "--set",
        f"log.dirs={tmp_path / 'file' / 'data'}",
    )
    assert refused.returncode == 1
    assert str(tmp_path / "file") in refused.stderr
    assert "Traceback" not in refused.stderr


def test_data_of_another_node_is_rejected(penstock: PenstockBroker) -> None:
    penstock.start()
    penstock.stop()
    [data] = penstock.log_directories
    refused = serve(
        "--set",
        f"listeners=PLAINTEXT://127.0.0.1:{free_port()}",
        "--set",
        f"log.dirs={data}",
        "--set",
        "node.id=99",
    )
    assert refused.returncode == 1
    assert "99" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_it_stops_with_the_reason_when_its_only_disk_is_full(tmp_path: Path) -> None:
    """A limit on the file size simulates a full disk, because it needs no mount."""
    port, data = free_port(), tmp_path / "data"
    settings = ["--set", f"listeners=PLAINTEXT://127.0.0.1:{port}", "--set", f"log.dirs={data}"]
    limit = (256 * 1024, 256 * 1024)
    process = subprocess.Popen(
        [*penstock_command(), "serve", *settings],
        env=penstock_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("penstock ready")
        producer = Producer({"bootstrap.servers": f"127.0.0.1:{port}", "message.timeout.ms": 5000})
        for _ in range(100):
            producer.produce("orders", b"x" * 100_000)
        producer.poll(0)

        assert process.wait(WAIT_SECONDS) == 1
    finally:
        process.kill()
        _, errors = process.communicate()
    last = errors.splitlines()[-1]
    assert "ERROR node.process: stopping: log directory" in last
    assert f"{data} is offline: File too large (EFBIG) while appending to {data}/orders-0/" in last
    assert last.endswith("Free space on the disk or repair it, then start the node again.")
    producer.purge()
