"""Remote storage beside the same log on a disk: `python -m benchmarks.tiers`.

It needs no corpus and no broker: it writes a log of 0.9 GB with kafkalog, and stores its segments as Apache's
LocalTieredStorage and Aiven's plugin do.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import zstandard
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

import native_log
from benchmarks.filters import write_log
from benchmarks.readers import SEVEN_COLUMNS
from native_log import LogDir
from native_log.log.tiers.layouts.aiven_encryption import decrypt_data_key

if TYPE_CHECKING:
    from collections.abc import Callable

RUNS = 5
SEGMENT_BYTES = 48 << 20  # four of the five segments of each partition are in remote storage
CHUNK_BYTES = 4 << 20
KEYS = Path(__file__).parents[1] / "tests/data/golden-tiered/aiven-zstd-aes/keys"


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
            (tier / f"{name}.leader_epoch_checkpoint").write_text(f"0\n1\n0 {int(log.stem)}\n")


def write_aiven_tier(folder: Path, name: str, *, is_transformed: bool) -> Path:
    """Store the segments in remote storage as Aiven's plugin does, too. Return the folder."""
    manifests = [json.loads(each.read_text()) for each in KEYS.parent.rglob("*.rsm-manifest")]
    encryption = next(
        each["encryption"] for each in manifests if each["encryption"]["dataKey"].startswith("key1:")
    )
    wrapped = base64.b64decode(encryption["dataKey"].partition(":")[2])
    key = AESGCM(decrypt_data_key(wrapped, (KEYS / "key1.private.pem").read_bytes()))
    aad = base64.b64decode(encryption["aad"])

    def transform(chunk: bytes) -> bytes:
        if not is_transformed:
            return chunk
        vector = os.urandom(12)
        return vector + key.encrypt(vector, zstandard.compress(chunk), aad)

    for log in (folder / "tier").rglob("*.log"):
        topic, partition, topic_id = log.parent.name.split("-", 2)
        bases = sorted(int(each.stem) for each in (folder / "local" / f"{topic}-{partition}").glob("*.log"))
        start, segment_id = log.stem.partition("-")[::2]
        target = folder / name / f"{topic}-{topic_id}" / partition
        target.mkdir(parents=True, exist_ok=True)
        data, stem = log.read_bytes(), f"{int(start):020}-{segment_id}"
        chunks = [transform(data[at : at + CHUNK_BYTES]) for at in range(0, len(data), CHUNK_BYTES)]
        (target / f"{stem}.log").write_bytes(b"".join(chunks))
        indexes = [log.with_suffix(suffix).read_bytes() for suffix in (".index", ".timeindex")]
        # Indexes are transformed like a chunk, but never compressed.
        if is_transformed:
            vectors = [os.urandom(12) for _ in indexes]
            indexes = [v + key.encrypt(v, index, aad) for v, index in zip(vectors, indexes, strict=True)]
        (target / f"{stem}.indexes").write_bytes(b"".join(indexes))
        sizes = b"".join(len(chunk).to_bytes(4, "big") for chunk in chunks)
        sizes = len(chunks).to_bytes(4, "big") + bytes(4) + b"\4" + sizes
        fields: dict[str, object] = {
            "version": "1",
            "chunkIndex": {
                "type": "variable",
                "originalChunkSize": CHUNK_BYTES,
                "originalFileSize": len(data),
                "transformedChunks": base64.b64encode(zstandard.compress(sizes)).decode(),
            },
            "segmentIndexes": {
                "offset": {"position": 0, "size": len(indexes[0])},
                "timestamp": {"position": len(indexes[0]), "size": len(indexes[1])},
                "transaction": None,
            },
            "compression": is_transformed,
            "remoteLogSegmentMetadata": {
                "remoteLogSegmentId": {"id": segment_id},
                "startOffset": int(start),
                "endOffset": bases[bases.index(int(start)) + 1] - 1,
                "segmentLeaderEpochs": {"0": int(start)},
            },
        }
        if is_transformed:
            fields["encryption"] = encryption
        (target / f"{stem}.rsm-manifest").write_text(json.dumps(fields))
    return folder / name


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
