"""Compare heavily damaged segments with an undamaged one: `python -m benchmarks.damage`.

Each segment has 1 MiB. Every second of its batches, which have one small record each, is damaged. Processor
time is measured, the minimum of five runs.
"""

from __future__ import annotations

import logging
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

SEGMENT_BYTES = 1 << 20
RUNS = 5
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
    logging.getLogger("native_log").setLevel(logging.ERROR)
    print("| Damage of every second batch | dropMalformed, ms | Ratio | verify, ms | Ratio |")
    print("|---|--:|--:|--:|--:|")
    undamaged: list[float] = []
    for name, (options, change) in DAMAGE.items():
        with tempfile.TemporaryDirectory() as folder:
            write_segment(Path(folder) / "t-0", options, change)
            seconds = [least_seconds(work, folder) for work in (read, native_log.verify)]
        undamaged = undamaged or seconds
        ratios = (each / least for each, least in zip(seconds, undamaged, strict=True))
        cells = (f"{1000 * each:.0f} | {ratio:.1f}" for each, ratio in zip(seconds, ratios, strict=True))
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


def least_seconds(work: Callable[[str], object], folder: str) -> float:
    times = []
    for _ in range(RUNS):
        started = time.process_time()
        work(folder)
        times.append(time.process_time() - started)
    return min(times)


def read(folder: str) -> int:
    log = LogDir(folder).partition("t", 0)
    columns = ["offset", "timestamp", "key", "value"]
    return sum(batch.num_rows for batch in log.read(columns=columns, mode="dropMalformed"))


if __name__ == "__main__":
    main()
