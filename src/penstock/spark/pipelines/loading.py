"""Loads a program's file, so that its functions can travel to workers.

A file defines one of two things:

    app = App("word-count")             a topology of `penstock.streams`, which starts its own queries
    def pipeline(spark): ...            returns a query, an unstarted one (`df.writeStream...`), or several of them

The runner gives unstarted queries a name and a checkpoint location, so a file needs neither.

Errors in a file are reported as early as possible: from its text (`check`), by running it without a session
(`load_early`), and if it needs one, after that (`load`).
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import inspect
import linecache
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from penstock.client.errors.base import ClientError
from penstock.spark.internals import is_raised_by_spark, register_pickle_by_value
from penstock.spark.pipelines import inspecting

MODULE_PREFIX = "penstock_pipeline_"  # of the modules of loaded files
OURS = Path(__file__).parents[2]
PACKAGES = ("site-packages", "dist-packages")  # folders of installed packages


class BadProgram(ClientError):
    """A file that is not a pipeline; the message says why."""


class Program(NamedTuple):
    """What a file defines."""

    name: str
    app: Any | None
    pipeline: Callable[..., Any] | None


def check(file: Path) -> bool:
    """Reject a file that cannot be a program by its text alone; returns whether loading it needs a session."""
    if file.is_dir():
        raise BadProgram(f"{file} is a directory; name a Python file in it")
    if not file.is_file():
        raise BadProgram(f"{file}: no such file")
    if file.suffix != ".py":
        raise BadProgram(f"{file} is not a Python file: its name must end in .py")
    try:
        tree = ast.parse(file.read_bytes(), str(file))
        compile(tree, str(file), "exec")  # this finds a `return` outside of a function, too
    except (SyntaxError, ValueError) as error:
        raise BadProgram(f"cannot load {file}: {_described(error, file)}") from error
    if lack := inspecting.lacking(tree):
        raise BadProgram(f"{file} {lack}")
    return inspecting.wants_session(tree)


def load_early(file: Path) -> Program | None:
    """The program of a file, loaded without a session; None if it turns out to need one, and `load` has to run it
    again."""
    try:
        return load(file)
    except BadProgram as refused:
        if refused.__cause__ is not None and is_raised_by_spark(refused.__cause__):
            return None
        raise


def load(file: Path) -> Program:
    """The program of a file; `BadProgram` with the lines of the file that caused it."""
    check(file)
    module = _import(file)
    app, pipeline = getattr(module, "app", None), getattr(module, "pipeline", None)
    if app is not None and hasattr(app, "start"):
        return Program(_name_of_app(app) or name_of_file(file), app, None)
    if pipeline is not None:
        _check_function(file, pipeline)
        return Program(name_of_file(file), None, pipeline)
    if app is not None:
        raise BadProgram(f"{file}: `app` is {kind_of(app)}, not a penstock.streams.App")
    raise BadProgram(f"{file} defines neither `app` nor `pipeline`: {inspecting.HINT}")


def name_of_file(file: Path) -> str:
    """`examples/word_count.py` is `word-count`."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", file.stem).strip("-.") or "pipeline"


def place_of(error: BaseException) -> str:
    """The lines of the program's own files in the traceback of an error, to append to the message."""
    lines: list[str] = []
    for frame, number in traceback.walk_tb(error.__traceback__):
        if _is_of_program(frame.f_globals):
            code = frame.f_code
            inside = "" if code.co_name == "<module>" else f", in {code.co_name}"
            text = linecache.getline(code.co_filename, number).strip()
            lines.append(f"\n  {_shown(code.co_filename)}, line {number}{inside}: {text}")
    return "".join(lines)


_folders: list[Path] = []  # of loaded programs


def _is_of_program(names: dict[str, Any]) -> bool:
    """Whether a module is the program's or next to it, rather than Python's own, an installed package's or ours."""
    if str(names.get("__name__")).startswith(MODULE_PREFIX):
        return True
    file = Path(str(names.get("__file__")))
    return (
        any(file.is_relative_to(folder) for folder in _folders)
        and not any(name in file.parts for name in PACKAGES)
        and not file.is_relative_to(OURS)
    )


def _shown(file: str) -> str:
    """Relative to the working directory, if it is below it."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file


def _name_of_app(app: Any) -> str | None:
    for attribute in ("application_id", "id", "name"):
        if isinstance(found := getattr(app, attribute, None), str) and found:
            return found
    return None


def _check_function(file: Path, pipeline: object) -> None:
    if not callable(pipeline):
        raise BadProgram(f"{file}: `pipeline` is {kind_of(pipeline)}, not a function: {inspecting.HINT}")
    if inspect.iscoroutinefunction(pipeline):
        raise BadProgram(f"{file}: `pipeline` must not be async: {inspecting.HINT}")
    try:
        inspect.signature(pipeline).bind(None)
    except TypeError as error:
        raise BadProgram(
            f"{file}: `pipeline` must take the session as its only argument ({error}): {inspecting.HINT}"
        ) from error
    except ValueError:  # some functions that are not written in Python have no signature
        pass


def kind_of(value: object) -> str:
    """`a DataFrame`, `an int`."""
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _import(file: Path) -> ModuleType:
    name = re.sub(r"\W+", "_", f"{MODULE_PREFIX}{file.stem}")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None, "check() requires .py"
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    folder = file.resolve().parent
    if folder not in _folders:
        _folders.append(folder)
        sys.path.insert(_path_index(), str(folder))
    try:
        spec.loader.exec_module(module)
    except SystemExit as error:
        raise BadProgram(
            f"{file} exited while it was loaded ({_message(error)}); put code that is only for `python {file.name}`"
            f' under `if __name__ == "__main__":`{place_of(error)}'
        ) from error
    except Exception as error:
        raise BadProgram(f"cannot load {file}: {_described(error, file)}") from error
    _pickle_by_value(module, *_neighbours())
    return module


def _path_index() -> int:
    """The index on the module path after Python's own modules and before packages: the whole process imports `queue`
    or `copy`, so a file next to the program must not replace them."""
    return next((at for at, part in enumerate(sys.path) if Path(part).name in PACKAGES), len(sys.path))


def _neighbours() -> list[ModuleType]:
    """Modules that the program imported from next to it, but not from below it, such as an environment."""
    return [
        module
        for name, module in list(sys.modules.items())
        if (file := getattr(module, "__file__", None)) is not None
        and any(Path(file) in (folder / f"{name}.py", folder / name / "__init__.py") for folder in _folders)
    ]


def _described(error: BaseException, file: Path) -> str:
    """The error, and the lines that caused it."""
    if isinstance(error, SyntaxError) and error.lineno is not None:
        line = (error.text or "").strip()
        place = f"\n  {_shown(error.filename or str(file))}, line {error.lineno}" + (
            f": {line}" if line else ""
        )
        return f"{type(error).__name__}: {error.msg}{place_of(error)}{place}"
    return f"{_message(error)}{place_of(error)}"


def _message(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _pickle_by_value(*modules: ModuleType) -> None:
    """Send the functions of these modules with their code: workers cannot import them."""
    with contextlib.suppress(ImportError):  # without PySpark, making a session raises the better error
        for module in modules:
            register_pickle_by_value(module)
