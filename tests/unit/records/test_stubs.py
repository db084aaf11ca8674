"""The type stubs of the kernel agree with its compiled modules: the same names, with the same arguments.

Arguments of `__init__` are not compared, because a compiled class does not show them.
"""

from __future__ import annotations

import ast
import inspect
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import penstock.records

FOLDER = Path(penstock.records.__file__).parent
STUBS = sorted(stub.stem for stub in FOLDER.glob("*.pyi"))
Function = ast.FunctionDef | ast.AsyncFunctionDef


@pytest.fixture(params=STUBS)
def module(request: pytest.FixtureRequest) -> ModuleType:
    return import_module(f"penstock.records.{request.param}")


def declared(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    """The definitions of a stub, or of a class in it, by name."""
    found: dict[str, ast.stmt] = {}
    for each in body:
        if isinstance(each, ast.ClassDef | Function):
            found[each.name] = each
        elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            found[each.target.id] = each
    return found


def stub_of(module: ModuleType) -> dict[str, ast.stmt]:
    source = FOLDER / f"{module.__name__.rpartition('.')[2]}.pyi"
    return declared(ast.parse(source.read_text()).body)


def arguments_of(function: Function) -> list[tuple[str, bool, bool]]:
    """Name, whether it is keyword-only, and whether it has a default."""
    given = function.args
    positional = [(each.arg, False) for each in (*given.posonlyargs, *given.args)]
    is_optional = [index >= len(positional) - len(given.defaults) for index in range(len(positional))]
    found = [(*each, optional) for each, optional in zip(positional, is_optional, strict=True)]
    keywords = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    return found + [(each.arg, True, default is not None) for each, default in keywords]


def compiled_arguments_of(function: Any) -> list[tuple[str, bool, bool]]:
    return [
        (each.name, each.kind is each.KEYWORD_ONLY, each.default is not each.empty)
        for each in inspect.signature(function).parameters.values()
    ]


def is_public(name: str) -> bool:
    return not name.startswith("_")


def test_every_module_that_python_imports_has_a_stub() -> None:
    imported = {
        each.module.rpartition(".")[2]
        for source in ("compaction.py", "consuming.py", "kernel.py", "producing.py")
        for each in ast.walk(ast.parse((FOLDER / source).read_text()))
        if isinstance(each, ast.ImportFrom) and each.module is not None
    }
    assert {name for name in imported if not is_public(name)} - {"__future__"} == set(STUBS)


def test_the_functions_of_a_stub_take_what_the_compiled_ones_take(module: ModuleType) -> None:
    for name, each in stub_of(module).items():
        if isinstance(each, Function):
            assert arguments_of(each) == compiled_arguments_of(getattr(module, name)), name


def test_the_classes_of_a_stub_have_the_members_of_the_compiled_ones(module: ModuleType) -> None:
    for name, each in stub_of(module).items():
        if isinstance(each, ast.ClassDef):
            compiled = getattr(module, name)
            members = declared(each.body)
            assert set(filter(is_public, members)) == set(filter(is_public, vars(compiled))), name
            for member, definition in members.items():
                is_property = isinstance(definition, Function) and definition.decorator_list
                if isinstance(definition, Function) and is_public(member) and not is_property:
                    theirs = compiled_arguments_of(getattr(compiled, member))
                    assert arguments_of(definition) == theirs, f"{name}.{member}"
