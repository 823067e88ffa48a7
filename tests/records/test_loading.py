"""Which kernel a process loads, and its message if there is none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import native_log
from native_log.records import loading

from .conftest import needs_kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(native_log.__file__).parent
IMPORT = "import native_log.records as r; print(r.IMPLEMENTATION, r.__file__, sep='\\n')"


def kernel_file() -> Path:
    return Path(next(loading.kernel_files([str(PACKAGE), *(f"{p}/native_log" for p in sys.path)])))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python sources without a compiled kernel."""
    root = tmp_path_factory.mktemp("checkout")
    only_python = shutil.ignore_patterns("_kernel.*", "kernel", "__pycache__")
    shutil.copytree(PACKAGE, root / "native_log", ignore=only_python)
    (root / "native_log" / "kernel").mkdir()
    (root / "native_log" / "kernel" / "Cargo.toml").touch()
    return root


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A directory of installed packages whose `native_log` is empty so far."""
    (tmp_path / "site" / "native_log").mkdir(parents=True)
    return tmp_path / "site"


def imported(first: Path, *others: Path, **environment: str) -> tuple[list[str], str]:
    """What a process prints, and what it says on stderr, that finds `native_log` in these places only."""
    places = [str(place) for place in (first, *others)]
    others_of_path = "[p for p in sys.path[1:] if not os.path.isdir(p + '/native_log')]"
    code = f"import os, sys; sys.path[:] = {places} + {others_of_path}; {IMPORT}"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "KAFKALOG_KERNEL")} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return run.stdout.splitlines(), run.stderr


@needs_kernel
def test_sources_hide_no_installed_kernel(checkout: Path, site: Path) -> None:
    shutil.copy(kernel_file(), site / "native_log")
    printed, stderr = imported(checkout, site)
    assert printed == ["kernel", f"{checkout}/native_log/records/__init__.py"]
    assert stderr == ""


def test_a_missing_kernel_is_explained_in_one_line(checkout: Path) -> None:
    printed, stderr = imported(checkout)
    assert printed[0] == "reference"
    assert len(stderr.splitlines()) == 1
    assert f"native_log was imported from the sources in {checkout}/native_log" in stderr


def test_no_warning_with_the_reference_selected(checkout: Path) -> None:
    printed, stderr = imported(checkout, KAFKALOG_KERNEL="reference")
    assert (printed[0], stderr) == ("reference", "")


@pytest.mark.parametrize(
    ("selected", "message"),
    [
        ("required", "KernelNotFoundError: native_log was imported from the sources"),
        ("refrence", "expected KAFKALOG_KERNEL to be reference or required, found 'refrence'"),
    ],
)
def test_a_selection_that_cannot_be_satisfied_is_an_error(
    checkout: Path, selected: str, message: str
) -> None:
    printed, stderr = imported(checkout, KAFKALOG_KERNEL=selected)
    assert printed == []
    assert message in stderr


def test_the_missing_kernel_of_an_archive_is_explained(checkout: Path, tmp_path: Path) -> None:
    archive = tmp_path / "native_log.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for file in (checkout / "native_log").rglob("*.py"):
            packed.write(file, file.relative_to(checkout))
    printed, stderr = imported(archive)
    assert printed == ["reference", f"{archive}/native_log/records/__init__.py"]
    assert f"imported from an archive ({archive}/native_log)" in stderr
    assert "--py-files" in stderr
    assert len(stderr.splitlines()) == 1


class FakeKernel:
    API_VERSION = loading.API_VERSION - 1


@pytest.fixture
def other_version(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Kernels in a directory called `old` have another interface."""
    load = loading._load

    def fake(file: str) -> object:
        return FakeKernel if "/old/" in file else load(file)

    monkeypatch.setattr(loading, "_load", fake)


def put(directory: Path, content: bytes = b"") -> str:
    directory.mkdir(parents=True)
    (directory / "_kernel.abi3.so").write_bytes(content)
    return str(directory)


@pytest.mark.usefixtures("other_version")
class TestKernelsThatDoNotFit:
    def test_another_version_is_named(self, tmp_path: Path) -> None:
        package = put(tmp_path / "old" / "native_log")
        with pytest.raises(loading.KernelNotFoundError) as caught:
            loading.load_compatible(package, [])
        assert f"found {package}/_kernel.abi3.so with interface {FakeKernel.API_VERSION}" in str(caught.value)
        assert "reinstall" in str(caught.value)

    def test_one_that_cannot_be_loaded_is_named_with_the_cause(self, tmp_path: Path) -> None:
        package = put(tmp_path / "native_log", b"not a library")
        with pytest.raises(loading.KernelNotFoundError) as caught:
            loading.load_compatible(package, [])
        assert f"{package}/_kernel.abi3.so" in str(caught.value)
        assert "glibc" in str(caught.value)

    @needs_kernel
    def test_the_search_continues_after_them(self, tmp_path: Path, site: Path) -> None:
        package = put(tmp_path / "old" / "native_log")
        broken = tmp_path / "broken"
        put(broken / "native_log", b"not a library")
        shutil.copy(kernel_file(), site / "native_log")
        module = loading.load_compatible(package, ["/does/not/exist", __file__, str(broken), str(site)])
        assert module.__file__ == str(site / "native_log" / kernel_file().name)


def test_installed_without_cargo(tmp_path: Path) -> None:
    with pytest.raises(loading.KernelNotFoundError, match=r"installed without a kernel.*cargo"):
        loading.load_compatible(str(tmp_path), [])
