"""Remote storage beside the same log on a disk: `python -m benchmarks.tiers`.

It needs no corpus and no broker: it writes a log of 0.9 GB with kafkalog, and stores its segments as Apache's
LocalTieredStorage and Aiven's plugin do.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from pathlib import Path

import native_log
from benchmarks.filters import compare, write_log
from benchmarks.readers import SEVEN_COLUMNS
from benchmarks.tier_writers import KEYS, write_aiven_tier, write_tier
from native_log import LogDir

SEGMENT_BYTES = 48 << 20  # four of the five segments of each partition are in remote storage


def main() -> None:
    logging.getLogger("native_log").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_log(folder / "local", "none", SEGMENT_BYTES)
        write_tier(folder)
        tiered = {"remote": folder / "tier"}
        aiven = {
            "plain": {"remote": write_aiven_tier(folder, "plain", is_transformed=False)},
            "zstd and AES": {
                "remote": write_aiven_tier(folder, "aes", is_transformed=True),
                "remote_keys": KEYS,
            },
        }
        print("| Work | Contender | Seconds | Ratio |\n|---|---|--:|--:|")
        compare(
            "seven columns, one thread",
            {
                "one local directory": lambda: read(LogDir(folder / "local")),
                "LocalTieredStorage": lambda: read(LogDir(folder / "rest", **tiered)),
                "Aiven's plugin, plain": lambda: read(LogDir(folder / "rest", **aiven["plain"])),
                "Aiven's plugin, zstd and AES": lambda: read(
                    LogDir(folder / "rest", **aiven["zstd and AES"])
                ),
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
            prepare=os.sync,  # a run must not flush what an earlier one wrote
        )


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


if __name__ == "__main__":
    main()
