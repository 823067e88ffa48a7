"""Build the compiled kernel (native_log._kernel) if cargo is installed; without it the wheel is pure Python.

KAFKALOG_REQUIRE_KERNEL=1: fail if the kernel cannot be built; 0: do not build it; unset: try to.
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
builds_kernel = required or (required is None and has_cargo)


def kernel_files(root: str) -> list[Path]:
    return [p for p in Path(root, "native_log").glob("_kernel.*") if p.suffix in {".so", ".pyd"}]


class BuildRust(build_rust):
    def run(self) -> None:
        # After a failed build, no older kernel may be packaged or imported.
        root = "." if self.inplace else self.get_finalized_command("build").build_lib
        for file in kernel_files(root):
            file.unlink()
        super().run()


class BdistWheel(bdist_wheel):
    def get_tag(self) -> tuple[str, str, str]:
        if not kernel_files(self.get_finalized_command("build").build_lib):
            self.root_is_pure = True  # the kernel was not to be built, or could not be built
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
    rust_extensions=[kernel] if builds_kernel else [],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
    cmdclass={"build_rust": BuildRust, "bdist_wheel": BdistWheel},
)
