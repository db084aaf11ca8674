"""Builds the one compiled module of the project; everything else is declared in pyproject.toml.

The kernel is optional: without a C compiler the install goes through and the plain-Python twin is used.
"""

from Cython.Build import cythonize
from setuptools import Extension, setup

kernel = Extension(
    "penstock.records._kernel",
    ["src/penstock/records/_kernel.pyx"],
    extra_compile_args=["-O3"],
    optional=True,
)

# The C code goes to the build folder: sources hold only what people wrote.
setup(ext_modules=cythonize([kernel], include_path=["src"], build_dir="build/cython"))
