"""What a setting names by where it is found: `package.module:Name`, or `package.module.Name` as Java would say it."""

from __future__ import annotations

import importlib
from typing import Any

from penstock.client.errors import BadConfiguration


def find(place: str, *, what: str) -> Any:
    """Whatever stands there; `what` names it in the refusal."""
    module, _, name = place.rpartition(":") if ":" in place else place.rpartition(".")
    if not module or not name:
        raise BadConfiguration(f"the {what} {place!r} is not found: say where it is, as package.module:Name")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise BadConfiguration(f"the {what} {place} cannot be imported: {error}") from error
    return found


def make(spec: Any, *, what: str) -> Any:
    """An object as it is, one of a class, or either by where it is found."""
    if isinstance(spec, str):
        spec = find(spec, what=what)
    return spec() if isinstance(spec, type) else spec
