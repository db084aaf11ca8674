"""How load is measured, and the lines that scripts read."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from penstock.cli.failures import Refusal, Stopped
from penstock.cli.kafka import consumer_perf_test, producer_perf_test
from penstock.cli.output import Output
from penstock.cli.perf import report
from penstock.cli.perf.consumer import Consumed
from penstock.cli.perf.measurement import MIB, Latencies, Meter, Pace, Span
from penstock.cli.perf.producer import counting_payloads, payloads_of_file, random_payloads


def latencies(*values: float) -> Latencies:
    made = Latencies()
    for value in values:
        made.add(value)
    return made


def test_percentiles_are_counted_by_index() -> None:
    made = latencies(*range(100))

    assert made.percentiles(0.5, 0.95, 0.99, 0.999) == [50, 95, 99, 99]
    assert (made.mean, made.maximum) == (49.5, 99)


def test_nothing_measured_is_nothing() -> None:
    assert Latencies().percentiles(0.5) == [0.0]
    assert Latencies().mean == Latencies().maximum == 0.0
    assert Span().records_per_second == Span().mib_per_second == 0.0


def test_work_is_cut_into_windows_and_summed_up() -> None:
    meter = Meter(now=10.0, window_seconds=1.0)
    meter.add(5, 500)
    meter.add_latency(2.0)
    assert meter.close_window(10.5) is None

    window = meter.close_window(11.0)
    meter.add(1, 100)
    last = meter.close_window(11.5, is_last=True)

    assert window is not None
    assert (window.records, window.bytes, window.seconds) == (5, 500, 1.0)
    assert last is not None
    assert last.records == 1
    assert (meter.total.records, meter.total.bytes, meter.total.seconds) == (6, 600, 1.5)
    assert list(meter.total.latencies.samples) == [2.0]


def test_a_pace_is_kept() -> None:
    pace = Pace(100, now=0.0)

    assert pace.wait_seconds(200, 1.0) == 1.0
    assert pace.wait_seconds(100, 1.0) == 0.0
    assert Pace(-1, now=0.0).wait_seconds(10**9, 0.0) == 0.0
    assert Pace(None, now=0.0).wait_seconds(10**9, 0.0) == 0.0


def test_payloads() -> None:
    assert {len(value) for value in islice(random_payloads(7), 10)} == {7}
    assert list(islice(random_payloads(3, seed=1), 5)) == list(islice(random_payloads(3, seed=1), 5))
    assert list(islice(counting_payloads(), 3)) == [b"0", b"1", b"2"]


def test_payloads_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "payloads"
    file.write_text("a|b|")
    assert set(islice(payloads_of_file(str(file), delimiter="|"), 50)) == {b"a", b"b"}
    file.write_text("")
    with pytest.raises(Refusal, match="contains no records"):
        next(payloads_of_file(str(file)))


SPAN = Span(5000, 10 * MIB, 2.0, latencies(1.0, 2.0, 3.5))


def test_the_producers_lines_are_kafkas() -> None:
    assert producer_perf_test.window_line(SPAN) == (
        "5000 records sent, 2500.0 records/sec (5.00 MB/sec), 2.2 ms avg latency, 3.5 ms max latency."
    )
    assert producer_perf_test.total_line(SPAN) == (
        "5000 records sent, 2500.0 records/sec (5.00 MB/sec), 2.17 ms avg latency, 3.50 ms max latency, "
        "2 ms 50th, 3 ms 95th, 3 ms 99th, 3 ms 99.9th."
    )


def test_the_consumers_line_is_kafkas() -> None:
    line = consumer_perf_test.total_line(
        Consumed(SPAN, joining_ms=500), began=1_000_000_000.25, letters="yyyy-MM-dd HH:mm:ss:SSS"
    )

    assert re.fullmatch(
        r"2001-09-\d\d \d\d:46:40:250, 2001-09-\d\d \d\d:46:42:250, "
        r"10\.0000, 5\.0000, 5000, 2500\.0000, 500, 1500, 6\.6667, 3333\.3333",
        line,
    )


def test_a_consumers_window_is_printed() -> None:
    consumed = Consumed(Span(7000, 20 * MIB, 4.0), joining_ms_in_window=0)

    line = consumer_perf_test.window_line(SPAN, consumed, "HH")

    assert re.fullmatch(r"\d\d, 0, 20\.0000, 5\.0000, 7000, 2500\.0000, 0, 2000, 5\.0000, 2500\.0000", line)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--topic t --num-records 1 --throughput 1", "one of the arguments --record-size"),
        (
            "--topic t --num-records 1 --throughput 1 --record-size 1 --payload-monotonic",
            "one of the arguments",
        ),
        ("--topic t --num-records x --throughput 1 --record-size 1", "Cannot parse argument 'x'"),
        ("--topic t --throughput 1", 'Missing required argument "[num-records]"'),
        ("--topic t --num-records 5 --throughput 1 --record-size 1 --warmup-records 5", "strictly fewer"),
    ],
)
def test_a_load_that_contradicts_itself_is_rejected(
    line: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert producer_perf_test.TOOL.run(line.split(), producer_perf_test.run) == 1
    assert message in capsys.readouterr().err


def test_transactions_can_be_requested_in_several_ways() -> None:
    def settings(line: str) -> tuple[str | None, float | None]:
        options = producer_perf_test.TOOL.parse(
            ["--topic", "t", "--num-records", "1", "--throughput", "-1", "--payload-monotonic", *line.split()]
        )
        made, duration = producer_perf_test.settings_of(options)
        return made.get("transactional.id"), duration

    assert settings("") == (None, None)
    assert settings("--transactional-id x") == ("x", 3000.0)
    assert settings("--producer-props transactional.id=y acks=all --transaction-duration-ms 5") == ("y", 5.0)
    name, duration = settings("--transaction-duration-ms 7")
    assert name is not None
    assert name.startswith("performance-producer-")
    assert duration == 7.0


@pytest.mark.parametrize("flags", ["--record-size 3", "--payload-monotonic"])
def test_the_producer_tool_finds_its_payloads(flags: str) -> None:
    options = producer_perf_test.TOOL.parse(f"--topic t --num-records 1 --throughput -1 {flags}".split())

    assert next(producer_perf_test._payloads(options))


def test_a_stopped_perf_test_names_the_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(
        load: object, payloads: object, settings: object, on_window: Callable[[Span, int], None]
    ) -> None:
        on_window(SPAN, 2100)
        raise KeyboardInterrupt

    monkeypatch.setattr(report.producer_test, "produce", stop)

    with pytest.raises(Stopped, match=r"^sent 2,100 records to orders$"):
        report.produce("orders", count=9000, size=1, per_second=None, settings={}, output=Output())
