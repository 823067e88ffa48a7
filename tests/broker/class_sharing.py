"""An archive of a broker's classes, which halves the time that a broker takes to start (JEP 350)."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import subprocess
import tempfile
from pathlib import Path

from benchmarks.broker import Broker
from benchmarks.jvm import jars, java_tool
from benchmarks.paths import cache

OPTIONS = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
"""Options for a JVM that lives some seconds: compile less, and use fewer threads."""


@functools.cache
def broker_options(kafka: Path) -> list[str]:
    """Return the JVM options for a broker of this version; make the archive if there is none."""
    version = subprocess.run([java_tool("java"), "-version"], capture_output=True, check=True).stderr
    name = hashlib.sha256(version + str(jars(kafka)).encode()).hexdigest()[:12]
    archive = cache() / f"classes-{name}.jsa"
    with (cache() / "classes.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            _write_archive(kafka, archive)
    return [*OPTIONS, f"-XX:SharedArchiveFile={archive}"]


def _write_archive(kafka: Path, archive: Path) -> None:
    partial = archive.with_suffix(".partial")
    with tempfile.TemporaryDirectory() as folder:
        options = [*OPTIONS, f"-XX:ArchiveClassesAtExit={partial}"]
        with Broker(Path(folder, "logs"), options=options, kafka=kafka):
            pass
    partial.rename(archive)
