"""The global generator of `random` belongs to the application.

A client that draws from it in its background thread changes the numbers of a program that called `random.seed`, and
makes Hypothesis fail tests at random: it takes the change for a strategy that uses `random`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import penstock

GENERATORS = {"Random", "SystemRandom"}


def test_no_module_draws_from_the_global_generator() -> None:
    package = Path(penstock.__file__).parent

    found = [
        f"{path.relative_to(package)}:{line}"
        for path in sorted(package.rglob("*.py"))
        for line in _uses_of_global_generator(ast.parse(path.read_bytes()))
    ]

    assert found == []


def _uses_of_global_generator(module: ast.Module) -> Iterator[int]:
    nodes = list(ast.walk(module))
    imports = [each for node in nodes if isinstance(node, ast.Import) for each in node.names]
    names_of_random = {each.asname or each.name for each in imports if each.name == "random"}
    for node in nodes:
        match node:
            case ast.Attribute(value=ast.Name(id=module_name), attr=name) if module_name in names_of_random:
                if name not in GENERATORS:
                    yield node.lineno
            case ast.ImportFrom(module="random", names=names):
                if any(each.name not in GENERATORS for each in names):
                    yield node.lineno
