"""A program's file: what it defines, loaded so that what it defines can travel to workers.

A file defines one of two things:

    app = App("word-count")             a topology of `penstock.streams`, which knows how to start its queries
    def pipeline(spark): ...            returns a query, or what is not yet started (`df.writeStream...`), or several

What is not started is given a name and a place for its checkpoint by whoever runs it, so a file needs to name neither.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from penstock.client.errors.base import ClientError

MODULE_PREFIX = "penstock_pipeline_"  # of the modules that files are loaded as


class BadProgram(ClientError):
    """A file that is no pipeline, and why."""


class Program(NamedTuple):
    """What a file defines."""

    name: str
    app: Any | None
    pipeline: Callable[..., Any] | None


def check(file: Path) -> None:
    """Refuse what can be no program, before a session is started for it."""
    if not file.is_file():
        raise BadProgram(f"{file}: there is no such file")
    try:
        compile(file.read_bytes(), str(file), "exec")
    except (SyntaxError, ValueError) as error:
        raise BadProgram(f"{file} could not be loaded: {type(error).__name__}: {error}") from error


def load(file: Path) -> Program:
    """The program of a file, or `BadProgram` with its own traceback behind it."""
    check(file)
    module = _import(file)
    app, pipeline = getattr(module, "app", None), getattr(module, "pipeline", None)
    if app is not None and hasattr(app, "start"):
        return Program(_name_of_app(app) or name_of_file(file), app, None)
    if callable(pipeline):
        return Program(name_of_file(file), None, pipeline)
    raise BadProgram(
        f"{file} defines neither `app` (a penstock.streams.App) nor a function `pipeline(spark)` that returns queries"
    )


def name_of_file(file: Path) -> str:
    """`examples/word_count.py` is `word-count`."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", file.stem).strip("-.") or "pipeline"


def _name_of_app(app: Any) -> str | None:
    for attribute in ("application_id", "id", "name"):
        if isinstance(found := getattr(app, attribute, None), str) and found:
            return found
    return None


def _import(file: Path) -> ModuleType:
    name = re.sub(r"\W+", "_", f"{MODULE_PREFIX}{file.stem}")
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise BadProgram(f"{file} is no Python file: its name has to end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(file.resolve().parent))  # as Python does for a program that it runs
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise BadProgram(
            f"{file} could not be loaded: {type(error).__name__}: {error}{place_of(error)}"
        ) from error
    _travel_by_value(module)
    return module


def _travel_by_value(module: ModuleType) -> None:
    """Workers have no such module: its functions are sent as what they are, not by their names."""
    try:
        from pyspark import cloudpickle
    except ImportError:  # said where a session is made, in better words
        return
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def place_of(error: BaseException) -> str:
    """The line of a program's file where it went wrong."""
    line: int | None = None
    trace = error.__traceback__
    while trace is not None:
        if str(trace.tb_frame.f_globals.get("__name__")).startswith(MODULE_PREFIX):
            line = trace.tb_lineno
        trace = trace.tb_next
    return "" if line is None else f" (line {line})"
