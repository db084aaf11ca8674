"""Inspects a program's file before it runs; sans-IO.

A file that defines no program is rejected by its text, because running it may need a session, which takes seconds.
In doubt (`from orders import *`), the file is accepted and run.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator

WANTED = ("app", "pipeline")
# These bind names that the text does not show.
HIDDEN_BINDINGS = frozenset({"globals", "exec", "setattr", "vars"})
# Packages whose functions mostly need a session; types do not.
SPARK_PACKAGES = ("pyspark", "penstock.spark")
PLAIN_PACKAGES = ("pyspark.sql.types", "pyspark.cloudpickle", "pyspark.errors")
HINT = "write `def pipeline(spark):` that returns `df.writeStream...`, or `app = penstock.streams.App(...)`"


def lacking(tree: ast.Module) -> str | None:
    """Why it cannot be a program, as the end of a sentence; None if it is or may be one."""
    names = list(_bound_names(tree))
    if any(name in WANTED or name == "*" for name in names):
        return None
    if any(isinstance(node, ast.Name) and node.id in HIDDEN_BINDINGS for node in ast.walk(tree)):
        return None
    return f"defines neither `app` nor `pipeline`{_suggestion(tree, names)}: {HINT}"


def wants_session(tree: ast.Module) -> bool:
    """Whether running the file calls a function of Spark, such as `@udf`, which needs a session."""
    of_spark = set(_names_of_spark(tree))
    return any(
        isinstance(node, ast.Call | ast.Subscript) and _root(node) in of_spark
        for statement in tree.body
        if not _is_main_guard(statement)
        for node in _run_at_once(statement)
    )


def _bound_names(tree: ast.Module) -> Iterator[str]:
    """The names that the module's own level binds, `*` for a star import; including those that functions declare
    global."""
    for node in _run_at_once(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            yield from node.names


def _run_at_once(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes that run when the module is loaded, starting with the node itself: of a function only decorators and
    defaults."""
    yield node
    children: list[ast.AST]
    if isinstance(node, ast.Lambda):
        children = [node.args]
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        # A decorator is called, even without parentheses.
        called = [ast.Call(func=each, args=[], keywords=[]) for each in node.decorator_list]
        children = [*called, *node.args.defaults, *(each for each in node.args.kw_defaults if each)]
    else:
        children = list(ast.iter_child_nodes(node))
    for child in children:
        yield from _run_at_once(child)


def _names_of_spark(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if _is_of_spark(alias.name):
                    yield alias.asname or alias.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                if _is_of_spark(f"{node.module}.{alias.name}"):
                    yield alias.asname or alias.name


def _is_of_spark(name: str) -> bool:
    return _is_within(name, SPARK_PACKAGES) and not _is_within(name, PLAIN_PACKAGES)


def _is_within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def _root(node: ast.AST) -> str | None:
    """`F` of `F.udf("string")(...)`."""
    while True:
        if isinstance(node, ast.Call):
            node = node.func
        elif isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
        else:
            return node.id if isinstance(node, ast.Name) else None


def _is_main_guard(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and "__name__" in {
        node.id for node in ast.walk(statement.test) if isinstance(node, ast.Name)
    }


def _suggestion(tree: ast.Module, names: list[str]) -> str:
    """The closest match: a function of a session, an App under another name, or a misspelt name."""
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef) and [each.arg for each in statement.args.args] == ["spark"]:
            return f" (should `{statement.name}(spark)` be `pipeline(spark)`?)"
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
            called = statement.value.func
            is_app = (
                called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", None)
            ) == "App"
            if is_app and isinstance(statement.targets[0], ast.Name):
                return f" (should `{statement.targets[0].id}` be `app`?)"
    for name in names:
        if near := difflib.get_close_matches(name.lower(), WANTED, n=1, cutoff=0.7):
            return f" (should `{name}` be `{near[0]}`?)"
    return ""
