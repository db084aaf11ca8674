"""Formatting directories, with our command and with Kafka's tool."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.cli.main import main

ID = "MkU3OEVBNTcwNTJENDM2Qg"


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    file = tmp_path / "server.properties"
    file.write_text(
        f"node.id=3\nprocess.roles=broker,controller\nlog.dirs={tmp_path}/a,{tmp_path}/b\n"
        f"metadata.log.dir={tmp_path}/a\n"
    )
    return file


def run(line: str, properties: Path) -> int:
    return main(line.replace("FILE", str(properties)).split())


def test_directories_are_formatted_and_shown(
    properties: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(f"storage format FILE --cluster-id {ID}", properties) == 0
    table = capsys.readouterr().out.splitlines()
    assert [line.split() for line in table] == [
        ["directory", "cluster", "node", "was", "formatted"],
        [f"{tmp_path}/a", ID, "3", "no"],
        [f"{tmp_path}/b", ID, "3", "no"],
    ]
    assert run("storage info FILE --json", properties) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [(one["directory"], one["cluster"], one["node"], one["metadata"]) for one in shown] == [
        (f"{tmp_path}/a", ID, 3, True),
        (f"{tmp_path}/b", ID, 3, False),
    ]


def test_info_lists_unformatted_directories(properties: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("storage info FILE", properties) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[1:] == ["-", "-", "-", "yes"]


def test_a_new_cluster_id_is_generated_by_default(
    properties: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("storage format FILE --json", properties) == 0
    assert len({one["cluster"] for one in json.loads(capsys.readouterr().out)}) == 1


def test_formatted_directories_are_skipped(properties: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(f"storage format FILE -t {ID}", properties)

    assert run(f"storage format FILE -t {ID}", properties) == 1
    assert "is already formatted. Use --ignore-formatted" in capsys.readouterr().err
    assert run(f"storage format FILE -t {ID} --ignore-formatted", properties) == 0


def test_nothing_is_written_where_one_directory_is_of_another_cluster(
    properties: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(f"storage format --set node.id=3 --set log.dirs={tmp_path}/b -t other", properties)

    assert run(f"storage format FILE -t {ID} --ignore-formatted", properties) == 1
    assert "holds data of cluster other" in capsys.readouterr().err
    assert not (tmp_path / "a").exists()


class TestKafkasTool:
    def test_format_works_as_in_the_quick_start(
        self, properties: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run("kafka-storage random-uuid", properties) == 0
        cluster_id = capsys.readouterr().out.strip()
        assert len(cluster_id) == 22

        assert run(f"kafka-storage format --standalone -t {cluster_id} -c FILE", properties) == 0
        assert capsys.readouterr().out.splitlines() == [
            f"Formatting dynamic metadata voter directory {tmp_path}/a with metadata.version 4.3-IV0.",
            f"Formatting data directory {tmp_path}/b with metadata.version 4.3-IV0.",
        ]
        assert run(f"kafka-storage format -g -t {cluster_id} -c FILE", properties) == 0
        assert capsys.readouterr().out == "All of the log directories are already formatted.\n"
        assert run("kafka-storage info -c FILE", properties) == 0
        shown = capsys.readouterr().out
        assert f"Found log directories:\n  {tmp_path}/a\n  {tmp_path}/b\n" in shown
        assert f"cluster.id={cluster_id}" in shown

    def test_directories_that_are_missing_are_a_problem(
        self, properties: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run("kafka-storage info -c FILE", properties) == 1
        assert f"Found problems:\n  {tmp_path}/a does not exist" in capsys.readouterr().out

    def test_features_of_the_version_are_listed(
        self, properties: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run("kafka-storage version-mapping", properties) == 0
        assert "metadata.version=30 (4.3-IV0)\n" in capsys.readouterr().out
        assert run("kafka-storage feature-dependencies -f metadata.version=30", properties) == 0
        assert capsys.readouterr().out == "metadata.version=30 (4.3-IV0) has no dependencies.\n"
        assert run("kafka-storage feature-dependencies -f nonsense=1", properties) == 1

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("", "usage: kafka-storage"),
            ("nonsense", "invalid choice: 'nonsense'"),
            ("format -c FILE", "argument --cluster-id/-t is required"),
            ("format -t x", "argument --config/-c is required"),
            ("format -t x -c /no/file", "cannot read /no/file"),
            ("format -t x -c FILE -S SCRAM-SHA-256=[name=a,password=b]", "not supported yet"),
            ("format -t x -c FILE -r 9.9", "Unknown metadata.version '9.9'"),
            ("format -t x -c FILE -f metadata.version=15", "the supported levels are 19-30"),
            ("format -t x -c FILE -f nope=1", "Unsupported feature: nope. Supported features are: eligible"),
            ("format -t x -c FILE -f nope", "Can't parse feature=level string nope"),
            ("format -t x -c FILE -f metadata.version=25 -r 3.9", "to avoid ambiguity"),
            (
                "format -t x -c FILE --standalone --no-initial-controllers",
                "not allowed with argument --standalone",
            ),
        ],
    )
    def test_unsupported_flags_are_rejected(
        self, line: str, message: str, properties: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(f"kafka-storage {line}", properties) == 1
        shown = capsys.readouterr()
        assert message in shown.err + shown.out
