"""`penstock perf`: progress while a test runs, and its result as a table or JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from penstock.cli.clients import open_consumer
from penstock.cli.failures import FAILED, report_when_stopped
from penstock.cli.output import Output, count_of, say, show_bytes, show_count
from penstock.cli.perf import consumer as consumer_test
from penstock.cli.perf import end_to_end as end_to_end_test
from penstock.cli.perf import producer as producer_test
from penstock.cli.perf import transactions as transactions_test
from penstock.cli.perf.measurement import Latencies, Span

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
    load = producer_test.ProduceLoad(topic, count, per_second, window_seconds=WINDOW_SECONDS)
    with _progress(output, f"writing to {topic}", total=count, verb="sent", where=f" to {topic}") as update:
        produced = producer_test.produce(
            load,
            producer_test.random_payloads(size),
            settings,
            lambda window, sent: update(sent, _rate(window)),
        )
    _show("records", produced.total, output)


def consume(topic: str, *, count: int | None, settings: Mapping[str, object], output: Output) -> int:
    """Returns the exit status: 1 if fewer records came than requested."""
    available = _count(topic, settings)  # fails if the topic does not exist
    wanted = available if count is None else count
    load = consumer_test.ConsumeLoad((topic,), None, wanted, window_seconds=WINDOW_SECONDS)
    with _progress(output, f"reading {topic}", total=wanted, verb="read", where=f" from {topic}") as update:
        consumed = consumer_test.consume(
            load, settings, lambda window, consumed: update(consumed.total.records, _rate(window))
        )
    if not consumed.is_complete:
        say(
            f"only {consumed.total.records:,} of {wanted:,} records came, then none for {load.patience_ms / 1000:.0f} s"
        )
    _show("records", consumed.total, output)
    return 0 if consumed.is_complete else FAILED


def end_to_end(
    topic: str, *, count: int, size: int, acks: str, settings: Mapping[str, object], output: Output
) -> None:
    with _progress(output, "round trips", total=count, verb="measured", unit="round trip") as update:
        latencies = end_to_end_test.measure(
            topic,
            count=count,
            size=size,
            acks=acks,
            settings=settings,
            on_record=lambda number, took_ms: update(number + 1, f"{took_ms:.2f} ms"),
        )
    seconds = sum(latencies.samples) / 1000
    _show("records", Span(len(latencies), len(latencies) * size, seconds, latencies), output)


def transactions(
    topic: str, *, count: int, records_each: int, size: int, settings: Mapping[str, object], output: Output
) -> None:
    with _progress(output, "committing", total=count, verb="committed", unit="transaction") as update:
        total = transactions_test.commit_transactions(
            topic,
            count=count,
            records_each=records_each,
            size=size,
            settings=settings,
            on_window=lambda window, number: update(number, f"{window.records_per_second:,.0f}/s"),
        )
    _show("transactions", total, output)


@contextmanager
def _progress(
    output: Output, text: str, *, total: int, verb: str, where: str = "", unit: str = "record"
) -> Iterator[Callable[[int, str], None]]:
    """A progress bar; on Ctrl-C, what was done so far. Yields the function that updates it."""
    done = 0
    with (
        report_when_stopped(lambda: f"{verb} {count_of(done, unit)}{where}"),
        output.progress(text, total=total, unit=f"{unit}s") as progress,
    ):

        def update(count: int, detail: str) -> None:
            nonlocal done
            done = count
            progress.update(count, what=f"{text}, {detail}")

        yield update


def _count(topic: str, settings: Mapping[str, object]) -> int:
    """The number of records of a topic, at most."""
    from penstock import TopicPartition

    with open_consumer({name: value for name, value in settings.items() if name != "group.id"}) as consumer:
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
