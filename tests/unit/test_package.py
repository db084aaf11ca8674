"""What `import penstock` costs and offers."""

from __future__ import annotations

import dataclasses
import enum
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
import penstock.client.admin


def _modules_after(statement: str) -> set[str]:
    """What a fresh interpreter has imported after the statement, beyond what it has anyway."""
    program = f"import sys; before = set(sys.modules); {statement}; print(*(set(sys.modules) - before))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(ran.stdout.split())


def test_importing_the_package_imports_nothing_else() -> None:
    assert _modules_after("import penstock") == {"penstock"}


def test_naming_the_async_clients_imports_nothing_else() -> None:
    imported = _modules_after("import penstock.aio, penstock.admin")

    assert {name for name in imported if name.startswith("penstock.")} == {
        "penstock._lazy",
        "penstock.admin",
        "penstock.aio",
    }


@pytest.mark.parametrize(
    "library", ["pyarrow", "pandas", "fastavro", "msgspec", "pydantic", "urllib.request", "rich"]
)
def test_serializers_import_no_library_before_one_is_used(library: str) -> None:
    assert library not in _modules_after("import penstock.errors, penstock.serializers")


@pytest.mark.parametrize(
    "module", [penstock, penstock.admin, penstock.aio, penstock.errors, penstock.serializers]
)
def test_every_name_that_is_promised_is_there(module: object) -> None:
    names: list[str] = module.__all__  # type: ignore[attr-defined]

    assert len(set(names)) == len(names)
    for name in names:
        assert getattr(module, name) is not None
        assert name in dir(module)


def test_every_type_of_the_admin_client_is_exported() -> None:
    folder = Path(penstock.client.admin.__file__).parent
    modules = [
        importlib.import_module(f"penstock.client.admin.{path.stem}") for path in folder.glob("[a-z]*.py")
    ]
    types = {
        name
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, type)
        and value.__module__ == module.__name__
        and not name.startswith("_")
        and (dataclasses.is_dataclass(value) or issubclass(value, enum.Enum | tuple))
    }

    assert types - {"MaxVersion"} == set(penstock.admin.__all__) - {
        "Config"
    }  # which is another name for a mapping


@pytest.mark.parametrize("module", ["penstock", "penstock.admin", "penstock.aio", "penstock.serializers"])
def test_a_name_that_is_not_there_is_an_attribute_error(module: str) -> None:
    with pytest.raises(AttributeError, match="Producr"):
        importlib.import_module(module).Producr  # noqa: B018
