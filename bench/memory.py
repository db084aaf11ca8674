"""Keeps the hypervisor out of the measurement.

A guest with free page reporting hands free memory back to its host within seconds, and the first touch of such a page
traps into the host: a plain write of a file falls from 5 GB/s to 0.4 GB/s, whoever writes. Which broker meets those
pages is chance, so each measurement of writing begins with pages that are there. On bare metal this changes nothing.
"""

from __future__ import annotations

from pathlib import Path

CHUNK = bytes(1 << 20)


def back_page_cache(folder: Path, size: int) -> None:
    """Fills that much page cache and drops it: what the kernel got back last is what it hands out next."""
    path = folder / "bench-pages"
    try:
        with path.open("wb", buffering=0) as file:
            for _ in range(0, size, len(CHUNK)):
                file.write(CHUNK)
    finally:
        path.unlink(missing_ok=True)
