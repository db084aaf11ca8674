"""Generated Python source: lines, indentation, unique names, and the objects that the code refers to."""

from __future__ import annotations

import builtins
import contextlib
import linecache
import struct
from collections.abc import Callable, Iterator
from typing import Any

PLAIN_LITERALS = (int, bool, str, type(None))  # exact types whose repr is their source


class Source:
    """The text of one function and the names that it uses."""

    def __init__(self, filename: str) -> None:
        self.filename = filename
        self.globals: dict[str, Any] = {}
        self._lines: list[str] = []
        self._depth = 0
        self._variables: set[str] = set(dir(builtins))

    @property
    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextlib.contextmanager
    def block(self, header: str) -> Iterator[None]:
        self.line(header)
        self._depth += 1
        yield
        self._depth -= 1

    def reserve(self, *names: str) -> None:
        """Reserve names: no field or class will be called so."""
        self._variables.update(names)

    def variable(self, hint: str) -> str:
        """A local name that is not used yet."""
        name, number = hint, 1
        while name in self._variables or name in self.globals:
            number += 1
            name = f"{hint}_{number}"
        self._variables.add(name)
        return name

    def bind(self, name: str, value: object) -> str:
        """The name by which the code can refer to `value`; `name`, unless that is taken."""
        hint, number = name, 1
        while name in self._variables or self.globals.get(name, value) is not value:
            number += 1
            name = f"{hint}_{number}"
        self.globals[name] = value
        return name

    def literal(self, value: object) -> str:
        """An expression for a constant."""
        if type(value) in PLAIN_LITERALS:
            return repr(value)
        return self.bind("DEFAULT", value)

    def packer(self, codes: list[str]) -> str:
        return self._struct_method("pack", codes)

    def unpacker(self, codes: list[str]) -> str:
        return self._struct_method("unpack", codes)

    def _struct_method(self, verb: str, codes: list[str]) -> str:
        name = f"{verb}_{''.join(codes).replace('?', 't')}"
        if name not in self.globals:
            compiled = struct.Struct(">" + "".join(codes))
            self.globals[name] = compiled.pack if verb == "pack" else compiled.unpack_from
        return name

    def function(self, name: str) -> Callable[..., Any]:
        """Compile the text and return `name`; tracebacks and debuggers show the lines."""
        lines = self.text.splitlines(keepends=True)
        linecache.cache[self.filename] = (len(self.text), None, lines, self.filename)
        namespace = dict(self.globals)
        exec(compile(self.text, self.filename, "exec"), namespace)
        function: Callable[..., Any] = namespace[name]
        return function


def snake_case(name: str) -> str:
    return "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")
