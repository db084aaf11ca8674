from __future__ import annotations

import os
import subprocess
import sys

import pytest

from penstock.protocol.apis import ApiKey, api
from penstock.protocol.declare import Kind, declaration_of


@pytest.mark.parametrize("key", ApiKey, ids=lambda key: key.name)
def test_the_table_agrees_with_the_declarations(key: ApiKey) -> None:
    entry = api(key)
    for cls, kind in ((entry.request_class(), Kind.REQUEST), (entry.response_class(), Kind.RESPONSE)):
        declaration = declaration_of(cls)
        assert declaration.kind is kind
        assert declaration.key == key
        assert declaration.first_version == entry.first_version
        assert declaration.last_version == entry.last_version
        assert declaration.flexible_version == entry.flexible_version


def test_an_unknown_api_key_is_not_in_the_table() -> None:
    for key in (-1, 93, 32767):
        with pytest.raises(KeyError):
            api(key)


def test_names_are_kafkas() -> None:
    assert api(75).name == "DescribeTopicPartitions"
    assert api(ApiKey.API_VERSIONS).name == "ApiVersions"


def test_the_table_is_read_without_importing_messages() -> None:
    """A command-line tool and a starting broker need the table, but not ninety modules."""
    script = (
        "import sys; import penstock.protocol.apis, penstock.protocol.codec, penstock.protocol.headers;"
        "print([name for name in sys.modules if name.startswith('penstock.protocol.messages.')])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )

    assert result.stdout.strip() == "[]"
