"""Builds the compiled kernel (native_log._kernel) where cargo is; without it the wheel is pure Python.

KAFKALOG_REQUIRE_KERNEL=1: a kernel that cannot be built is an error; 0: none is built; unset: try, else pure.
"""

import os
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools_rust import Binding, RustExtension
from setuptools_rust.build import build_rust

required = {"": None, "0": False, "1": True}[os.environ.get("KAFKALOG_REQUIRE_KERNEL", "")]
has_cargo = shutil.which(os.environ.get("CARGO", "cargo")) is not None
wanted = required or (required is None and has_cargo)


def built_kernels(root: str) -> list[Path]:
    return [p for p in Path(root, "native_log").glob("_kernel.*") if p.suffix in {".so", ".pyd"}]


class BuildRust(build_rust):
    def run(self) -> None:
        # A build that fails must not leave an older kernel to be packaged or imported.
        root = "." if self.inplace else self.get_finalized_command("build").build_lib
        for old in built_kernels(root):
            old.unlink()
        super().run()


class BdistWheel(bdist_wheel):
    def get_tag(self) -> tuple[str, str, str]:
        if not built_kernels(self.get_finalized_command("build").build_lib):
            self.root_is_pure = True  # the kernel was not wanted, or could not be built
        return super().get_tag()


kernel = RustExtension(
    "native_log._kernel",
    path="kernel/python/Cargo.toml",
    binding=Binding.PyO3,
    cargo_manifest_args=["--locked"],
    py_limited_api=True,
    debug=False,
    optional=not required,
)
setup(
    rust_extensions=[kernel] if wanted else [],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
    cmdclass={"build_rust": BuildRust, "bdist_wheel": BdistWheel},
)
