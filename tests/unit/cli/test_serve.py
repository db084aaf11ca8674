"""What `penstock serve` reads, refuses and announces. The node itself is a fake here."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.cli.serve import Refusal, read_settings, serve
from penstock.config.broker import BrokerSettings
from penstock.node import process
from penstock.node.process import CannotStart, Ready


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    """`serve` sets up the logging of its process; the tests' own must survive it."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


class FakeNode:
    """Serves at once, or fails as it is told, and ends."""

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
        ("assignment", "words"),
        [
            ("num.partitions", "must be key=value"),
            ("=5", "must be key=value"),
            (
                "num.partitions=0",
                "It was said by --set num.partitions=0.\n`penstock settings num.partitions` tells more.",
            ),
            ("nmu.partitions=1", "did you mean num.partitions?"),
        ],
    )
    def test_a_bad_assignment_is_refused(self, assignment: str, words: str) -> None:
        with pytest.raises(Refusal) as refusal:
            read_settings(None, [assignment])

        assert words in str(refusal.value)

    def test_a_bad_setting_is_refused_with_its_place(self, tmp_path: Path) -> None:
        file = tmp_path / "server.properties"
        file.write_text("num.partitions=none\n")

        with pytest.raises(Refusal) as refusal:
            read_settings(str(file), [])

        assert "num.partitions=none: must be an integer" in str(refusal.value)
        assert f"It was said in {file}." in str(refusal.value)

    def test_a_bad_line_is_refused_with_its_number(self, tmp_path: Path) -> None:
        file = tmp_path / "server.properties"
        file.write_text("\nlog.dirs=\\u12\n")

        with pytest.raises(Refusal, match=r"server.properties: line 2"):
            read_settings(str(file), [])

    def test_a_missing_file_is_told(self) -> None:
        with pytest.raises(Refusal, match=r"cannot read /no/such/file: No such file or directory"):
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

    def test_a_refusal_is_told_on_stderr_with_status_2(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert serve(None, ["num.partitions=0"], log_level="info") == 2

        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith("penstock: num.partitions=0: must be")

    def test_what_has_no_effect_is_told_once(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        install(monkeypatch, FakeNode())

        serve(None, ["num.network.threads=8", "ssl.protocol=TLSv1.3", "rsm.config.x=1"], log_level="info")

        told = capsys.readouterr().err
        assert "WARN  cli.serve: accepted, but not in force in this version: ssl.protocol\n" in told
        assert (
            "INFO  cli.serve: accepted, but without meaning here: num.network.threads, rsm.config.x\n" in told
        )

    @pytest.mark.parametrize(
        ("problem", "words"),
        [
            (OSError(errno.EACCES, "permission denied", "/data"), "--set log.dirs="),
            (OSError("some other trouble"), "penstock: some other trouble\n"),
            (CannotStart("the address is taken"), "penstock: the address is taken\n"),
        ],
    )
    def test_a_failed_start_is_told_with_a_remedy_and_status_1(
        self,
        problem: OSError,
        words: str,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        install(monkeypatch, FakeNode(problem))

        assert serve(None, [], log_level="info") == 1
        assert words in capsys.readouterr().err
