"""Transactions: rate, commit latency, and the cost of read_committed.

Producers use KIP-890: only Produce and EndTxn requests. A broker may still be writing markers when the producer starts
its next transaction; that cost is part of all figures except the latency of EndTxn, for which `commitTransaction` waits
after all writes are acknowledged.
"""

from __future__ import annotations

import statistics
import struct
import time

from bench.connections import ConnectionPool
from bench.line import Group, Line
from bench.peers import Peer
from bench.transactional_producers import Requests, TransactionalProducer
from bench.wire import VALUE_BYTES, VERSIONS, Wire, fetch_frame, new_name, next_offset
from penstock.protocol.apis import ApiKey, api
from penstock.protocol.codec import codec

RECORDS = 10  # a transaction
TRANSACT_S = 2.0
COMMITS = 500
WARMING_COMMITS = 100
READ_COMMITTED = 1
READ_TRANSACTIONS = 4096
READ_RECORDS = 140  # a transaction: 16 KiB
READ_PRODUCERS = 50
ABORT_ONE_IN = 10
READ_PASSES = 4
OFFSET = struct.Struct(">q")
ODD_OFFSET = 0x5EED5EED5EED5EED  # found again in an encoded frame, to be replaced there


def transactions(peer: Peer) -> dict[str, float]:
    """Kafka delays a producer that starts the next transaction too early by 20 ms; with many producers it is busy all
    the same."""
    return {
        ONE_PRODUCER: _transactions_per_s(peer, producers=1),
        TEN_PRODUCERS: _transactions_per_s(peer, producers=10),
        FIFTY_PRODUCERS: _transactions_per_s(peer, producers=50),
    }


def _transactions_per_s(peer: Peer, *, producers: int) -> float:
    """Each producer writes to a partition of its own."""
    topic = new_name("transactions")
    with ConnectionPool(peer.port, producers) as pool, Wire(peer.port) as wire:
        wire.create_topic(topic, partitions=producers)
        clients = [
            TransactionalProducer(
                link, Requests(wire, new_name("producer"), topic, record_count=RECORDS, partition=number)
            )
            for number, link in enumerate(pool.links)
        ]
        for client in clients:
            client.start()
        pool.run_for(TRANSACT_S / 2)
        before = sum(client.count for client in clients)
        began = time.perf_counter()
        pool.run_for(TRANSACT_S)
        done = sum(client.count for client in clients) - before
        seconds = time.perf_counter() - began
        _finish(pool, clients)
        wire.delete_topic(topic)
    return done / seconds


def commit_latency(peer: Peer) -> dict[str, float]:
    """From the request until its response, and until a waiting read_committed consumer gets the records."""
    topic = new_name("commits")
    completed, seen = [], []
    with Wire(peer.port) as wire, Wire(peer.port) as reader:
        wire.create_topic(topic)
        requests = Requests(wire, new_name("producer"), topic, record_count=RECORDS)
        position = wire.end_offset(topic)
        for _ in range(COMMITS + WARMING_COMMITS):
            _write(wire, requests)
            reader.socket.sendall(
                fetch_frame(topic, position, max_wait_ms=10_000, isolation_level=READ_COMMITTED)
            )
            began = time.perf_counter()
            wire.socket.sendall(requests.end())
            response = wire.receive()
            ended = time.perf_counter()
            records = _fetched(reader.receive())
            visible = time.perf_counter()
            if not requests.is_ended(response) or len(records) < RECORDS * VALUE_BYTES:
                raise RuntimeError("a transaction was not committed, or its records were not shown")
            position += RECORDS + 1  # a marker follows them
            completed.append(ended - began)
            seen.append(visible - began)
        wire.delete_topic(topic)
    return {
        COMMIT: statistics.median(completed[WARMING_COMMITS:]) * 1e6,
        SEEN: statistics.median(seen[WARMING_COMMITS:]) * 1e6,
    }


def read_committed(peer: Peer) -> dict[str, float]:
    """One partition that many producers wrote to at once, one transaction of ten rolled back, read several times."""
    topic = new_name("read")
    with ConnectionPool(peer.port, READ_PRODUCERS) as pool, Wire(peer.port) as wire:
        wire.create_topic(topic)
        clients = [
            TransactionalProducer(
                link,
                Requests(wire, new_name("producer"), topic, record_count=READ_RECORDS),
                abort_one_in=ABORT_ONE_IN,
            )
            for link in pool.links
        ]
        for client in clients:
            client.start()
        pool.run_until(lambda: sum(client.count for client in clients) >= READ_TRANSACTIONS)
        _finish(pool, clients)
        end = wire.end_offset(topic)
        _read_all(wire, topic, end)
        began = time.perf_counter()
        total_bytes = sum(_read_all(wire, topic, end) for _ in range(READ_PASSES))
        seconds = time.perf_counter() - began
        wire.delete_topic(topic)
    return {READ: total_bytes / 1e6 / seconds}


def _read_all(wire: Wire, topic: str, end: int) -> int:
    """Fetches up to an offset; the bytes of records that came."""
    frame = bytearray(fetch_frame(topic, ODD_OFFSET, isolation_level=READ_COMMITTED))
    offset_at = frame.index(OFFSET.pack(ODD_OFFSET))
    offset = got_bytes = 0
    while offset < end:
        OFFSET.pack_into(frame, offset_at, offset)
        wire.socket.sendall(frame)
        records = _fetched(wire.receive())
        following = next_offset(records, 0)
        if following is None:
            raise RuntimeError(f"no records at offset {offset} of {topic}, which ends at {end}")
        got_bytes += len(records)
        offset = following
    return got_bytes


def _fetched(received: memoryview) -> memoryview:
    response, _ = codec(api(ApiKey.FETCH).response_class(), VERSIONS[ApiKey.FETCH]).decode(received, 5)
    partition = response.responses[0].partitions[0]
    if partition.error_code:
        raise RuntimeError(f"a fetch was refused: {partition.error_code!r}")
    return memoryview(partition.records)


def _write(wire: Wire, requests: Requests) -> None:
    """Until it is taken: the broker may still be busy with the transaction before."""
    is_written = False
    while not is_written:
        wire.socket.sendall(requests.write)
        is_written = requests.is_written(wire.receive())


def _finish(pool: ConnectionPool, clients: list[TransactionalProducer]) -> None:
    """No transaction is left open."""
    for client in clients:
        client.is_stopping = True
    pool.run_until(lambda: all(client.is_idle for client in clients))


ONE_PRODUCER = "transactions of 10 records, one producer"
TEN_PRODUCERS = "transactions of 10 records, ten producers"
FIFTY_PRODUCERS = "transactions of 10 records, fifty producers"
COMMIT = "commit until it is answered, median"
SEEN = "commit until it is read, median"
READ = "raw fetch of committed records, 10 % aborted"
TRANSACTION_LINES = [
    Group(
        "transactions",
        transactions,
        [
            Line(ONE_PRODUCER, "transactions/s", True, 1.5),
            Line(TEN_PRODUCERS, "transactions/s", True, 1.5),
            Line(FIFTY_PRODUCERS, "transactions/s", True, 1.5),
        ],
        5,
    ),
    Group("txnlatency", commit_latency, [Line(COMMIT, "µs", False, 0.7), Line(SEEN, "µs", False, 0.7)], 5),
    Group("readcommitted", read_committed, [Line(READ, "MB/s", True, 1.2)], 5),
]
