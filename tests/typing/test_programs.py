"""Programs that use every public name, accepted by mypy and pyright in their strictest modes.

The programs are never run: other tests cover what they do. One test compares the names that they use with those that
the package exports, so that none is forgotten; others check that wrong calls are found.
"""

from __future__ import annotations

import ast
import importlib
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

import penstock
import penstock.streams
from harness.brokers import ROOT

HERE = Path(__file__).parent
PROGRAMS = sorted((HERE / "programs").glob("*.py"))
MISTAKES = HERE / "mistakes.py"
PYRIGHT = ROOT / ".cache" / "programs" / "pyright" / "node_modules" / "pyright" / "index.js"

pytestmark = pytest.mark.penstock_only("no broker takes part")


def mypy(*files: Path) -> str:
    """The output, one line for each complaint; empty if there is none."""
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-error-summary",
        "--hide-error-context",
        *map(str, files),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, "MYPYPATH": "src"}
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def pyright(*files: Path) -> str:
    node = shutil.which("node")
    if node is None or not PYRIGHT.exists():
        missing = "no pyright; `make test` fetches it"
        # In CI this check must not be skipped unnoticed.
        (pytest.fail if os.environ.get("CI") else pytest.skip)(missing)
    command = [node, str(PYRIGHT), "--pythonpath", sys.executable, "-p", str(HERE / "pyrightconfig.json")]
    done = subprocess.run([*command, *map(str, files)], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return "\n".join(line for line in done.stdout.splitlines() if " - error: " in line)


def test_mypy_accepts_every_program() -> None:
    assert mypy(*PROGRAMS) == ""


def test_pyright_accepts_every_program() -> None:
    assert pyright() == ""


class TestMistakes:
    """Exactly the marked lines are wrong."""

    def expected(self) -> set[int]:
        return {
            number
            for number, line in enumerate(MISTAKES.read_text().splitlines(), 1)
            if line.endswith("# wrong")
        }

    def test_mypy_finds_every_mistake(self) -> None:
        found = {int(number) for number in re.findall(r"mistakes\.py:(\d+): error", mypy(MISTAKES))}

        assert found == self.expected()

    def test_pyright_finds_every_mistake(self) -> None:
        found = {int(number) for number in re.findall(r"mistakes\.py:(\d+):\d+ - error", pyright(MISTAKES))}

        assert found == self.expected()


@pytest.mark.parametrize(
    "module", ["", ".admin", ".aio", ".assignors", ".errors", ".serializers", ".streams", ".testing"]
)
def test_every_name_of_a_module_is_used(module: str) -> None:
    offered = set(importlib.import_module(f"penstock{module}").__all__)

    assert offered - _imported(f"penstock{module}") == set()


def _imported(module: str) -> set[str]:
    """Names that the programs use from a module, by import or by attribute."""
    used: set[str] = set()
    short = module.rpartition(".")[2]
    for tree in map(_parse, PROGRAMS):
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module == module:
                used |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom | ast.Import) and module == "penstock":
                used |= {alias.name.removeprefix("penstock.") for alias in node.names}
                if isinstance(node, ast.ImportFrom):
                    used.add((node.module or "").removeprefix("penstock."))
            elif (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == short
            ):
                used.add(node.attr)
    return used


def _attributes_used() -> dict[str, set[str]]:
    """The attributes that the programs use, by class, sync and async separately."""
    used: dict[str, set[str]] = defaultdict(set)
    for path in PROGRAMS:
        tree = _parse(path)
        home = "aio." if path.stem.endswith("_async") else ""
        classes = _classes_of_variables(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                for kind in classes.get(node.value.id, ()):
                    used[home + kind].add(node.attr)
    return used


def _classes_of_variables(tree: ast.Module) -> dict[str, set[str]]:
    """The class of a variable, from an annotation or a call of the class."""
    classes: dict[str, set[str]] = defaultdict(set)
    for node in ast.walk(tree):
        match node:
            case (
                ast.arg(arg=variable, annotation=ast.Name(id=kind) | ast.Subscript(value=ast.Name(id=kind)))
                | ast.AnnAssign(target=ast.Name(id=variable), annotation=ast.Name(id=kind))
                | ast.Assign(targets=[ast.Name(id=variable)], value=ast.Call(func=ast.Name(id=kind)))
                | ast.withitem(
                    optional_vars=ast.Name(id=variable), context_expr=ast.Call(func=ast.Name(id=kind))
                )
            ):
                classes[variable].add(kind)
            case ast.Attribute(value=ast.Name(id=kind)) if kind[
                0
            ].isupper():  # the attributes of the class itself
                classes[kind].add(kind)
    return classes


def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


CLASSES = {
    prefix + name: getattr(module, name)
    for prefix, module in (("", penstock), ("aio.", penstock.aio))
    for name in ("Admin", "Consumer", "Message", "Producer", "Reading", "Receipt", "Transaction")
}
CLASSES |= {
    name: getattr(penstock.testing, name)
    for name in ("Broker", "Faults", "SharedBroker", "SharedSession", "TopologyTest")
}
CLASSES |= {name: getattr(penstock.streams, name) for name in ("Stream", "Table", "Record")}


@pytest.mark.parametrize("name", CLASSES)
def test_every_attribute_of_a_class_is_used(name: str) -> None:
    offered = {attribute for attribute in dir(CLASSES[name]) if not attribute.startswith("_")}

    assert offered - _attributes_used()[name] == set()
