"""Show where time goes: repeat a task under a profiler."""

import cProfile
import importlib.util
import json
import os
import pstats
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from benchmarks.corpus import Corpus, warm
from benchmarks.paths import ROOT, scratch

KINDS = ("kernel", "log", "spark")
SAMPLES_PER_SECOND = 499


def show(kind: str, corpus: Corpus, topic: str, columns: list[str], seconds: float) -> None:
    """Print the profile of one of KINDS."""
    warm(corpus.segments(topic))
    if kind == "kernel":
        _profile_kernel(corpus, topic, columns, seconds)
    elif kind == "log":
        _profile_partition_log(corpus.partitions(topic)[0], columns)
    else:
        _profile_spark(corpus, topic, columns)


def _profile_kernel(corpus: Corpus, topic: str, columns: list[str], seconds: float) -> None:
    """Print nanoseconds per record and, if perf is installed, the functions that take most of the time."""
    request = {
        "kernel": str(_build_kernel_with_symbols()),
        "segments": [str(segment) for segment in corpus.segments(topic)],
        "columns": columns,
        "seconds": seconds,
    }
    work = [sys.executable, "-m", "benchmarks.profiles", json.dumps(request)]
    if shutil.which("perf") is None:
        print("perf is not installed: only nanoseconds per record are shown")
        subprocess.run(work, check=True)
        return
    data = scratch() / "perf.data"
    subprocess.run(["perf", "record", "-q", "-F", str(SAMPLES_PER_SECOND), "-o", data, *work], check=True)
    report = ["perf", "report", "--stdio", "-i", data, "--percent-limit", "0.7", "--sort", "dso,symbol"]
    lines = subprocess.run(report, check=True, capture_output=True, text=True).stdout.splitlines()
    print("\n".join(line[:100].rstrip() for line in lines if line.strip() and line[0] != "#"))


def _build_kernel_with_symbols() -> Path:
    """Build the kernel as for a release, but keep the names of its functions."""
    target = scratch() / "kernel-with-symbols"
    variables = os.environ | {
        "CARGO_TARGET_DIR": str(target),
        "CARGO_PROFILE_RELEASE_STRIP": "none",
        "CARGO_PROFILE_RELEASE_DEBUG": "line-tables-only",
    }
    manifest = ROOT / "kernel" / "python" / "Cargo.toml"
    command = ["cargo", "build", "-q", "--release", "--locked", "--manifest-path", str(manifest)]
    command += ["-F", "pyo3/extension-module"]
    subprocess.run(command, check=True, env=variables)
    return target / "release" / "lib_kernel.so"


def _profile_partition_log(partition: Path, columns: list[str]) -> None:
    """Profile with cProfile, whose overhead is small here: Python calls the kernel once for some MB."""
    from native_log.log import PartitionLog

    profile = cProfile.Profile()
    with profile:
        for _ in PartitionLog.open(partition).read(columns=columns):
            pass
    pstats.Stats(profile).sort_stats("tottime").print_stats(15)


def _profile_spark(corpus: Corpus, topic: str, columns: list[str]) -> None:
    """Sample the Python workers of a session that writes the topic to noop a few times."""
    samples = scratch() / "py-spy.txt"
    request = {
        "do": "repeat",
        "cores": 2,
        "conf": {},
        "log_dir": str(corpus.log_dir),
        "topic": topic,
        "columns": ",".join(columns),
    }
    py_spy = Path(sys.executable).with_name("py-spy")
    options = ["--subprocesses", "--native", "--format", "raw", "--rate", "200", "--output", samples]
    work = [sys.executable, "-m", "benchmarks.spark_session", json.dumps(request)]
    subprocess.run([py_spy, "record", *options, "--", *work], check=True)
    own: Counter[str] = Counter()
    below: Counter[str] = Counter()
    for line in samples.read_text().splitlines():
        stack, count = line.rsplit(" ", 1)
        frames = stack.split(";")
        if not any("worker.py" in frame for frame in frames):
            continue  # the driver, or the daemon that starts workers
        own[frames[-1]] += int(count)
        below.update(dict.fromkeys(frames, int(count)))
    total = sum(own.values()) or 1
    for title, counts in (("in the function itself", own), ("in it and below", below)):
        print(f"\n{title}, of the workers' time:")
        for frame, count in counts.most_common(25):
            print(f"  {count / total:6.1%}  {frame}")


def _decode_repeatedly(kernel: str, segments: list[str], columns: list[str], seconds: float) -> None:
    spec = importlib.util.spec_from_file_location("native_log._kernel", kernel)
    assert spec is not None and spec.loader is not None
    sys.modules["native_log._kernel"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    from benchmarks.readers import kernel_decode

    run = kernel_decode([Path(segment) for segment in segments], columns)
    rows, passes, started = 0, 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        rows += run().rows
        passes += 1
    elapsed = time.perf_counter() - started
    print(f"{rows / elapsed / 1e6:.2f} M records/s, {elapsed / rows * 1e9:.1f} ns/record, {passes} passes")


if __name__ == "__main__":
    _decode_repeatedly(**json.loads(sys.argv[1]))
