"""Small files: written in place, or read if they exist."""

from __future__ import annotations

from penstock.runtime.disk import Disk, File


def save(disk: Disk, path: str, data: bytes) -> File:
    """Write a whole file in place. A power cut before its sync may tear it, which its readers must detect."""
    file = disk.open(path, create=True)
    if file.size() > 0:
        file.truncate(0)
    file.append((data,))
    return file


def read_if_exists(disk: Disk, path: str) -> bytes | None:
    try:
        return disk.read_file(path)
    except FileNotFoundError:
        return None
