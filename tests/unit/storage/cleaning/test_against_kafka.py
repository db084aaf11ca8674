"""Our cleaner and Apache Kafka's leave the same files: the same batches, byte for byte, in the same segments."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harness.compaction import Writer, commit_everything, make_cleaner
from harness.storage import Place
from oracle.compaction import Case, compact
from penstock.records import kernel
from penstock.records.batch import Compression
from penstock.storage.settings import LogSettings
from penstock.storage.transactions.aborted import decode_entries

SETTINGS = LogSettings(
    segment_bytes=2000, index_interval_bytes=100, compact=True, delete=False, delete_retention_ms=1000
)
ROUNDS = 4
SEEDS = range(30)


class Pair:
    """A log, and a copy of it for Kafka's cleaner, which continues with its own result."""

    def __init__(self, seed: int, folder: Path) -> None:
        # Codecs of two libraries give different bytes, so most logs have none.
        codecs = tuple(Compression) if seed % 3 == 0 else (Compression.NONE,)
        self.seed = seed
        self.is_compressed = len(codecs) > 1
        self.writer = Writer(seed, codecs=codecs)
        self.place = Place(settings=SETTINGS, seed=seed)
        self.log = self.place.create()
        self.folder = folder
        folder.mkdir()
        self.first_dirty_offset = 0

    async def write(self) -> Case:
        """Write, compact our log, and say what Kafka has to do."""
        for _ in range(60):
            self.writer.write(self.log)
        await commit_everything(self.log)
        before = self.files()
        self.place.clock.now_ms += self.writer.random.choice([0, 500, 1500])
        self.add_new_files(before)
        case = Case(
            folder=self.folder,
            first_dirty_offset=self.first_dirty_offset,
            end_offset=self.log.segments.active.base_offset,
            now_ms=self.place.clock.now_ms,
            delete_retention_ms=SETTINGS.delete_retention_ms,
            segment_bytes=SETTINGS.segment_bytes,
            index_interval_bytes=SETTINGS.index_interval_bytes,
        )
        assert await make_cleaner(self.place).clean_one()
        self.first_dirty_offset = self.place.directory.cleaned_offset(self.log)
        return case

    def files(self) -> dict[str, bytes]:
        disk, folder = self.place.disk, self.log.folder
        return {
            name: disk.open(f"{folder}/{name}").read(position=0, size=1 << 30)
            for name in disk.list(folder)
            if name.endswith((".log", ".txnindex"))
        }

    def add_new_files(self, files: Mapping[str, bytes]) -> None:
        """Bring what was written since to the copy. Files that Kafka has compacted stay."""
        for snapshot in self.folder.glob("*.snapshot"):
            snapshot.unlink()
        for name, content in files.items():
            if int(name.partition(".")[0]) >= self.first_dirty_offset:
                (self.folder / name).write_bytes(content)

    def theirs(self) -> dict[str, bytes]:
        return {
            path.name: path.read_bytes()
            for path in self.folder.iterdir()
            if path.suffix in (".log", ".txnindex")
        }


def content(data: bytes) -> list[object]:
    """The batches, with compressed records decompressed."""
    batches: list[object] = []
    position = 0
    for header in kernel.check_batches(data):
        records = tuple(kernel.iterate_records(data, position))
        batches.append((header._replace(size_bytes=0, crc=0), records))
        position += header.size_bytes
    return batches


async def test_the_same_files_are_left(tmp_path: Path) -> None:
    pairs = [Pair(seed, tmp_path / f"orders-{seed}") for seed in SEEDS]
    for _ in range(ROUNDS):
        ends = compact([await pair.write() for pair in pairs])
        for pair, end in zip(pairs, ends, strict=True):
            assert end == pair.first_dirty_offset
            compare(pair)


def compare(pair: Pair) -> None:
    ours, theirs = pair.files(), pair.theirs()
    logs = [name for name in ours if name.endswith(".log")]
    assert sorted(logs) == sorted(name for name in theirs if name.endswith(".log"))
    for name in logs:
        if pair.is_compressed:
            assert content(ours[name]) == content(theirs[name]), (pair.seed, name)
        else:
            assert ours[name] == theirs[name], (pair.seed, name)
    for name in ours:
        if name.endswith(".txnindex"):
            expected = theirs.get(name, b"")
            assert list(decode_entries(ours[name])) == list(decode_entries(expected)), (pair.seed, name)
