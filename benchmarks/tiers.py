"""Remote storage beside the same log on a disk: `python -m benchmarks.tiers`.

It needs no corpus and no broker: it writes a log of 0.9 GB with kafkalog, and names its files as Apache's
LocalTieredStorage does.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import native_log
from benchmarks.filters import write_log
from benchmarks.readers import SEVEN_COLUMNS
from native_log import LogDir

if TYPE_CHECKING:
    from collections.abc import Callable

RUNS = 5


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_log(folder / "local", "none")
        write_tier(folder)
        tiered = {"remote": folder / "tier"}
        print("| Work | Contender | Seconds | Ratio |\n|---|---|--:|--:|")
        compare(
            "seven columns, one thread",
            {
                "one local directory": lambda: read(LogDir(folder / "local")),
                "LocalTieredStorage": lambda: read(LogDir(folder / "rest", **tiered)),
            },
        )
        compare(
            "a local directory from remote storage",
            {
                "copy of the files, flush, reindex": lambda: copy_and_reindex(
                    folder / "local", folder / "copy"
                ),
                "the same without flush": lambda: copy_and_reindex(
                    folder / "local", folder / "copy", flush=False
                ),
                "restore": lambda: native_log.restore(folder / "rest", fresh(folder / "restored"), **tiered),
            },
        )


def write_tier(folder: Path) -> None:
    """Move all segments but the last one of each partition to remote storage. Files are linked."""
    shutil.copytree(folder / "local", folder / "rest", copy_function=os.link)
    for directory in (folder / "rest").glob("t-*"):
        topic_id = (directory / "partition.metadata").read_text().split()[-1]
        tier = folder / "tier" / "kafka-tiered-storage" / f"{directory.name}-{topic_id}"
        tier.mkdir(parents=True)
        for number, log in enumerate(sorted(directory.glob("*.log"))[:-1]):
            name = f"{log.stem}-{number:022}"
            for kind in ("log", "index", "timeindex"):
                os.rename(log.with_suffix(f".{kind}"), tier / f"{name}.{kind}")  # noqa: PTH104
            (tier / f"{name}.snapshot").touch()
            (tier / f"{name}.leader_epoch_checkpoint").write_text("0\n1\n0 0\n")


def read(logs: LogDir) -> None:
    scan = native_log.scan(logs, "t", SEVEN_COLUMNS, threads=1)
    assert sum(batch.num_rows for batch in scan.batches()) == 7_200_000


def fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def copy_and_reindex(source: Path, dest: Path, *, flush: bool = True) -> None:
    """Copy a log directory as a user would. A restore has flushed its files to disk when it returns."""
    shutil.copytree(source, fresh(dest))
    if flush:
        os.sync()
    native_log.reindex(dest)


def compare(work: str, contenders: dict[str, Callable[[], object]]) -> None:
    """Print the median of each contender, and the ratio of the first one's time to it."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(RUNS):
        for name, run in contenders.items():
            os.sync()
            started = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - started)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    reference = next(iter(medians.values()))
    for name, median in medians.items():
        print(f"| {work} | {name} | {median:.3f} | {reference / median:.2f} |", flush=True)


if __name__ == "__main__":
    main()
