"""Store the results of a stage as JSON: measurements, memory, the machine, and versions."""

import importlib.metadata
import json
import platform
import re
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.jvm import KAFKA, java_tool
from benchmarks.memory import Growth
from benchmarks.paths import ROOT
from benchmarks.timing import Measurement

PACKAGES = ("pyspark", "pyarrow", "aiokafka", "kafka-python", "confluent-kafka")


@dataclass(frozen=True, slots=True)
class Results:
    stage: str
    machine: dict[str, str]
    versions: dict[str, str]
    made: str
    measurements: list[Measurement]
    growths: list[Growth]


def save(folder: Path, stage: str, measurements: Sequence[Measurement], growths: Sequence[Growth]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    today = time.strftime("%Y-%m-%d", time.gmtime())
    results = Results(stage, machine(), versions(), today, list(measurements), list(growths))
    text = json.dumps(asdict(results), indent=1)
    # Write each list of seconds on one line.
    text = re.sub(r"\[\s*([-\d.,\s]+?)\s*\]", lambda match: f"[{' '.join(match[1].split())}]", text)
    (folder / f"{stage}.json").write_text(text + "\n")


def load(folder: Path) -> dict[str, Results]:
    """Return the results by stage."""
    stages = {}
    for path in sorted(folder.glob("*.json")):
        content: dict[str, Any] = json.loads(path.read_text())
        content["measurements"] = [Measurement.from_json(fields) for fields in content["measurements"]]
        content["growths"] = [Growth(**fields) for fields in content["growths"]]
        stages[path.stem] = Results(**content)
    return stages


def machine() -> dict[str, str]:
    model = re.search(r"model name\s*:\s*(.*)", _read("/proc/cpuinfo"))
    system = re.search(r'PRETTY_NAME="(.*)"', _read("/etc/os-release"))
    virtual = " (virtual machine)" if "hypervisor" in _read("/proc/cpuinfo") else ""
    return {
        "processor": (model[1] if model else platform.processor()) + virtual,
        "cores": str(psutil.cpu_count()),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": f"{system[1] if system else platform.system()}, {platform.machine()}",
    }


def _git(*arguments: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True).stdout.strip()


def versions() -> dict[str, str]:
    kafka = re.search(r"<kafka.version>(.*)</", KAFKA.read_text())
    java = subprocess.run([java_tool("java"), "-version"], capture_output=True, text=True).stderr
    java_version = re.search(r'version "([^"]+)', java)
    commit = _git("describe", "--always")
    # Earlier stages of the same run have changed these files.
    if _git("status", "--porcelain", "--", ".", ":!benchmarks/results", ":!benchmarks/RESULTS.md"):
        commit += "-dirty"
    return {
        "kafkalog": commit or "unknown",
        "kafka": kafka[1] if kafka else "unknown",
        "java": java_version[1] if java_version else "unknown",
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in PACKAGES},
    }


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
