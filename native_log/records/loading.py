"""Find and load the compiled kernel, `native_log._kernel`.

Normally it is a file of this package. But the sources of a checkout, or of an archive on sys.path, may come
before the installed package: Spark's Python workers put the working directory first. Then the kernel of the
installed package is used, if it has the interface that this code expects.
"""

from __future__ import annotations

import sys
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import module_from_spec, spec_from_file_location
from os.path import isfile
from pathlib import Path
from typing import TYPE_CHECKING

import native_log

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import ModuleType

API_VERSION = 28
NAME = "native_log._kernel"


class KernelNotFoundError(ImportError):
    """No kernel can be loaded. The message says why and what to do."""


def load_kernel() -> ModuleType:
    """Return the kernel. Load it once per process. Raise KernelNotFoundError."""
    module = sys.modules.get(NAME)
    if module is None:
        module = load_compatible(native_log.__path__[0], sys.path)
        sys.modules[NAME] = module
        native_log._kernel = module  # as the import system does with a submodule
    return module


def load_compatible(package: str, search_path: Iterable[str]) -> ModuleType:
    """Load the kernel of `package`, or of another `native_log` directory on the search path.

    Raises:
        KernelNotFoundError: none of them can be loaded and has the interface API_VERSION.
    """
    problems = []
    for file in kernel_files([package, *(str(Path(entry, "native_log")) for entry in search_path)]):
        try:
            module = _load(file)
        except ImportError as error:
            problems.append(
                f"expected a kernel for this machine in {file}, found one that cannot be loaded: {error}; "
                "install a wheel that was built on a machine with the same architecture and no newer glibc"
            )
            continue
        version = getattr(module, "API_VERSION", None)
        if version == API_VERSION:
            return module
        problems.append(
            f"expected a kernel with interface {API_VERSION} for the Python code in {package}, found {file} "
            f"with interface {version}; reinstall kafkalog-spark (in a checkout: make kernel)"
        )
    raise KernelNotFoundError("; ".join(problems) or explain_missing_kernel(package))


def kernel_files(directories: Iterable[str]) -> Iterator[str]:
    """Yield the compiled kernels in these directories, in order, each once."""
    seen = set()
    for directory in directories:
        files = (str(Path(directory, "_kernel" + suffix).absolute()) for suffix in EXTENSION_SUFFIXES)
        file = next(filter(isfile, files), None)  # False for a directory without search permission
        if file is not None and file not in seen:
            seen.add(file)
            yield file


def explain_missing_kernel(package: str) -> str:
    """Say why `package` has no compiled kernel, and what to do."""
    if not Path(package).is_dir():
        return (
            f"native_log was imported from an archive ({package}), from which no compiled module can be "
            "loaded; install the wheel on every node instead of passing it by --py-files"
        )
    if Path(package, "kernel", "Cargo.toml").is_file():
        return (
            f"native_log was imported from the sources in {package}, where no kernel is built, and sys.path "
            "has no installed one; run `make kernel` there, or install kafkalog-spark"
        )
    return (
        f"kafkalog-spark was installed without a kernel ({package}), as it is where Rust's cargo is missing; "
        "install cargo and reinstall kafkalog-spark, or install a wheel that has the kernel"
    )


def _load(file: str) -> ModuleType:
    spec = spec_from_file_location(NAME, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not an extension module")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
