"""Builds the compiled modules of the project; everything else is declared in pyproject.toml.

They are optional: without a C compiler the install goes through and their plain-Python twins are used.
"""

from Cython.Build import cythonize
from setuptools import Extension, setup

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
)

modules = [
    Extension(
        f"penstock.records.{name}",
        [f"src/penstock/records/{name}.pyx"],
        extra_compile_args=["-O3", "-g0"],  # debug information is more than half of a wheel
        optional=True,
    )
    for name in NAMES
]

# The C code goes to the build folder: sources hold only what people wrote.
setup(ext_modules=cythonize(modules, include_path=["src"], build_dir="build/cython"))
