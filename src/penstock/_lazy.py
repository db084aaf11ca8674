"""Names of a module that are imported from elsewhere when they are asked for.

    if not TYPE_CHECKING:
        __getattr__, __dir__ = names_from(__name__, {"Admin": "penstock.client.admin.aio"})

Type checkers need ordinary imports of these names instead: with `__getattr__` they would accept any name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def names_from(
    module: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` for a module, by where each name has its home: a module, and after a colon what the
    name is called there if it is another."""

    def find(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        home, _, there = homes[name].partition(":")
        value = getattr(import_module(home), there or name)
        setattr(sys.modules[module], name, value)  # found at once from now on
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[module]), *homes})

    return find, names
