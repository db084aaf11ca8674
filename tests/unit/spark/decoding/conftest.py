from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.registry import RegistryInMemory, serve_registry


@pytest.fixture
def registry() -> Iterator[RegistryInMemory]:
    with serve_registry() as serving:
        yield serving
