"""Imports objects that a setting names by their place: `package.module:Name`, or `package.module.Name` as in Java."""

from __future__ import annotations

import importlib
from typing import Any

from penstock.client.errors import BadConfiguration


def find(place: str, *, what: str) -> Any:
    """The object; `what` names it in the error message."""
    module, _, name = place.rpartition(":") if ":" in place else place.rpartition(".")
    if not module or not name:
        raise BadConfiguration(f"the {what} {place!r} was not found: write it as package.module:Name")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise BadConfiguration(f"the {what} {place} cannot be imported: {error}") from error
    return found


def make(spec: Any, *, what: str) -> Any:
    """An object: the given one, an instance of the given class, or either by its import path."""
    if isinstance(spec, str):
        spec = find(spec, what=what)
    return spec() if isinstance(spec, type) else spec
