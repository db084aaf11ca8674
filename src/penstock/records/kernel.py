"""The functions that touch many bytes or many records: compiled where possible, the plain twin otherwise.

`PENSTOCK_PURE=1` chooses the twin, for tests and for doubt. Both give equal answers; only speed differs.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.records.twin import check_batch, check_batches, read_header, read_headers

    COMPILED: bool
else:
    try:
        if os.environ.get("PENSTOCK_PURE") == "1":
            raise ImportError("the plain twin was asked for")
        from penstock.records._kernel import check_batch, check_batches, read_header, read_headers

        COMPILED = True
    except ImportError:
        from penstock.records.twin import check_batch, check_batches, read_header, read_headers

        COMPILED = False

__all__ = ["COMPILED", "check_batch", "check_batches", "read_header", "read_headers"]
