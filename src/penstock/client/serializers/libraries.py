"""Libraries that only some serializers need, imported on first use."""

from __future__ import annotations

import importlib
from typing import Any

from penstock.client.errors import BadConfiguration

# Package names, if they differ from the module names.
DISTRIBUTIONS = {"google": "protobuf", "jsonschema_rs": "jsonschema-rs"}


def need(module: str, *, extra: str) -> Any:
    """The module; raises BadConfiguration with the package to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        library = DISTRIBUTIONS.get(library, library)
        raise BadConfiguration(f"this needs {library}: pip install 'penstock[{extra}]'") from error
