"""Which Java is chosen, and the error if there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.spark import java
from penstock.spark.java import Java, JavaMissing, choose, find_java, read_release


def lay(home: Path, version: str, *, modules: str = "java.base jdk.incubator.vector") -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").touch(mode=0o755)
    (home / "release").write_text(f'IMPLEMENTOR="nobody"\nJAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return home


@pytest.fixture(autouse=True)
def nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "USUAL_PLACES", ())


@pytest.mark.parametrize(("text", "version"), [("17.0.9", 17), ("21", 21), ("1.8.0_292", 8), ("25.0.3", 25)])
def test_the_version_comes_from_the_release_file(tmp_path: Path, text: str, version: int) -> None:
    found = read_release(lay(tmp_path / "jdk", text))

    assert found is not None
    assert found.version == version


def test_a_folder_without_bin_java_is_no_java(tmp_path: Path) -> None:
    assert read_release(tmp_path) is None


def test_java_home_is_used(tmp_path: Path) -> None:
    home = lay(tmp_path / "named", "21.0.1")
    other = lay(tmp_path / "other", "17.0.1")

    found = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})

    assert found.home == home


def test_an_unusable_java_home_is_an_error(tmp_path: Path) -> None:
    old = lay(tmp_path / "old", "11.0.2")
    good = lay(tmp_path / "good", "17.0.1")

    with pytest.raises(JavaMissing, match=r"Spark cannot use JAVA_HOME: .*/old has version 11; install"):
        find_java({"JAVA_HOME": str(old), "PATH": str(good / "bin")})


def test_a_link_on_the_path_is_resolved_to_its_home(tmp_path: Path) -> None:
    home = lay(tmp_path / "jvm" / "java-17", "17.0.1")
    links = tmp_path / "bin"
    links.mkdir()
    (links / "java").symlink_to(home / "bin" / "java")

    assert find_java({"PATH": str(links)}).home == home


def test_a_java_in_a_usual_place_is_preferred_to_an_old_one_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = lay(tmp_path / "old", "11.0.2")
    lay(tmp_path / "jvm" / "java-25", "25")
    fit = lay(tmp_path / "jvm" / "java-17", "17.0.1")
    monkeypatch.setattr(java, "USUAL_PLACES", (str(tmp_path / "jvm" / "*"),))

    assert find_java({"PATH": str(old / "bin")}).home == fit


def test_without_java_the_error_says_how_to_install_it() -> None:
    with pytest.raises(JavaMissing, match="needs Java 17 or newer, and none was found; install one"):
        find_java({"PATH": ""})


def test_a_reduced_runtime_is_rejected_with_the_reason(tmp_path: Path) -> None:
    cut = Java(tmp_path, version=21, has_vector_module=False)

    with pytest.raises(JavaMissing, match=r"lacks the module jdk\.incubator\.vector"):
        choose([cut])
