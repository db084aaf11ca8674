"""Where `penstock produce` takes records from. Writing itself is tested with a broker."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest

from penstock.cli import produce, record_writer
from penstock.cli.failures import Misuse, Stopped
from penstock.cli.output import Output
from penstock.cli.produce import Source
from penstock.cli.progress import Progress
from penstock.cli.record_writer import Written
from penstock.cli.records.line_reader import NewRecord

SOURCE = Source(
    values=(), file=None, format="lines", key=None, key_separator=None, headers=(), null=None, partition=None
)


def test_lines_of_a_stream_are_records() -> None:
    assert list(SOURCE.records(io.BytesIO(b"one\ntwo\xff\n"))) == [NewRecord(b"one"), NewRecord(b"two\xff")]


def test_arguments_are_records() -> None:
    assert list(replace(SOURCE, values=("a", "b")).records(None)) == [NewRecord(b"a"), NewRecord(b"b")]


def test_a_stream_can_be_one_record() -> None:
    assert list(replace(SOURCE, format="whole").records(io.BytesIO(b"a\nb"))) == [NewRecord(b"a\nb")]


def test_defaults_are_added_to_each_record() -> None:
    source = replace(SOURCE, key="k", headers=("h=1", "n=NULL"), partition=3, null="NULL")

    assert list(source.records(io.BytesIO(b"v\nNULL\n"))) == [
        NewRecord(b"v", b"k", (("h", b"1"), ("n", None)), 3),
        NewRecord(None, b"k", (("h", b"1"), ("n", None)), 3),
    ]


def test_the_values_of_a_record_override_the_defaults() -> None:
    source = replace(SOURCE, format="json", key="common", partition=3)

    assert list(source.records(io.BytesIO(b'{"key": "own", "value": "v", "partition": 1}\n'))) == [
        NewRecord(b"v", b"own", (), 1)
    ]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (replace(SOURCE, values=("a",), file="f"), "not both"),
        (replace(SOURCE, key="k", key_separator=":"), "not both"),
        (replace(SOURCE, format="json", key_separator=":"), "needs --format lines"),
        (replace(SOURCE, headers=("nothing",)), "must be name=value"),
    ],
)
def test_contradicting_sources_are_rejected(source: Source, words: str) -> None:
    with pytest.raises(Misuse, match=words):
        source.check()


class Typed(io.BytesIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "is_shown"), [(Typed(), False), (io.BytesIO(), True)])
def test_no_progress_is_drawn_over_what_a_person_types(
    stream: io.BytesIO, is_shown: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[str] = []
    monkeypatch.setattr(Progress, "__enter__", lambda progress: shown.append(progress.what))
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=stream))
    monkeypatch.setattr(produce, "write_records", lambda *_, **__: Written())

    produce.run("orders", SOURCE, {}, Output())

    assert shown == (["writing to orders"] if is_shown else [])
    assert ("Ctrl-D ends" in capsys.readouterr().err) is not is_shown


def test_a_record_that_was_acknowledged_when_ctrl_c_came_was_counted_as_not_acknowledged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Acknowledged:
        partition = 0

        def result(self) -> None:
            raise KeyboardInterrupt

        def done(self) -> bool:
            return True

        def exception(self, timeout: float) -> None:
            return None

    @contextmanager
    def open_producer(settings: Mapping[str, object]) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(send=lambda *_, **__: Acknowledged())

    monkeypatch.setattr(record_writer, "open_producer", open_producer)

    with pytest.raises(Stopped) as stopped:
        record_writer.write_records("typed", [NewRecord(b"one")], {}, waits_for_each=True)
    assert str(stopped.value) == "wrote 1 record (3 bytes) to typed"
