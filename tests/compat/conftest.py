"""Fixtures of the tests with real clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compat.clients.java import JavaTools


@pytest.fixture(scope="session")
def java_tools() -> Iterator[JavaTools]:
    with JavaTools() as tools:
        yield tools
