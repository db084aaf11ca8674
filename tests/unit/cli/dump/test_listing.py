"""Files of a log as people and programs see them, of a log that a real directory wrote."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from harness.storage import (
    NOW_MS,
    QUIET,
    InlineWorkers,
    SetClock,
    append,
    append_in_transaction,
    append_marker,
    make_batch,
)
from penstock.cli.main import main
from penstock.protocol.types import random_uuid
from penstock.records.batch import Compression
from penstock.runtime.disk import RealDisk
from penstock.storage.directory import LogDirectory
from penstock.storage.directory_io import DirectoryIO, OpenFiles
from penstock.storage.settings import LogSettings

SETTINGS = LogSettings(
    segment_bytes=1 << 20, index_interval_bytes=100, retention_ms=-1, file_delete_delay_ms=0
)


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """A partition with plain and compressed batches, a transaction that was committed and one that was not."""
    rng = random.Random(7)
    io = DirectoryIO(
        str(tmp_path),
        disk=RealDisk(),
        workers=InlineWorkers(),
        clock=SetClock(),
        rng=rng,
        open_files=OpenFiles(10),
    )
    directory = LogDirectory(io, settings=QUIET)
    directory.open(cluster_id="test", node_id=1)
    log = directory.create("orders", 0, random_uuid(rng), SETTINGS)
    append(log, make_batch(3, timestamp=NOW_MS, value=b"plain"))
    append(log, make_batch(4, timestamp=NOW_MS + 1, value=b"x" * 200, compression=Compression.GZIP))
    for sequence, is_commit in ((0, True), (2, False)):
        append_in_transaction(log, 9, sequence, count=2)
        append_marker(log, 9, is_commit=is_commit)
    await directory.close()
    return Path(log.folder)


def dump(capsys: pytest.CaptureFixture[str], *message: str) -> list[str]:
    assert main(["logs", "dump", *message]) == 0
    return capsys.readouterr().out.splitlines()


def dump_json(capsys: pytest.CaptureFixture[str], *message: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in dump(capsys, *message, "--json")]


def test_a_folder_is_dumped_file_by_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = dump(capsys, str(folder))

    titles = [line.rpartition("/")[2] for line in lines if line.startswith(str(folder))]
    assert titles[0] == "00000000000000000000.index: offset index"
    assert titles[1] == "00000000000000000000.log: Log starting offset: 0"
    assert any(title.endswith(".txnindex: aborted transactions") for title in titles)
    assert any(title.endswith(".snapshot: producers") for title in titles)


def test_batches_are_objects_for_programs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batches = dump_json(capsys, str(folder / "00000000000000000000.log"))

    assert [batch["records"] for batch in batches] == [3, 4, 2, 1, 2, 1]
    assert [batch["codec"] for batch in batches][:2] == ["none", "gzip"]
    assert batches[3]["flags"] == ["transactional", "control"]
    assert all(batch["valid"] for batch in batches)


def test_records_are_shown_with_their_contents(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = dump_json(capsys, str(folder / "00000000000000000000.log"), "--records")

    assert [record["offset"] for record in records] == list(range(13))
    assert records[0]["value"] == "plain"
    assert [record["control"] for record in records if record["control"]] == [
        "endTxnMarker: COMMIT coordinatorEpoch: 0",
        "endTxnMarker: ABORT coordinatorEpoch: 0",
    ]


def test_a_limit_ends_the_walk(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(dump_json(capsys, str(folder / "00000000000000000000.log"), "--records", "--limit", "2")) == 2


def test_aborted_transactions_and_producers_are_listed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (aborted,) = dump_json(capsys, str(folder / "00000000000000000000.txnindex"))
    (producer,) = dump_json(capsys, str(next(folder.glob("*.snapshot"))))

    assert (aborted["producer"], aborted["first_offset"], aborted["last_offset"]) == (9, 10, 12)
    assert producer["producer"] == 9


def test_a_damaged_batch_is_reported_and_the_rest_is_shown(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / "00000000000000000000.log"
    data = bytearray(file.read_bytes())
    data[70] ^= 1
    file.write_bytes(data + b"torn")

    records = dump_json(capsys, str(file), "--records")
    batches = dump_json(capsys, str(file))

    assert [record["offset"] for record in records if record["kind"] == "record"] == list(range(3, 13))
    assert [record["problem"] for record in records if record["kind"] == "problem"] == [
        "the batch at position 0 (offset 0) is damaged",
        "4 bytes at the end are not a batch",
    ]
    assert [batch.get("valid") for batch in batches] == [False, True, True, True, True, True, None]


def test_a_wrong_index_is_detected(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = folder / "00000000000000000000.index"
    entries = bytearray(index.read_bytes())
    assert entries, "the log has an index"
    entries[3] += 1
    index.write_bytes(entries)

    problems = [line for line in dump_json(capsys, str(index)) if line["kind"] == "problem"]

    assert len(problems) == 1
    assert "in the index" in str(problems[0]["problem"])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing.log", "No such file"),
        ("notes.txt", "is not a log file"),
        ("empty", "contains no log files"),
    ],
)
def test_other_files_are_rejected(
    name: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").touch()

    assert main(["logs", "dump", str(tmp_path / name)]) == 1
    assert message in capsys.readouterr().err
