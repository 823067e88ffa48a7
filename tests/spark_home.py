"""A home directory of Spark whose Python workers start quickly.

Spark's Python workers import pyspark from zip files, in which Python cannot store compiled modules. So each
worker compiles them again, which takes a second. Importing them takes most of another one.
"""

from __future__ import annotations

import functools
import hashlib
import re
import shutil
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from benchmarks.paths import cache

DAEMON_IMPORTS = Path(__file__).parent / "spark" / "daemon_imports.py"


@functools.cache
def spark_home() -> Path:
    """Return a directory that can be SPARK_HOME, whose path is always the same; make it if there is none.

    An archive of a JVM's classes can be used only with the class path with which it was made.
    """
    imports = DAEMON_IMPORTS.read_text()
    name = hashlib.sha256(f"{_pyspark()} {version('pyspark')} {imports}".encode()).hexdigest()[:12]
    home = cache() / f"spark-{name}"
    if not home.exists():
        cache().mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(dir=cache()))
        create_spark_home(partial)
        for directory in (partial / "python" / "lib").glob("pyspark*"):
            (directory / "sitecustomize.py").write_text(imports)
        try:
            partial.rename(home)
        except OSError:  # another process has made it meanwhile
            shutil.rmtree(partial)
    return home


def create_spark_home(home: Path) -> None:
    """Fill an empty directory, so that it can be SPARK_HOME.

    It has directories with the names of the zip files. In them are the installed packages.
    """
    pyspark = _pyspark()
    for name in ("bin", "jars"):
        (home / name).symlink_to(pyspark / name)
    for archive in (pyspark / "python" / "lib").glob("*.zip"):
        (package,) = re.findall(r"^(pyspark|py4j)\b", archive.name)
        directory = home / "python" / "lib" / archive.name
        directory.mkdir(parents=True)
        (directory / package).symlink_to(pyspark.parent / package)


def _pyspark() -> Path:
    spec = find_spec("pyspark")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent
