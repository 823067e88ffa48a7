"""The file with the licenses of the crates in the kernel is complete, and the licenses permit their use."""

from __future__ import annotations

import importlib.util
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from .distributions import ROOT

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

TERMS = (ROOT / "LICENSE").read_text()


@pytest.fixture(scope="module")
def third_party() -> ModuleType:
    spec = importlib.util.spec_from_file_location("third_party", ROOT / "kernel" / "third_party.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def package(directory: Path, name: str = "crate", spdx: str = "MIT", **files: str) -> dict[str, Any]:
    """Write a crate with the given files, and return what cargo reports of it."""
    (directory / name).mkdir()
    for file, text in files.items():
        (directory / name / file.replace("_", ".")).write_text(text)
    manifest = str(directory / name / "Cargo.toml")
    return {"name": name, "version": "1.2.3", "license": spdx, "repository": "-", "manifest_path": manifest}


@pytest.mark.skipif(shutil.which("cargo") is None, reason="needs cargo")
def test_the_file_is_up_to_date(third_party: ModuleType) -> None:
    packages = third_party.linked_packages()
    assert {"pyo3", "zstd-sys"} <= {package["name"] for package in packages}
    assert third_party.FILE.read_text() == third_party.render(packages), "run: python kernel/third_party.py"


def test_licenses_of_bundled_c_sources(third_party: ModuleType) -> None:
    text = third_party.FILE.read_text()
    for owner in ("Eric Biggers", "Yann Collet", "Meta Platforms, Inc. and affiliates"):
        assert owner in text
    assert "GNU GENERAL PUBLIC LICENSE" not in text


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("MIT", True),
        ("MIT/Apache-2.0", True),
        ("GPL-3.0-only OR MIT", True),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", True),
        ("MIT AND GPL-3.0-only", False),
        ("LGPL-2.1-or-later", False),
        ("", False),
    ],
)
def test_allowed_licenses(third_party: ModuleType, expression: str, expected: bool) -> None:
    assert third_party.is_allowed(expression) == expected


def test_equal_texts_appear_once(third_party: ModuleType, tmp_path: Path) -> None:
    text = third_party.render(
        [
            package(tmp_path, "two", LICENSE="Permission is\nhereby granted", NOTICE_txt="by the second"),
            package(
                tmp_path, "one", "Apache-2.0 OR MIT", COPYING="Permission is hereby granted", LICENSE=TERMS
            ),
        ]
    )
    assert "one 1.2.3  Apache-2.0 OR MIT  -\ntwo 1.2.3  MIT  -\n" in text
    assert "\none, two\n" in text
    assert text.count("hereby granted") == 1
    assert text.count("by the second") == 1
    assert third_party._SEE_LICENSE in text and "Grant of Patent License" not in text


@pytest.mark.parametrize(
    ("spdx", "files", "message"),
    [
        ("GPL-3.0-only", {"LICENSE": "text"}, "crate has GPL-3.0-only"),
        ("MIT", {"lib_rs": "code"}, "found none"),
        ("MIT", {"LICENSE": "text", "code_c": "int x;"}, "crate bundles .*code.c"),
    ],
)
def test_an_unknown_license_is_an_error(
    third_party: ModuleType, tmp_path: Path, spdx: str, files: dict[str, str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        third_party.render([package(tmp_path, spdx=spdx, **files)])
