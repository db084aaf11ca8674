"""Whole small files: written in place, or read where they may be missing."""

from __future__ import annotations

from penstock.runtime.disk import Disk, File


def save(disk: Disk, path: str, data: bytes) -> File:
    """Write a whole file in place. A power cut before its sync may tear it, as its readers must notice."""
    file = disk.open(path, create=True)
    if file.size() > 0:
        file.truncate(0)
    file.append((data,))
    return file


def read_if_there(disk: Disk, path: str) -> bytes | None:
    try:
        return disk.read_file(path)
    except FileNotFoundError:
        return None
