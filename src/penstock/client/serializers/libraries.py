"""Libraries that only some serializers need, imported when one of those is made."""

from __future__ import annotations

import importlib
from typing import Any

from penstock.client.errors import BadConfiguration

# By what a library is installed, where that is not how it is imported.
DISTRIBUTIONS = {"google": "protobuf", "jsonschema_rs": "jsonschema-rs"}


def need(module: str, *, extra: str) -> Any:
    """The module, or a refusal that tells what to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        library = DISTRIBUTIONS.get(library, library)
        raise BadConfiguration(f"this needs {library}: pip install 'penstock[{extra}]'") from error
