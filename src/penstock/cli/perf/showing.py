"""What `penstock perf` shows: progress while it runs, a table or JSON of figures at its end."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.cli.ending import consuming as closing_consumer
from penstock.cli.failures import FAILED, account
from penstock.cli.output import Output, count_of, say, show_bytes, show_count
from penstock.cli.perf import consuming, producing, transacting
from penstock.cli.perf import end_to_end as there_and_back
from penstock.cli.perf.measuring import Latencies, Span

WINDOW_SECONDS = 1.0


def produce(
    topic: str,
    *,
    count: int,
    size: int,
    per_second: float | None,
    settings: Mapping[str, object],
    output: Output,
) -> None:
    load = producing.ProduceLoad(topic, count, per_second, window_seconds=WINDOW_SECONDS)
    sent = 0
    with (
        account(lambda: f"sent {count_of(sent, 'record')} to {topic}"),
        output.progress(f"writing to {topic}", total=count, unit="records") as progress,
    ):

        def told(window: Span, done: int) -> None:
            nonlocal sent
            sent = done
            progress.update(done, what=f"writing to {topic}, {_rate(window)}")

        produced = producing.produce(load, producing.random_payloads(size), settings, told)
    _show("records", produced.total, output)


def consume(topic: str, *, count: int | None, settings: Mapping[str, object], output: Output) -> int:
    """The exit status: 1 where fewer records came than were asked for."""
    there = _count(topic, settings)  # which also refuses a topic that does not exist
    wanted = there if count is None else count
    load = consuming.ConsumeLoad((topic,), None, wanted, window_seconds=WINDOW_SECONDS)
    read = 0
    with (
        account(lambda: f"read {count_of(read, 'record')} from {topic}"),
        output.progress(f"reading {topic}", total=wanted, unit="records") as progress,
    ):

        def told(window: Span, consumed: consuming.Consumed) -> None:
            nonlocal read
            read = consumed.total.records
            progress.update(read, what=f"reading {topic}, {_rate(window)}")

        consumed = consuming.consume(load, settings, told)
    if not consumed.is_complete:
        say(
            f"only {consumed.total.records:,} of {wanted:,} records came; then none for {load.patience_ms / 1000:.0f} s"
        )
    _show("records", consumed.total, output)
    return 0 if consumed.is_complete else FAILED


def end_to_end(
    topic: str, *, count: int, size: int, acks: str, settings: Mapping[str, object], output: Output
) -> None:
    done = 0
    with (
        account(lambda: f"sent {count_of(done, 'record')} there and back"),
        output.progress("there and back", total=count, unit="records") as progress,
    ):

        def told(number: int, took_ms: float) -> None:
            nonlocal done
            done = number + 1
            if done % 100 == 0:
                progress.update(done, what=f"there and back, {took_ms:.2f} ms")

        latencies = there_and_back.measure(
            topic, count=count, size=size, acks=acks, settings=settings, told=told
        )
    seconds = sum(latencies.samples) / 1000
    _show("records", Span(len(latencies), len(latencies) * size, seconds, latencies), output)


def transactions(
    topic: str, *, count: int, records_each: int, size: int, settings: Mapping[str, object], output: Output
) -> None:
    done = 0
    with (
        account(lambda: f"committed {count_of(done, 'transaction')}"),
        output.progress("committing", total=count, unit="transactions") as progress,
    ):

        def told(window: Span, number: int) -> None:
            nonlocal done
            done = number
            progress.update(number, what=f"committing, {window.records_per_second:,.0f}/s")

        total = transacting.transact(
            topic, count=count, records_each=records_each, size=size, settings=settings, told=told
        )
    _show("transactions", total, output)


def _count(topic: str, settings: Mapping[str, object]) -> int:
    """How many records a topic holds, at most."""
    from penstock import TopicPartition

    with closing_consumer(
        {name: value for name, value in settings.items() if name != "group.id"}
    ) as consumer:
        partitions = [TopicPartition(topic, one.index) for one in consumer.partitions_for(topic)]
        begins, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    return sum(ends[partition] - begins[partition] for partition in partitions)


def _rate(window: Span) -> str:
    return f"{window.records_per_second:,.0f}/s, {window.mib_per_second:.1f} MiB/s"


def _show(what: str, total: Span, output: Output) -> None:
    if output.as_json:
        facts = total.facts()
        renamed = {name.replace("records", what): value for name, value in facts.items()}
        output.result("", renamed)
        return
    output.details(
        {
            what: show_count(total.records),
            "bytes": show_bytes(total.bytes),
            "seconds": f"{total.seconds:.2f}",
            "rate": f"{total.records_per_second:,.0f}/s",
            "throughput": f"{total.mib_per_second:.2f} MiB/s",
            **_latencies(total.latencies),
        }
    )


def _latencies(latencies: Latencies) -> dict[str, object]:
    if not len(latencies):
        return {}
    return {f"latency {name}": f"{value:.2f} ms" for name, value in latencies.facts().items()}
