"""Whatever goes wrong is one sentence and an exit status; a fault of ours is a traceback."""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Callable

import pytest

from penstock import errors
from penstock.cli.failures import Misuse, Refusal, guard, report_when_stopped


def failing(problem: BaseException) -> Callable[[], int]:
    def fail() -> int:
        raise problem

    return fail


def named_not_found() -> OSError:
    try:
        open("/no/such/file")  # noqa: SIM115
    except OSError as problem:
        return problem
    raise AssertionError


@pytest.mark.parametrize(
    ("problem", "status", "message"),
    [
        (Refusal("no"), 1, "penstock: no"),
        (Misuse("not so"), 2, "penstock: not so"),
        (
            errors.NoBrokersAvailable(attempts={"h:1": "refused"}),
            1,
            "no broker answers: h:1: refused; check that",
        ),
        (errors.of(3, about="orders"), 1, "[UNKNOWN_TOPIC_OR_PARTITION]"),
        (named_not_found(), 1, "/no/such/file: No such file or directory; check the name"),
        (ConnectionResetError("gone"), 1, "gone"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), 1, "not valid UTF-8"),
    ],
)
def test_an_expected_error_is_one_sentence(
    problem: Exception, status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert guard(failing(problem)) == status
    shown = capsys.readouterr().err
    assert message in shown
    assert shown.count("\n") == 1


def test_a_fault_of_ours_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        guard(failing(ZeroDivisionError()))


def test_a_variable_enables_tracebacks_of_expected_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_DEBUG", "1")

    with pytest.raises(Refusal):
        guard(failing(Refusal("no")))


def test_ctrl_c_exits_with_130_and_a_summary(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> int:
        with (
            report_when_stopped(lambda: "7 records were written"),
            report_when_stopped(lambda: "unused"),
        ):
            raise KeyboardInterrupt

    assert guard(work) == 130
    assert capsys.readouterr().err == "\npenstock: stopped: unused\n"
    assert guard(failing(KeyboardInterrupt())) == 130
    assert capsys.readouterr().err == "\npenstock: stopped\n"


def test_a_closed_pipe_is_not_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    stream = io.TextIOWrapper(io.FileIO(writer, "w"))
    monkeypatch.setattr("sys.stdout", stream)

    def work() -> int:
        print("x" * 10)
        return 0

    assert guard(work) == 0
    stream.close()


@pytest.mark.parametrize("before", [signal.SIG_DFL, signal.SIG_IGN])
def test_sigterm_ends_a_command_no_matter_how_it_was_started(before: signal.Handlers) -> None:
    def work() -> int:
        signal.raise_signal(signal.SIGTERM)
        return 0

    handler = signal.signal(signal.SIGTERM, before)
    try:
        assert guard(work) == 143
        assert signal.getsignal(signal.SIGTERM) == before
    finally:
        signal.signal(signal.SIGTERM, handler)
