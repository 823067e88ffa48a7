"""Sample the codecs of topics, and how well the data is compressed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from native_log.errors import LogTruncatedError
from native_log.records import DecodeOptions, decode, scan
from native_log.reporting.batches import codec_figures
from native_log.reporting.figures import CodecFigures, CodecSamples
from native_log.storage import DataFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa

SAMPLE_BYTES = 64 << 10
"""The size of one sample. A larger batch is read whole, up to _MAX_SAMPLE_BYTES."""
PARTITIONS_PER_TOPIC = 3
MAX_TOPICS = 300
_MAX_SAMPLE_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class SamplePlace:
    """Where to take a sample: at the beginning of this .log file.

    Attributes:
        partition_bytes: the size of the partition.
    """

    topic: str
    path: str
    partition_bytes: int


def choose_samples(candidates: Iterable[SamplePlace]) -> tuple[list[SamplePlace], int]:
    """Choose the places of samples: some of the largest partitions of the largest topics.

    Returns:
        The places, and the number of topics that are left out.
    """
    by_topic: dict[str, list[SamplePlace]] = {}
    for place in candidates:
        by_topic.setdefault(place.topic, []).append(place)
    topics = sorted(by_topic.values(), key=lambda places: -sum(place.partition_bytes for place in places))
    chosen = [
        place
        for places in topics[:MAX_TOPICS]
        for place in sorted(places, key=lambda place: -place.partition_bytes)[:PARTITIONS_PER_TOPIC]
    ]
    return chosen, len(topics) - len(topics[:MAX_TOPICS])


def take_samples(candidates: Iterable[SamplePlace]) -> CodecSamples:
    """Read and decode a few batches of each of the largest topics.

    Files that cannot be read and damaged batches are left out.
    """
    places, left_out = choose_samples(candidates)
    codecs: dict[tuple[str, str], CodecFigures] = {}
    bytes_read = 0
    for place in places:
        data = _read_sample(place)
        bytes_read += len(data)
        for codec, figures in sample_figures(data).items():
            key = place.topic, codec
            codecs[key] = codecs.get(key, CodecFigures()) + figures
    return CodecSamples(codecs, bytes_read, left_out)


def sample_figures(data: bytes) -> Mapping[str, CodecFigures]:
    """Return the codecs of the batches at the beginning of `data`, and the bytes of their records.

    If `data` ends in a batch, or a batch is damaged, the whole batches before it count. If there is none,
    only the codec in the header of the first batch is known.
    """
    batches = scan(data).batches
    decoded = decode(data, ["compression", "key", "value", "headers"], DecodeOptions())
    whole = batches.filter(pc.less(batches.column("position"), decoded.position))
    if whole.num_rows == 0:
        return codec_figures(batches.slice(0, 1))
    codecs = decoded.batch.column("compression")
    sizes = {
        codec.as_py(): _data_bytes(decoded.batch.filter(pc.equal(codecs, codec))) for codec in codecs.unique()
    }
    data_batches = whole.filter(pc.invert(whole.column("isControl")))
    return {
        codec: CodecFigures(
            figures.batches,
            figures.stored_bytes,
            sizes.get(codec, 0),
            figures.stored_bytes if codec in sizes else 0,
        )
        for codec, figures in codec_figures(data_batches).items()
    }


def _read_sample(place: SamplePlace) -> bytes:
    """Read the beginning of a file, at least its first batch if that is not too large."""
    try:
        with DataFile(place.path) as file:
            data = file.read(0, SAMPLE_BYTES)
            scanned = scan(data)
            first_bytes = scanned.needed_bytes
            if scanned.batches.num_rows:
                first_bytes = scanned.batches.column("sizeInBytes")[0].as_py()
            if first_bytes > len(data):
                data = file.read(0, min(first_bytes, _MAX_SAMPLE_BYTES))
            return data
    except (LogTruncatedError, OSError):
        return b""


def _data_bytes(records: pa.RecordBatch) -> int:
    headers = pc.list_flatten(records.column("headers"))
    columns = [
        records.column("key"),
        records.column("value"),
        pc.struct_field(headers, "key"),
        pc.struct_field(headers, "value"),
    ]
    return sum(pc.sum(pc.binary_length(column)).as_py() or 0 for column in columns)
