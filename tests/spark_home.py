"""A home directory of Spark with compiled Python modules.

Spark's Python workers import pyspark from zip files, in which Python cannot store compiled modules. So each
worker compiles them again, which takes a second.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path


def create_spark_home(home: Path) -> None:
    """Fill an empty directory, so that it can be SPARK_HOME.

    It has directories with the names of the zip files. In them are the installed packages.
    """
    spec = find_spec("pyspark")
    assert spec is not None and spec.origin is not None
    pyspark = Path(spec.origin).parent
    for name in ("bin", "jars"):
        (home / name).symlink_to(pyspark / name)
    for archive in (pyspark / "python" / "lib").glob("*.zip"):
        (package,) = re.findall(r"^(pyspark|py4j)\b", archive.name)
        directory = home / "python" / "lib" / archive.name
        directory.mkdir(parents=True)
        (directory / package).symlink_to(pyspark.parent / package)
