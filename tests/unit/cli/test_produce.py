"""Where `penstock produce` takes records from. Writing itself is tested with a broker."""

from __future__ import annotations

import io
from dataclasses import replace
from types import SimpleNamespace

import pytest

from penstock.cli import produce
from penstock.cli.failures import Misuse
from penstock.cli.output import Output
from penstock.cli.produce import Source
from penstock.cli.producing import Written
from penstock.cli.progress import Progress
from penstock.cli.records.line_reader import NewRecord

SOURCE = Source(
    values=(), file=None, format="lines", key=None, key_separator=None, headers=(), null=None, partition=None
)


def test_lines_of_a_stream_are_records() -> None:
    assert list(SOURCE.records(io.BytesIO(b"one\ntwo\xff\n"))) == [NewRecord(b"one"), NewRecord(b"two\xff")]


def test_words_are_records() -> None:
    assert list(replace(SOURCE, values=("a", "b")).records(None)) == [NewRecord(b"a"), NewRecord(b"b")]


def test_a_stream_can_be_one_record() -> None:
    assert list(replace(SOURCE, format="whole").records(io.BytesIO(b"a\nb"))) == [NewRecord(b"a\nb")]


def test_what_is_said_of_all_records_completes_each() -> None:
    source = replace(SOURCE, key="k", headers=("h=1", "n=NULL"), partition=3, null="NULL")

    assert list(source.records(io.BytesIO(b"v\nNULL\n"))) == [
        NewRecord(b"v", b"k", (("h", b"1"), ("n", None)), 3),
        NewRecord(None, b"k", (("h", b"1"), ("n", None)), 3),
    ]


def test_what_a_record_says_itself_comes_first() -> None:
    source = replace(SOURCE, format="json", key="common", partition=3)

    assert list(source.records(io.BytesIO(b'{"key": "own", "value": "v", "partition": 1}\n'))) == [
        NewRecord(b"v", b"own", (), 1)
    ]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (replace(SOURCE, values=("a",), file="f"), "choose one"),
        (replace(SOURCE, key="k", key_separator=":"), "choose one"),
        (replace(SOURCE, format="json", key_separator=":"), "is for lines"),
        (replace(SOURCE, headers=("nothing",)), "must be name=value"),
    ],
)
def test_sources_that_contradict_themselves_are_refused(source: Source, words: str) -> None:
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
