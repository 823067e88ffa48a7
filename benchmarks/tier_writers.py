"""Store the segments of a log as Apache's LocalTieredStorage and Aiven's plugin do."""

from __future__ import annotations

import base64
import json
import os
import shutil
from pathlib import Path

import zstandard
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from native_log.log.tiers.layouts.aiven_encryption import decrypt_data_key

CHUNK_BYTES = 4 << 20
KEYS = Path(__file__).parents[1] / "tests/data/golden-tiered/aiven-zstd-aes/keys"


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
