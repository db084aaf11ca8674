"""The Java client reads what we write and writes what we read: every format, every codec, both directions."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from oracle import jars
from penstock.records import kernel
from penstock.records.batch import Compression, Record, TimestampType
from penstock.records.control import EndTransactionMarker, end_transaction_batch, read_end_transaction
from penstock.records.convert import down_convert, recompress, up_convert
from penstock.records.message_set import read_message_set, write_message_set

PROGRAM = Path(__file__).with_name("JavaRecords.java")
RUN_SECONDS_MAX = 120  # a run takes about two seconds; a busy machine takes longer

OLD_CODECS = [codec for codec in Compression if codec is not Compression.ZSTD]
APPEND_TIME = 1_800_000_000_000


def run_java(*arguments: str) -> str:
    flags = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]  # for a short life
    finished = subprocess.run(
        ["java", *flags, "-cp", str(jars.libs() / "*"), str(PROGRAM), *arguments],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def sample(*, magic: int) -> list[Record]:
    """The records that the Java program writes."""
    return [
        Record(
            1000 + i,
            1_700_000_000_000 + i * 7 if magic else -1,
            None if i % 3 == 0 else b"key-%d" % i,
            None if i % 5 == 0 else b"value-%d-" % i + b"x" * i,
            tuple((f"härder-{j}", None if j == 1 else bytes((i % 256, j))) for j in range(i % 3))
            if magic == 2
            else (),
        )
        for i in range(600)
    ]


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("java")
    run_java("write", str(folder))
    return folder


@pytest.mark.parametrize("codec", Compression)
def test_we_read_their_batches(theirs: Path, codec: Compression) -> None:
    data = (theirs / f"v2-{codec.name.lower()}.bin").read_bytes()

    header = kernel.check_batch(data)

    assert header.compression is codec
    assert header.is_transactional
    assert (header.base_offset, header.leader_epoch) == (1000, 5)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, 20)
    assert list(kernel.iterate_records(data)) == sample(magic=2)


def test_our_uncompressed_batch_is_theirs_byte_for_byte(theirs: Path) -> None:
    ours = kernel.build_batch(
        sample(magic=2),
        leader_epoch=5,
        producer_id=77,
        producer_epoch=3,
        base_sequence=20,
        is_transactional=True,
    )

    assert ours == (theirs / "v2-none.bin").read_bytes()


def test_our_marker_is_theirs_byte_for_byte(theirs: Path) -> None:
    data = (theirs / "v2-commit.bin").read_bytes()
    (record,) = kernel.iterate_records(data)
    ours = end_transaction_batch(
        is_commit=True,
        producer_id=77,
        producer_epoch=3,
        coordinator_epoch=9,
        timestamp_ms=1_700_000_000_000,
        base_offset=40,
        leader_epoch=5,
    )

    assert read_end_transaction(record) == EndTransactionMarker(is_commit=True, coordinator_epoch=9)
    assert ours == data


def test_we_read_the_append_time_of_their_batches(theirs: Path) -> None:
    data = (theirs / "v2-none-append-time.bin").read_bytes()

    assert {record.timestamp for record in kernel.iterate_records(data)} == {APPEND_TIME}


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", OLD_CODECS)
def test_we_read_their_message_sets(theirs: Path, magic: int, codec: Compression) -> None:
    data = (theirs / f"v{magic}-{codec.name.lower()}.bin").read_bytes()

    assert read_message_set(data).records == sample(magic=magic)
    assert [record[1:] for record in kernel.iterate_records(up_convert(data))] == [
        record[1:] for record in sample(magic=magic)
    ]


def test_we_read_the_append_time_of_their_message_sets(theirs: Path) -> None:
    message_set = read_message_set((theirs / "v1-gzip-append-time.bin").read_bytes())

    assert message_set.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert {record.timestamp for record in message_set.records} == {APPEND_TIME}


@pytest.mark.parametrize("magic", [0, 1])
def test_our_plain_message_sets_are_theirs_byte_for_byte(theirs: Path, magic: int) -> None:
    assert write_message_set(sample(magic=magic), magic=magic) == (theirs / f"v{magic}-none.bin").read_bytes()


def test_they_read_whatever_we_write(tmp_path: Path) -> None:
    """In one Java process, because starting it takes longer than reading."""
    files: dict[str, tuple[bytes, list[str], str]] = {}

    def add(name: str, data: bytes, records: Sequence[Record], description: str) -> None:
        files[name] = (bytes(data), [as_java_prints(record) for record in records], f"{name} {description}")

    new = sample(magic=2)
    for codec in Compression:
        name = codec.name.lower()
        batch = kernel.build_batch(new, compression=codec)
        add(f"v2-{name}", batch, new, f"2/{name}/CreateTime/false")
        again = recompress(kernel.build_batch(new, compression=Compression.GZIP), codec)
        add(f"recompressed-{name}", again, new, f"2/{name}/CreateTime/false")
        if codec not in (Compression.NONE, Compression.SNAPPY):
            level = kernel.build_batch(new, compression=codec, level=7)
            add(f"level-{name}", level, new, f"2/{name}/CreateTime/false")
        if codec in OLD_CODECS and codec is not Compression.NONE:
            for magic, time in ((0, "NoTimestampType"), (1, "CreateTime")):
                add(
                    f"v{magic}-{name}",
                    down_convert(batch, magic=magic),
                    sample(magic=magic),
                    f"{magic}/{name}/{time}/false",
                )
    appended = kernel.build_batch(
        new, timestamp_type=TimestampType.LOG_APPEND_TIME, compression=Compression.LZ4
    )
    newest = new[-1].timestamp
    add("append-time", appended, [r._replace(timestamp=newest) for r in new], "2/lz4/LogAppendTime/false")
    add(
        "append-time-v1",
        down_convert(appended, magic=1),
        [r._replace(timestamp=newest, headers=()) for r in new],
        "1/lz4/LogAppendTime/false",
    )
    for name, (data, _, _) in files.items():
        (tmp_path / name).write_bytes(data)

    answer = run_java("read", *(str(tmp_path / name) for name in files))

    expected = [line for _, lines, end in files.values() for line in (*lines, end)]
    assert answer.splitlines() == expected


def as_java_prints(record: Record) -> str:
    fields = [str(record.offset), str(record.timestamp), hex_of(record.key), hex_of(record.value)]
    fields += [f"{hex_of(name.encode())}={hex_of(content)}" for name, content in record.headers]
    return " ".join(fields)


def hex_of(data: bytes | None) -> str:
    return "null" if data is None else f'"{data.hex()}"'
