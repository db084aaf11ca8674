"""Builds the compiled kernel; everything else is declared in pyproject.toml.

Penstock does not run without the kernel, so the build fails where there is no C compiler.
"""

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CCompilerError

NAMES = (
    "_kernel",
    "_builder",
    "_messages",
    "_buffers",
    "_columns",
    "_message",
    "_fetched",
    "_appender",
    "_intake",
    "_rows",
    "_compaction",
)

ADVICE = (
    "Penstock compiles its kernel, which needs a C compiler and the headers of Python."
    " Debian, Ubuntu: apt-get install gcc libc6-dev python3-dev; Fedora: dnf install gcc python3-devel;"
    " macOS: xcode-select --install"
)


class BuildKernel(build_ext):
    def build_extension(self, ext):
        try:
            super().build_extension(ext)
        except CCompilerError as error:  # the compiler is missing, or it failed and printed why
            raise type(error)(f"{error}\n{ADVICE}") from error


modules = [
    Extension(
        f"penstock.records.{name}",
        [f"src/penstock/records/{name}.pyx"],
        extra_compile_args=["-O3", "-g0"],  # debug information is more than half of a wheel
    )
    for name in NAMES
]

# The C code goes to the build folder: sources hold only what people wrote.
setup(
    cmdclass={"build_ext": BuildKernel},
    ext_modules=cythonize(modules, include_path=["src"], build_dir="build/cython"),
)
