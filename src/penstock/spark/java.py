"""Which Java Spark runs on: the one that the user named, the one on the path, or one that lies where they usually lie.

Spark itself looks at JAVA_HOME and at the path alone, and where there is none it ends with a message of its shell
script. This looks further, refuses what is too old before a JVM is started, and says how to get one. Nothing is
executed to find out: every Java since 9 has a file `release` that tells what it is.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from penstock.client.errors.base import ClientError

OLDEST = 17  # what Spark 4 is compiled for
VECTOR_MODULE = "jdk.incubator.vector"  # Spark demands it; runtimes that were cut down to a wheel lack it

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
    """Spark needs Java 17 or newer, and there is none that it can use."""


class Java(NamedTuple):
    """A Java that lies at `home`."""

    home: Path
    version: int
    has_vector_module: bool

    @property
    def is_fit(self) -> bool:
        return self.version >= OLDEST and self.has_vector_module

    @property
    def flaw(self) -> str:
        if self.version < OLDEST:
            return f"the Java at {self.home} is of version {self.version}"
        return f"the Java at {self.home} lacks the module {VECTOR_MODULE}"


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """The Java that Spark is to run on, or `JavaMissing`. One that the user named is not passed over in silence."""
    environment = os.environ if environment is None else environment
    if named := environment.get("JAVA_HOME"):
        java = read_release(Path(named))
        if java is None:
            raise JavaMissing(f"JAVA_HOME is {named}, where no Java lies{_remedy()}")
        if not java.is_fit:
            raise JavaMissing(f"JAVA_HOME does not serve: {java.flaw}{_remedy()}")
        return java
    return choose(_candidates(environment))


def choose(candidates: Iterable[Java]) -> Java:
    """The first that is fit: candidates come in order of preference."""
    flaws: list[str] = []
    for java in candidates:
        if java.is_fit:
            return java
        flaws.append(java.flaw)
    told = f" ({flaws[0]})" if flaws else ""
    raise JavaMissing(f"Spark needs Java {OLDEST} or newer, and none was found{told}{_remedy()}")


def read_release(home: Path) -> Java | None:
    """What lies there, by its own file `release`; None where it is no Java."""
    if not os.access(home / "bin" / "java", os.X_OK):
        return None
    try:
        text = (home / "release").read_text(errors="replace")
    except OSError:
        return Java(home, version=8, has_vector_module=False)  # the last that may come without the file
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
    lying: dict[Path, Java] = {}
    for pattern in USUAL_PLACES:
        folder = Path(os.path.expanduser(pattern))
        for home in folder.parents[-1].glob(str(folder.relative_to(folder.anchor))):
            if (java := read_release(home.resolve())) is not None:
                lying[java.home] = java
    # The oldest that is fit: Spark is tested with that one longest.
    yield from sorted(lying.values(), key=lambda java: (java.version, str(java.home)))


def _remedy() -> str:
    for program, command in REMEDIES:
        if shutil.which(program):
            return f"; install one: {command}"
    return "; install one from https://adoptium.net, and set JAVA_HOME to its folder"


if __name__ == "__main__":  # for scripts: the folder that it lies in, or why there is none
    try:
        print(find_java().home)
    except JavaMissing as missing:
        raise SystemExit(str(missing)) from None
