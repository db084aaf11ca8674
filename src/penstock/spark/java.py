"""Finds the Java for Spark: JAVA_HOME, the one on the path, or one in a usual place.

Spark checks only JAVA_HOME and the path, and fails with a message of its shell script. This module searches further,
rejects a Java that is too old before starting it, and says how to install one. It executes nothing: every Java since 9
has a file `release` with its version.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from penstock.client.errors.base import ClientError

OLDEST = 17  # Spark 4 is compiled for it
VECTOR_MODULE = "jdk.incubator.vector"  # Spark needs it; runtimes reduced to a wheel lack it

USUAL_PLACES = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/*jdk*",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/usr/local/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
)

REMEDIES = (
    ("apt-get", "sudo apt-get install default-jre-headless"),
    ("dnf", "sudo dnf install java-21-openjdk-headless"),
    ("apk", "sudo apk add openjdk21-jre-headless"),
    ("pacman", "sudo pacman -S jre-openjdk-headless"),
    ("zypper", "sudo zypper install java-21-openjdk-headless"),
    ("brew", "brew install openjdk"),
)


class JavaMissing(ClientError):
    """No usable Java: Spark needs Java 17 or newer."""


class Java(NamedTuple):
    """A Java installation at `home`."""

    home: Path
    version: int
    has_vector_module: bool

    @property
    def is_fit(self) -> bool:
        return self.version >= OLDEST and self.has_vector_module

    @property
    def flaw(self) -> str:
        if self.version < OLDEST:
            return f"the Java at {self.home} has version {self.version}"
        return f"the Java at {self.home} lacks the module {VECTOR_MODULE}"


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """The Java that Spark will run on, or `JavaMissing`. A bad JAVA_HOME is an error and not skipped."""
    environment = os.environ if environment is None else environment
    if named := environment.get("JAVA_HOME"):
        java = read_release(Path(named))
        if java is None:
            raise JavaMissing(f"JAVA_HOME is {named}, but there is no Java{_remedy()}")
        if not java.is_fit:
            raise JavaMissing(f"Spark cannot use JAVA_HOME: {java.flaw}{_remedy()}")
        return java
    return choose(_candidates(environment))


def choose(candidates: Iterable[Java]) -> Java:
    """The first usable candidate; candidates come in order of preference."""
    flaws: list[str] = []
    for java in candidates:
        if java.is_fit:
            return java
        flaws.append(java.flaw)
    reason = f" ({flaws[0]})" if flaws else ""
    raise JavaMissing(f"Spark needs Java {OLDEST} or newer, and none was found{reason}{_remedy()}")


def read_release(home: Path) -> Java | None:
    """The Java at `home`, by its file `release`; None if there is none."""
    if not os.access(home / "bin" / "java", os.X_OK):
        return None
    try:
        text = (home / "release").read_text(errors="replace")
    except OSError:
        return Java(home, version=8, has_vector_module=False)  # the last version without the file
    version = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', text, re.MULTILINE)
    modules = re.search(r'^MODULES="(.*)"', text, re.MULTILINE)
    return Java(
        home,
        version=int(version[1]) if version else 0,
        has_vector_module=modules is None or VECTOR_MODULE in modules[1].split(),
    )


def _candidates(environment: Mapping[str, str]) -> Iterator[Java]:
    if found := shutil.which("java", path=environment.get("PATH")):
        java = read_release(Path(found).resolve().parents[1])
        if java is not None:
            yield java
    found_by_home: dict[Path, Java] = {}
    for pattern in USUAL_PLACES:
        folder = Path(os.path.expanduser(pattern))
        for home in folder.parents[-1].glob(str(folder.relative_to(folder.anchor))):
            if (java := read_release(home.resolve())) is not None:
                found_by_home[java.home] = java
    # The oldest usable one: Spark has been tested with it for longest.
    yield from sorted(found_by_home.values(), key=lambda java: (java.version, str(java.home)))


def _remedy() -> str:
    for program, command in REMEDIES:
        if shutil.which(program):
            return f"; install one: {command}"
    return "; install one from https://adoptium.net, and set JAVA_HOME to its folder"


if __name__ == "__main__":  # for scripts: print its folder, or why there is none
    try:
        print(find_java().home)
    except JavaMissing as missing:
        raise SystemExit(str(missing)) from None
