"""One stage's results as a JSON file: measurements, and the machine and versions they were made with."""

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

from benchmarks.growth import Growth
from benchmarks.jvm import KAFKA, tool
from benchmarks.measure import Measurement
from benchmarks.places import ROOT

PACKAGES = ("pyspark", "pyarrow", "aiokafka", "kafka-python")


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
    # one line for each list of seconds
    text = re.sub(r"\[\s*([-\d.,\s]+?)\s*\]", lambda found: f"[{' '.join(found[1].split())}]", text)
    (folder / f"{stage}.json").write_text(text + "\n")


def load(folder: Path) -> dict[str, Results]:
    found = {}
    for path in sorted(folder.glob("*.json")):
        content: dict[str, Any] = json.loads(path.read_text())
        content["measurements"] = [
            Measurement(**(one | {"seconds": tuple(one["seconds"])})) for one in content["measurements"]
        ]
        content["growths"] = [Growth(**one) for one in content["growths"]]
        found[path.stem] = Results(**content)
    return found


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


def versions() -> dict[str, str]:
    kafka = re.search(r"<kafka.version>(.*)</", KAFKA.read_text())
    java = subprocess.run([tool("java"), "-version"], capture_output=True, text=True).stderr
    java_version = re.search(r'version "([^"]+)', java)
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True
    ).stdout.strip()
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
