"""A program's file: what it defines, loaded so that what it defines can travel to workers.

A file defines one of two things:

    app = App("word-count")             a topology of `penstock.streams`, which knows how to start its queries
    def pipeline(spark): ...            returns a query, or what is not yet started (`df.writeStream...`), or several

What is not started is given a name and a place for its checkpoint by whoever runs it, so a file needs to name neither.

What is wrong with a file is told as early as it can be: by its text (`check`), by running it before there is a session
(`load_early`), and where it wants one to be run, after that (`load`).
"""

from __future__ import annotations

import ast
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
from penstock.spark.pipelines import inspecting

MODULE_PREFIX = "penstock_pipeline_"  # of the modules that files are loaded as
OURS = Path(__file__).parents[2]
PACKAGES = ("site-packages", "dist-packages")  # folders in which Python installs


class BadProgram(ClientError):
    """A file that is no pipeline, and why."""


class Program(NamedTuple):
    """What a file defines."""

    name: str
    app: Any | None
    pipeline: Callable[..., Any] | None


def check(file: Path) -> bool:
    """Refuse what can be no program by its text alone; whether it wants a session to be loaded."""
    if file.is_dir():
        raise BadProgram(f"{file} is a directory; name a Python file in it")
    if not file.is_file():
        raise BadProgram(f"{file}: there is no such file")
    if file.suffix != ".py":
        raise BadProgram(f"{file} is no Python file: its name has to end in .py")
    try:
        tree = ast.parse(file.read_bytes(), str(file))
        compile(tree, str(file), "exec")  # which finds a `return` outside of a function, too
    except (SyntaxError, ValueError) as error:
        raise BadProgram(f"{file} could not be loaded: {_told(error, file)}") from error
    if lack := inspecting.lacking(tree):
        raise BadProgram(f"{file} {lack}")
    return inspecting.wants_session(tree)


def load_early(file: Path) -> Program | None:
    """The program of a file without a session; None where it turns out to want one, and `load` has to run it again."""
    try:
        return load(file)
    except BadProgram as refused:
        if refused.__cause__ is not None and _is_raised_by_spark(refused.__cause__):
            return None
        raise


def load(file: Path) -> Program:
    """The program of a file, or `BadProgram` with the lines of the file that led to it."""
    check(file)
    module = _import(file)
    app, pipeline = getattr(module, "app", None), getattr(module, "pipeline", None)
    if app is not None and hasattr(app, "start"):
        return Program(_name_of_app(app) or name_of_file(file), app, None)
    if pipeline is not None:
        _check_function(file, pipeline)
        return Program(name_of_file(file), None, pipeline)
    if app is not None:
        raise BadProgram(f"{file}: `app` is {kind_of(app)}, and no penstock.streams.App")
    raise BadProgram(f"{file} defines neither `app` nor `pipeline`: {inspecting.HINT}")


def name_of_file(file: Path) -> str:
    """`examples/word_count.py` is `word-count`."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", file.stem).strip("-.") or "pipeline"


def place_of(error: BaseException) -> str:
    """The lines of the program's own files on the way to an error, to stand under the sentence that tells it."""
    lines: list[str] = []
    for frame, number in traceback.walk_tb(error.__traceback__):
        if _is_of_program(frame.f_globals):
            code = frame.f_code
            inside = "" if code.co_name == "<module>" else f", in {code.co_name}"
            text = linecache.getline(code.co_filename, number).strip()
            lines.append(f"\n  {_shown(code.co_filename)}, line {number}{inside}: {text}")
    return "".join(lines)


_folders: list[Path] = []  # of the programs that were loaded


def _is_of_program(names: dict[str, Any]) -> bool:
    """Whether a module is the program's, or lies beside it: neither Python's own, nor a package's, nor ours."""
    if str(names.get("__name__")).startswith(MODULE_PREFIX):
        return True
    file = Path(str(names.get("__file__")))
    return (
        any(file.is_relative_to(folder) for folder in _folders)
        and not any(name in file.parts for name in PACKAGES)
        and not file.is_relative_to(OURS)
    )


def _shown(file: str) -> str:
    """From where the user stands, if it is below that."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file


def _name_of_app(app: Any) -> str | None:
    for attribute in ("application_id", "id", "name"):
        if isinstance(found := getattr(app, attribute, None), str) and found:
            return found
    return None


def _check_function(file: Path, pipeline: object) -> None:
    if not callable(pipeline):
        raise BadProgram(f"{file}: `pipeline` is {kind_of(pipeline)}, and no function: {inspecting.HINT}")
    if inspect.iscoroutinefunction(pipeline):
        raise BadProgram(f"{file}: `pipeline` is async, which Spark's queries are not: {inspecting.HINT}")
    try:
        inspect.signature(pipeline).bind(None)
    except TypeError as error:
        raise BadProgram(
            f"{file}: `pipeline` is called with the session and nothing else ({error}): {inspecting.HINT}"
        ) from error
    except ValueError:  # a function that is not Python's does not tell
        pass


def kind_of(value: object) -> str:
    """`a DataFrame`, `an int`."""
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _import(file: Path) -> ModuleType:
    name = re.sub(r"\W+", "_", f"{MODULE_PREFIX}{file.stem}")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None, "check() has seen that it ends in .py"
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    folder = file.resolve().parent
    if folder not in _folders:
        _folders.append(folder)
        sys.path.insert(_behind_python(), str(folder))
    try:
        spec.loader.exec_module(module)
    except SystemExit as error:
        raise BadProgram(
            f"{file} ended itself when it was loaded ({_words(error)}); what is for `python {file.name}` alone"
            f' stands under `if __name__ == "__main__":`{place_of(error)}'
        ) from error
    except Exception as error:
        raise BadProgram(f"{file} could not be loaded: {_told(error, file)}") from error
    _travel_by_value(module, *_neighbours())
    return module


def _behind_python() -> int:
    """The place on the path before packages and behind Python's own modules: what looks for `queue` or `copy` here is
    not the program alone, so a file beside it must not take their place."""
    return next((at for at, part in enumerate(sys.path) if Path(part).name in PACKAGES), len(sys.path))


def _neighbours() -> list[ModuleType]:
    """What the program has imported from beside it; what is below it by chance, such as an environment, is not."""
    return [
        module
        for name, module in list(sys.modules.items())
        if (file := getattr(module, "__file__", None)) is not None
        and any(Path(file) in (folder / f"{name}.py", folder / name / "__init__.py") for folder in _folders)
    ]


def _told(error: BaseException, file: Path) -> str:
    """What it was, and the lines that led there."""
    # The only one that knows its place itself.
    if isinstance(error, SyntaxError) and error.lineno is not None:
        line = (error.text or "").strip()
        place = f"\n  {_shown(error.filename or str(file))}, line {error.lineno}" + (
            f": {line}" if line else ""
        )
        return f"{type(error).__name__}: {error.msg}{place_of(error)}{place}"
    return f"{_words(error)}{place_of(error)}"


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _is_raised_by_spark(error: BaseException) -> bool:
    """As it is where a function of Spark's finds no session."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(frames) and str(frames[-1].f_globals.get("__name__")).partition(".")[0] in ("pyspark", "py4j")


def _travel_by_value(*modules: ModuleType) -> None:
    """Workers have no such modules: their functions are sent as what they are, not by their names."""
    try:
        from pyspark import cloudpickle
    except ImportError:  # said where a session is made, in better words
        return
    for module in modules:
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
