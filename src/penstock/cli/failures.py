"""Errors of commands: one sentence with advice, and an exit status.

Commands do not catch their exceptions; `guard` does. Expected errors (no broker, unknown topic, unreadable file,
Ctrl-C) become a sentence on stderr. An unexpected error is a bug and keeps its traceback.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

FAILED = 1
MISUSED = 2
INTERRUPTED = 130  # 128 + SIGINT, as in shells
TERMINATED = 143  # 128 + SIGTERM

DEBUG_VARIABLE = "PENSTOCK_DEBUG"  # if set, expected errors show tracebacks too

# Advice for errors of the operating system.
REMEDIES = {
    errno.EACCES: "check its permissions",
    errno.EPERM: "check its permissions",
    errno.EROFS: "choose another directory",
    errno.ENOSPC: "free some space, or choose another disk",
    errno.ENOENT: "check the name",
    errno.EISDIR: "name a file in this directory",
    errno.ECONNREFUSED: "check that a broker is running (`penstock serve`) and that --bootstrap-server is right",
}


class Refusal(Exception):
    """A command cannot do its work. The message is for the user; `status` is the exit status."""

    def __init__(self, message: str, *, status: int = FAILED) -> None:
        super().__init__(message)
        self.status = status


class Misuse(Refusal):
    """The options or arguments of a command are invalid."""

    def __init__(self, message: str) -> None:
        super().__init__(message, status=MISUSED)


class Terminated(KeyboardInterrupt):
    """SIGTERM, which is handled like Ctrl-C: `timeout 5 penstock consume ...` prints its summary too."""


class Stopped(KeyboardInterrupt):
    """Ctrl-C or SIGTERM, with a summary of the work done so far. Its cause is the original exception."""


@contextmanager
def report_when_stopped(summary: Callable[[], str]) -> Iterator[None]:
    """Print a summary on Ctrl-C: `with report_when_stopped(lambda: f"{count} records were written"):`"""
    try:
        yield
    except Stopped:
        raise
    except KeyboardInterrupt as stop:
        raise Stopped(summary()) from stop


def guard(work: Callable[[], int]) -> int:
    """Do the work, and turn errors into messages. Returns the exit status."""
    try:
        with _raising_on_sigterm():
            status = work()
        sys.stdout.flush()  # here, where a closed pipe can still be handled
        return status
    except BrokenPipeError:
        _discard_stdout()
        return 0
    except KeyboardInterrupt as stop:
        summary = f": {stop}" if str(stop) else ""
        print(f"\npenstock: stopped{summary}", file=sys.stderr)
        return status_of(stop)
    except Exception as problem:
        message = describe(problem)
        if message is None or os.environ.get(DEBUG_VARIABLE):
            raise
        print(f"penstock: {message}", file=sys.stderr)
        return problem.status if isinstance(problem, Refusal) else FAILED


def status_of(stop: KeyboardInterrupt) -> int:
    """The exit status of an interrupted command."""
    return (
        TERMINATED if isinstance(stop, Terminated) or isinstance(stop.__cause__, Terminated) else INTERRUPTED
    )


@contextmanager
def _raising_on_sigterm() -> Iterator[None]:
    """Turn SIGTERM into an exception, unless it has a handler. A node installs its own later."""
    before = signal.getsignal(signal.SIGTERM)
    is_ours = threading.current_thread() is threading.main_thread() and before in (
        signal.SIG_DFL,
        signal.SIG_IGN,  # SIGTERM always ends a command
    )
    if is_ours:
        signal.signal(signal.SIGTERM, _raise_terminated)
    try:
        yield
    finally:
        if is_ours:
            signal.signal(signal.SIGTERM, before)


def _raise_terminated(number: int, frame: object) -> None:
    raise Terminated


def describe(problem: BaseException) -> str | None:
    """The message of an expected error, or None for a bug."""
    if isinstance(problem, Refusal):
        return str(problem)
    if _is_one_of(problem, "penstock.client.errors.base", "PenstockError"):
        from penstock.cli.suggestions import sentence

        return sentence(problem)  # type: ignore[arg-type]  # loaded only if it was raised
    if _is_one_of(problem, "penstock.config.errors", "BadSetting"):
        return str(problem)
    if isinstance(problem, UnicodeError):
        return f"not valid UTF-8: {problem}"
    if isinstance(problem, OSError):
        message = problem.strerror or str(problem)
        if problem.filename is not None:
            message = f"{problem.filename}: {message}"
        remedy = REMEDIES.get(problem.errno or 0)
        return f"{message}; {remedy}" if remedy else message
    return None


def _is_one_of(problem: BaseException, module: str, name: str) -> bool:
    """Whether the error has this class. Does not import the module: it is loaded if the error was raised."""
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(problem, kind)


def _discard_stdout() -> None:
    """The reader of our output has closed the pipe (`| head`). The interpreter must not fail on it at exit."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):  # not a real stdout: nothing to flush at exit
        pass
