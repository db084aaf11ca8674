"""CRC-32C, the checksum of batches, in hardware: 25 GB/s, 0.15 µs a call (bench/micro/records.py).

The C module is loaded without running its package, which imports `importlib.metadata` only for its own version and
would cost every start of the broker some 40 ms.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crc32c import crc32c
else:

    def _load():
        if "crc32c" not in sys.modules:
            package = importlib.util.find_spec("crc32c")
            if package is not None and package.submodule_search_locations is not None:
                inner = PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
                if inner is not None and inner.loader is not None:
                    module = importlib.util.module_from_spec(inner)
                    inner.loader.exec_module(module)
                    return module.crc32c
        from crc32c import crc32c

        return crc32c

    crc32c = _load()

__all__ = ["crc32c"]
