"""`penstock serve`: settings, errors and the ready line. The node is a fake."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.failures import Misuse, Refusal
from penstock.cli.main import main
from penstock.cli.serve import read_settings, serve
from penstock.cli.serve_nodes import serve_nodes
from penstock.config.broker import BrokerSettings
from penstock.node import process
from penstock.node.local_layout import lock, plan, write
from penstock.node.process import CannotStart, Ready


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    """`serve` sets up the logging of its process; the tests' own must survive it."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_a_second_serve_of_the_same_nodes_does_not_touch_their_files(tmp_path: Path) -> None:
    options: dict[str, Any] = {"data": str(tmp_path), "host": "127.0.0.1", "log_level": "info"}
    write(plan(tmp_path, count=2, port=9092))
    before = {file: file.read_bytes() for file in tmp_path.glob("*.properties")}
    held = lock(tmp_path)

    with pytest.raises(Refusal, match="is running already: stop that `penstock serve --nodes` first"):
        serve_nodes(2, None, [], port=9292, **options)

    held.release()
    assert {file: file.read_bytes() for file in tmp_path.glob("*.properties")} == before


class FakeNode:
    """Is ready at once or fails, and ends."""

    def __init__(self, problem: Exception | None = None) -> None:
        self.problem = problem
        self.settings: BrokerSettings | None = None

    def run(self, settings: BrokerSettings, *, on_ready: Callable[[Ready], None]) -> int:
        self.settings = settings
        if self.problem is not None:
            raise self.problem
        on_ready(Ready(1, "abc", ("PLAINTEXT://127.0.0.1:9092",), ("/data",)))
        return 0


def install(monkeypatch: pytest.MonkeyPatch, node: FakeNode) -> FakeNode:
    monkeypatch.setattr(process, "run", node.run)
    return node


class TestReadingSettings:
    def test_the_command_line_outranks_the_file(self, tmp_path: Path) -> None:
        file = tmp_path / "server.properties"
        file.write_text("num.partitions = 3\nlog.dirs=/data\n")

        settings = read_settings(str(file), ["num.partitions=5", " node.id = 7"])

        assert settings.get("num.partitions") == 5
        assert settings.node_id == 7
        assert settings.log_dirs == ("/data",)

    @pytest.mark.parametrize(
        ("assignment", "message"),
        [
            ("num.partitions", "must be key=value"),
            ("=5", "must be key=value"),
            (
                "num.partitions=0",
                "It comes from --set num.partitions=0.\n`penstock settings num.partitions` explains it.",
            ),
            ("nmu.partitions=1", "did you mean num.partitions?"),
        ],
    )
    def test_a_bad_assignment_is_rejected(self, assignment: str, message: str) -> None:
        with pytest.raises(Misuse) as refusal:
            read_settings(None, [assignment])

        assert message in str(refusal.value)

    def test_a_bad_setting_names_its_source(self, tmp_path: Path) -> None:
        file = tmp_path / "server.properties"
        file.write_text("num.partitions=none\n")

        with pytest.raises(Misuse) as refusal:
            read_settings(str(file), [])

        assert "num.partitions=none: must be a 32-bit integer" in str(refusal.value)
        assert f"It comes from {file}." in str(refusal.value)

    def test_a_bad_line_names_its_number(self, tmp_path: Path) -> None:
        file = tmp_path / "server.properties"
        file.write_text("\nlog.dirs=\\u12\n")

        with pytest.raises(Misuse, match=r"server.properties: line 2"):
            read_settings(str(file), [])

    def test_a_missing_file_is_an_error(self) -> None:
        with pytest.raises(Misuse, match=r"cannot read /no/such/file: No such file or directory"):
            read_settings("/no/such/file", [])


class TestServing:
    def test_readiness_is_one_line_on_stdout(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        node = install(monkeypatch, FakeNode())

        status = serve(None, ["log.dirs=/data"], log_level="info")

        assert status == 0
        assert capsys.readouterr().out == (
            "penstock ready: node 1 of cluster abc serves PLAINTEXT://127.0.0.1:9092 (data in /data)\n"
        )
        assert node.settings is not None
        assert node.settings.log_dirs == ("/data",)

    def test_a_bad_setting_exits_with_status_2(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["serve", "--set", "num.partitions=0"]) == 2

        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith("penstock: num.partitions=0: must be")

    def test_ignored_settings_are_logged_once(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        install(monkeypatch, FakeNode())

        serve(None, ["num.network.threads=8", "ssl.protocol=TLSv1.3", "rsm.config.x=1"], log_level="info")

        shown = capsys.readouterr().err
        assert "WARN  cli.serve: ignoring settings that are not implemented yet: ssl.protocol\n" in shown
        kafka_only = "num.network.threads, rsm.config.x"
        assert f"INFO  cli.serve: ignoring settings that only apply to Apache Kafka: {kafka_only}\n" in shown

    @pytest.mark.parametrize(
        ("problem", "message"),
        [
            (OSError(errno.EACCES, "permission denied", "/data"), "--set log.dirs="),
            (OSError("some other trouble"), "penstock: some other trouble\n"),
            (CannotStart("the address is taken"), "penstock: the address is taken\n"),
        ],
    )
    def test_a_failed_start_exits_with_1_and_advice(
        self,
        problem: OSError,
        message: str,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        install(monkeypatch, FakeNode(problem))

        assert serve(None, [], log_level="info") == 1
        assert message in capsys.readouterr().err
