"""The functions that touch many bytes or many records: compiled where possible, the plain twin otherwise.

`PENSTOCK_PURE=1` chooses the twin, for tests and for doubt. Both give equal answers; only speed differs.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.records import twin as _chosen
else:
    try:
        if os.environ.get("PENSTOCK_PURE") == "1":
            raise ImportError("the plain twin was asked for")
        from penstock.records import _kernel as _chosen
    except ImportError:
        from penstock.records import twin as _chosen

COMPILED = _chosen.__name__.endswith("._kernel")

build_batch = _chosen.build_batch
check_batch = _chosen.check_batch
check_batches = _chosen.check_batches
has_record_without_key = _chosen.has_record_without_key
iterate_records = _chosen.iterate_records
read_header = _chosen.read_header
read_headers = _chosen.read_headers
read_payload = _chosen.read_payload
scan_records = _chosen.scan_records
