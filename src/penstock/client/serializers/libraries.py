"""Libraries that only some serializers need, imported when one of those is made."""

from __future__ import annotations

import importlib
from typing import Any

from penstock.client.errors import BadConfiguration


def need(module: str, *, extra: str) -> Any:
    """The module, or a refusal that tells what to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise BadConfiguration(
            f"this needs {module.partition('.')[0]}: pip install 'penstock[{extra}]'"
        ) from error
