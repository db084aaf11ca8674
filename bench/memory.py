"""Keeps the hypervisor out of the measurement.

A guest with free page reporting returns free memory to its host within seconds, and the first use of such a page
traps into the host: writing a file drops from 5 GB/s to 0.4 GB/s. Which broker gets those pages is random, so each
measurement of writing starts with pages that are present. On bare metal this changes nothing.
"""

from __future__ import annotations

from pathlib import Path

CHUNK = bytes(1 << 20)


def back_page_cache(folder: Path, size: int) -> None:
    """Fill that much page cache and drop it: the kernel reuses the pages that were freed last."""
    path = folder / "bench-pages"
    try:
        with path.open("wb", buffering=0) as file:
            for _ in range(0, size, len(CHUNK)):
                file.write(CHUNK)
    finally:
        path.unlink(missing_ok=True)
