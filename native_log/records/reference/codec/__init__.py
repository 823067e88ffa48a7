"""Compressed payloads. The libraries do the blocks; how Kafka frames them is written here.

`max_batch_bytes` bounds what a payload may come to; output grows with what was decompressed, never with a
claim.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.records.reference.codec import gzip_members, lz4_frame, xerial, zstd_frames
from native_log.records.reference.codec.output import Output
from native_log.records.reference.damage import DamagedBatchError

if TYPE_CHECKING:
    from native_log.records.reference.entry import BatchHeader

NAMES = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}


def codec_name(codec: int) -> str:
    return NAMES.get(codec, f"unknown({codec})")


def check_codec(header: BatchHeader) -> None:
    if header.codec not in NAMES:
        raise DamagedBatchError("codec", f"compression codec 0 to 4 was expected, found {header.codec}")
    if header.magic < 2 and NAMES[header.codec] == "zstd":
        raise DamagedBatchError("codec", f"zstd needs magic 2, this message has magic {header.magic}")


def decompress(header: BatchHeader, payload: memoryview, max_batch_bytes: int) -> memoryview:
    """The payload of a batch, or of a v0/v1 wrapper. Raises DamagedBatchError "codec", "compression",
    "too-large"."""
    check_codec(header)
    codec = NAMES[header.codec]
    if codec == "none":
        return payload
    if not payload:
        raise DamagedBatchError("compression", f"a {codec} stream was expected, found nothing")
    output = Output(codec, max_batch_bytes)
    if codec == "gzip":
        gzip_members.decompress(payload, output)
    elif codec == "snappy":
        xerial.decompress(payload, output)
    elif codec == "lz4":
        lz4_frame.decompress(payload, output, check_header=header.magic > 0)
    else:
        zstd_frames.decompress(payload, output)
    return output.result()
