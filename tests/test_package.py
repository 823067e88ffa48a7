"""The public names of `import native_log`, and the installation commands."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

import native_log
from native_log import errors


def test_every_public_name_exists() -> None:
    assert set(native_log.__all__) <= set(dir(native_log))
    for name in native_log.__all__:
        assert getattr(native_log, name) is not None


def test_every_error_is_public() -> None:
    kinds = {
        name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)
    }
    assert kinds <= set(native_log.__all__)


def test_importing_an_error_does_not_import_arrow() -> None:
    code = "import sys, native_log; native_log.KafkaLogError; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_install_line_names_something_that_pip_finds() -> None:
    """The package is on no index: only a checkout or its requirements can be installed."""
    root = Path(__file__).parents[1]
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    sources = (file for file in root.glob("*_*/**/*.py") if "tests" not in file.parts)
    texts = [root / "README.md", *sources]
    lines = [line for file in texts for line in re.findall(r"pip install ([^`\n#\"&]+)", file.read_text())]
    assert len(lines) >= 2
    for argument in (word for line in lines for word in shlex.split(line) if word[0] != "-"):
        if argument[0] == ".":
            assert set(re.findall(r"[\w-]+", argument)) <= extras.keys(), argument
        elif not argument.endswith(".whl"):
            assert Requirement(argument).name != "kafkalog-spark", argument
