"""The cost of records: `python bench/micro/records.py`.

The first table is the work of a broker on a produced batch of 100-byte records; the validation should take at most 1 µs
more than the checksum at 16 KiB. The second is the work of clients and pipelines, in millions of records per second;
the targets are 3 for building and iterating, and 10 for messages and columns. The third compares the codecs. Comments
in the code that claim a gain name this file.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable

from penstock.records import consuming, kernel
from penstock.records.batch import Compression, NewRecord, Record, assign_offsets
from penstock.records.columns import HeaderColumn, decode_columns
from penstock.records.compression import compress, decompress
from penstock.records.convert import down_convert, up_convert
from penstock.records.crc import crc32c

BATCH_SIZES = (100, 16 * 1024, 128 * 1024, 1024 * 1024)
VALUE = b"x" * 100
ROUNDS = 5
ROUND_SECONDS = 0.05


def main() -> None:
    batches()
    rates()
    codecs()


def batches() -> None:
    print("µs a batch          bytes   records    checksum   check  inspect  header   place")
    for size in BATCH_SIZES:
        batch = batch_of(max(1, size // 107))
        view = memoryview(batch)
        times = [
            seconds(lambda view=view: crc32c(view[21:])),
            seconds(lambda view=view: kernel.check_batch(view)),
            seconds(lambda view=view: kernel.inspect_batch(view)),
            seconds(lambda view=view: kernel.read_header(view)),
            seconds(lambda view=view: assign_offsets(view, 0, base_offset=1, leader_epoch=1)),
        ]
        count = kernel.read_header(batch).record_count
        print(f"{'':12}{len(batch):13,}{count:10,}    " + "".join(f"{1e6 * each:8.2f}" for each in times))


def rates() -> None:
    plain = [(1_700_000_000_000 + i, None, VALUE, ()) for i in range(1000)]
    keyed = [(1_700_000_000_000 + i, b"key-%08d" % i, VALUE, ()) for i in range(1000)]
    headed = [NewRecord(*each[:3], (("trace", b"0123456789abcdef"),)) for each in keyed]
    messages = kernel.write_messages([Record(i, *each) for i, each in enumerate(keyed)], magic=1)
    print("\nM records/s                     build  iterate messages columns  without headers")
    for name, records, codec in (
        ("value", plain, Compression.NONE),
        ("key and value", keyed, Compression.NONE),
        ("key, value, header", headed, Compression.NONE),
        ("key and value, lz4", keyed, Compression.LZ4),
        ("key and value, zstd", keyed, Compression.ZSTD),
    ):
        batch = bytes(kernel.build_batch(records, compression=codec))
        fetched = in_a_row(batch, 100)
        rate = [
            1000 / seconds(lambda r=records, c=codec: kernel.build_batch(r, compression=c)),
            1000 / seconds(lambda b=batch: list(kernel.iterate_records(b))),
            100_000 / seconds(lambda f=fetched: take_messages(f)),
            100_000 / seconds(lambda f=fetched: decode_columns(f)),
            100_000 / seconds(lambda f=fetched: decode_columns(f, headers=HeaderColumn.NONE)),
        ]
        print(f"{name:28}" + "".join(f"{each / 1e6:9.2f}" for each in rate))
    batch = bytes(kernel.build_batch(keyed))
    print(f"{'up-convert, v1':28}{1000 / seconds(lambda: up_convert(messages)) / 1e6:9.2f}")
    print(f"{'down-convert, v1':28}{1000 / seconds(lambda: down_convert(batch, magic=1)) / 1e6:9.2f}")


def codecs() -> None:
    text = b"".join(b'{"id": %d, "name": "user-%d"}' % (i, i * 7919 % 100_000) for i in range(40_000))
    print("\nMB/s                  ratio   compress   decompress")
    for codec in Compression:
        if codec is not Compression.NONE:
            for size in (16 * 1024, 1024 * 1024):
                data = text[:size]
                packed = compress(codec, data)
                down = size / seconds(lambda c=codec, d=data: compress(c, d)) / 1e6
                up = size / seconds(lambda c=codec, p=packed: decompress(c, p)) / 1e6
                label = f"{codec.name.lower()}, {size // 1024} KiB"
                print(f"{label:20}{size / len(packed):7.1f}{down:11.0f}{up:13.0f}")


def in_a_row(batch: bytes, count: int) -> bytes:
    """The batch again and again, each behind the last, as a log has them."""
    made = bytearray()
    for number in range(count):
        one = bytearray(batch)
        assign_offsets(one, 0, base_offset=1000 * number, leader_epoch=1)
        made += one
    return bytes(made)


def take_messages(fetched: bytes) -> None:
    """As a consumer does that keeps none of them."""
    records = consuming.FetchedRecords("topic", 0, fetched, 0)
    while records.take(500):
        pass


def batch_of(count: int) -> bytearray:
    return kernel.build_batch([(1_700_000_000_000 + i, None, VALUE, ()) for i in range(count)])


def seconds(work: Callable[[], object]) -> float:
    """The best of some rounds, each long enough to be timed."""
    timer = timeit.Timer(work)
    once = max(timer.timeit(1), 1e-7)
    number = max(1, int(ROUND_SECONDS / once))
    return min(timer.repeat(ROUNDS, number)) / number


if __name__ == "__main__":
    main()
