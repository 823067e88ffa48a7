"""Compressed payloads. Libraries decompress the blocks; this package reads Kafka's framing of them.

`max_batch_bytes` limits the decompressed size. Memory is allocated for bytes that were decompressed, never
for a size that the payload claims.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from native_log.codecs import CODECS_BY_ID, GZIP, LZ4, NONE, SNAPPY
from native_log.records.reference.codec import gzip_members, lz4_frame, xerial, zstd_frames
from native_log.records.reference.codec.output import Output
from native_log.records.reference.damage import DamagedBatchError

if TYPE_CHECKING:
    from native_log.records.reference.entry import BatchHeader


def codec_name(codec: int) -> str:
    """Return the value of the column `compression` for the id of a codec."""
    return CODECS_BY_ID[codec].name if codec in CODECS_BY_ID else f"unknown({codec})"


def check_codec(header: BatchHeader) -> None:
    """Raise DamagedBatchError if the codec does not exist, or the batch's format does not allow it."""
    if header.codec not in CODECS_BY_ID:
        raise DamagedBatchError("codec", f"expected compression codec 0 to 4, found {header.codec}")
    if header.magic not in CODECS_BY_ID[header.codec].magics:
        raise DamagedBatchError(
            "codec", f"expected compression codec 0 to 3 with magic {header.magic}, found 4"
        )


def decompress(header: BatchHeader, payload: memoryview, max_batch_bytes: int) -> memoryview:
    """Return the decompressed payload of a batch, or of a v0/v1 wrapper.

    Raises:
        DamagedBatchError: of kind "codec", "compression" or "too-large".
    """
    check_codec(header)
    codec = CODECS_BY_ID[header.codec]
    if codec is NONE:
        return payload
    if not payload:
        raise DamagedBatchError("compression", f"expected a {codec.name} stream, found nothing")
    output = Output(codec.name, max_batch_bytes)
    if codec is GZIP:
        gzip_members.decompress(payload, output)
    elif codec is SNAPPY:
        xerial.decompress(payload, output)
    elif codec is LZ4:
        lz4_frame.decompress(payload, output, check_header=header.magic > 0)
    else:
        zstd_frames.decompress(payload, output)
    return output.result()
