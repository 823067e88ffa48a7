"""Compare heavily damaged segments with an undamaged one: `python -m benchmarks.damage`.

Each segment has 1 MiB. Every second of its batches, which have one small record each, is damaged. Processor
time is measured in ms, the minimum of 15 runs, and how many times as much it is as without damage.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import native_log
from native_log import LogDir
from native_log.records import EncodeOptions, encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from native_log.arguments import Mode

SEGMENT_BYTES = 1 << 20
RUNS = 15
RECORD = pa.record_batch({"key": [b"k"], "value": [b"v"]})

V2, V1 = EncodeOptions(batch_size=0), EncodeOptions(magic=1, batch_size=0)
GZIP = EncodeOptions(magic=1, compression="gzip", batch_size=0)


def flip_value(batch: bytearray) -> None:
    batch[-2] ^= 1


def flip_content(batch: bytearray) -> None:
    batch[-12] ^= 1


def claim(size_bytes: int) -> Callable[[bytearray], None]:
    def change(batch: bytearray) -> None:
        batch[8:12] = size_bytes.to_bytes(4, "big")

    return change


def lower_offset(batch: bytearray) -> None:
    batch[:8] = bytes(8)


def raise_magic(batch: bytearray) -> None:
    batch[16] = 77


DAMAGE: dict[str, tuple[EncodeOptions, Callable[[bytearray], None] | None]] = {
    "none": (V2, None),
    "a wrong checksum": (V2, flip_value),
    "an offset that is too low": (V2, lower_offset),
    "a size beyond the end of the segment": (V2, claim(1 << 30)),
    "a size of 300 KB": (V2, claim(300_000)),
    "an unknown magic, which no checksum covers": (V2, raise_magic),
    "a wrong checksum, messages of magic 1": (V1, flip_value),
    "a wrong checksum, messages of magic 1 with gzip": (GZIP, flip_content),
}


def main() -> None:
    logging.getLogger("native_log").setLevel(logging.CRITICAL)
    print(f"| Damage of every second batch | {' | '.join(WORKS)} |")
    print(f"|---|{'--:|' * len(WORKS)}")
    undamaged: list[float] = []
    for name, (options, change) in DAMAGE.items():
        with tempfile.TemporaryDirectory() as folder:
            write_segment(Path(folder) / "t-0", options, change)
            seconds = [least_seconds(work, folder) for work in WORKS.values()]
        undamaged = undamaged or seconds
        ratios = (each / least for each, least in zip(seconds, undamaged, strict=True))
        cells = (f"{1000 * each:.0f} ({ratio:.1f}x)" for each, ratio in zip(seconds, ratios, strict=True))
        print(f"| {name} | {' | '.join(cells)} |")


def write_segment(
    directory: Path, options: EncodeOptions, change: Callable[[bytearray], None] | None
) -> None:
    directory.mkdir()
    with (directory / f"{0:020}.log").open("wb") as file:
        offset = 0
        while file.tell() < SEGMENT_BYTES:
            batch = bytearray(encode(RECORD, options, base_offset=offset).data)
            if change is not None and offset % 2:
                change(batch)
            file.write(batch)
            offset += 1
        file.write(encode(RECORD, options, base_offset=offset).data)


def least_seconds(work: Callable[[Path], object], folder: str) -> float:
    """Run `work` on a new copy of the directory each time."""
    times = []
    for _ in range(RUNS):
        with tempfile.TemporaryDirectory() as copies:
            copy = Path(copies) / "logs"
            shutil.copytree(folder, copy)
            started = time.process_time()
            work(copy)
            times.append(time.process_time() - started)
    return min(times)


def read(folder: Path, mode: Mode) -> int:
    log = LogDir(folder).partition("t", 0)
    columns = ["offset", "timestamp", "key", "value"]
    return sum(batch.num_rows for batch in log.read(columns=columns, mode=mode))


WORKS: dict[str, Callable[[Path], object]] = {
    "open": lambda folder: LogDir(folder).partition("t", 0).log_end_offset,
    "dropMalformed": lambda folder: read(folder, "dropMalformed"),
    "permissive": lambda folder: read(folder, "permissive"),
    "verify": native_log.verify,
    "recover": native_log.recover,
    "salvage": lambda folder: native_log.salvage(folder, folder.parent / "salvaged"),
}
"""What is measured, by the name of its column."""


if __name__ == "__main__":
    main()
