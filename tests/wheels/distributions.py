"""Build wheels and sdists, and install them into environments that have nothing else.

KAFKALOG_DIST names a directory with finished distributions to test, as `make wheel` fills it. Otherwise the
tests build a wheel for this machine. That is quick if cargo has built the kernel before.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
DIST = os.environ.get("KAFKALOG_DIST")
PACKAGES = ("native_log", "kafkalog_spark", "pyspark_kafkalog")
NO_CARGO = "/does/not/exist/cargo"
"""A value of the environment variable CARGO that makes setup.py find no cargo."""


class Builder:
    """Builds distributions with the packages that pyproject.toml requires for a build, installed only once.

    They are not in a virtual environment: with a Python of another path, cargo would build the kernel again.
    """

    def __init__(self, packages: Path) -> None:
        requires = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
        _pip("install", "--no-compile", "--target", str(packages), *requires)
        self._packages = packages

    def build_wheel(self, directory: Path, source: Path = ROOT, **variables: str) -> Path:
        """Build a wheel into an empty directory. `source` is a source tree or an sdist."""
        # A separate build directory: the one in the source tree may contain modules that no longer exist.
        base = [f"-C--global-option={word}" for word in ("build", f"--build-base={directory / 'build'}")]
        options = ("--no-deps", "--no-build-isolation", "--no-cache-dir", "--wheel-dir", str(directory))
        _pip("wheel", *options, *base, str(source), **variables, PYTHONPATH=str(self._packages))
        (wheel,) = directory.glob("*.whl")
        return wheel

    def build_sdist(self, directory: Path) -> Path:
        """Build an sdist into an empty directory."""
        code = f"from setuptools.build_meta import build_sdist; build_sdist({str(directory)!r})"
        environment = os.environ | {"PYTHONPATH": str(self._packages)}
        command = [sys.executable, "-W", "ignore", "-c", code]
        subprocess.run(command, check=True, capture_output=True, cwd=ROOT, env=environment)
        (sdist,) = directory.glob("*.tar.gz")
        return sdist


class Environment:
    """A virtual environment. Its processes do not see the sources of this project."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.python = path / "bin" / "python"

    @classmethod
    def create(cls, path: Path, *requirements: str) -> Environment:
        """Create an environment and install the requirements. No package is built from source."""
        environment = cls(path)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(path)], check=True)
        install = ("--python", str(environment.python), "install", "--no-compile", "--only-binary=:all:")
        _pip(*install, *requirements, PATH=str(path / "bin"))
        return environment

    def copy_without_kafkalog(self, path: Path) -> Environment:
        """Return a copy of the environment that has only the dependencies of kafkalog."""
        ignore = shutil.ignore_patterns(*PACKAGES, "kafkalog_spark-*")
        shutil.copytree(self.path, path, symlinks=True, ignore=ignore, copy_function=os.link)
        return Environment(path)

    def run(self, *command: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command in a working directory. Raise AssertionError with its output if it fails."""
        environment = self._variables() | variables
        result = subprocess.run(
            command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, f"{' '.join(command)}\n{result.stdout}\n{result.stderr[-8000:]}"
        return result

    def _variables(self) -> dict[str, str]:
        names = ("PATH", "JAVA_HOME", "HOME", "TMPDIR", "SPARK_SUBMIT_OPTS")
        return {name: os.environ[name] for name in names if name in os.environ}


def _pip(*arguments: str, **environment: str) -> None:
    # What PYTHONPATH has counts as installed, so pip would not install it.
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(
        [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments],
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, f"pip {' '.join(arguments)}\n{result.stdout}\n{result.stderr[-8000:]}"
