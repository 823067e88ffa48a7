"""The names and manifests of Aiven's tiered storage plugin (ObjectKeyFactory, SegmentManifestV1).

    <key prefix><topic>-<topic id>/<partition>/<start offset>-<segment id>.<kind>

The `log` object has the bytes of the segment in chunks, which may be compressed and encrypted. The object
`indexes` has all index files, one after the other. The manifest, `rsm-manifest`, is written last and says how
to read both.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import zstandard

from native_log.checkpoints.leader_epochs import EpochEntry
from native_log.log.offset_span import OffsetSpan
from native_log.log.tiers.layouts.names import UUID, ObjectName, PartitionName
from native_log.log.tiers.remote_segment import RemoteSegment
from native_log.messages.reading import Buffer, read_message
from native_log.messages.schema import Notation

if TYPE_CHECKING:
    from collections.abc import Mapping

LOG, INDEXES, MANIFEST = "log", "indexes", "rsm-manifest"

INDEX_FILES = {"index": "offset", "timeindex": "timestamp", "txnindex": "transaction"}
"""The names of index files in a manifest, by the suffixes that a broker gives to the files."""

_TOPIC = re.compile(rf"(.+)-({UUID})")
_PARTITION = re.compile(r"[0-9]+")
_OBJECT = re.compile(rf"([0-9]+)-({UUID})\.(log|indexes|rsm-manifest)")
_CUSTOM_METADATA = Notation(
    "0 flexible 0+ {prefix string? tag 1 default null, key string? tag 2 default null}"
).message("CustomMetadata")
"""SegmentCustomMetadataField. Field 0, the size of the objects, is not needed."""
_MOST_FILE_BYTES = 2**31 - 1
_MOST_CHUNKS = 1 << 20
_MOST_SIZES_BYTES = 8 * _MOST_CHUNKS


class ManifestError(ValueError):
    """A manifest that cannot be used."""


@dataclass(frozen=True, slots=True)
class ChunkIndex:
    """Where the chunks of a segment are in its `log` object.

    Attributes:
        chunk_bytes: how many bytes of the segment a chunk has; the last one has the rest.
        file_bytes: the size of the segment.
        positions: where each transformed chunk begins in the object, and where the last one ends.
    """

    chunk_bytes: int
    file_bytes: int
    positions: tuple[int, ...]

    def chunk_size(self, index: int) -> int:
        """Return how many bytes of the segment a chunk has."""
        return min(self.chunk_bytes, self.file_bytes - index * self.chunk_bytes)


@dataclass(frozen=True, slots=True)
class Encryption:
    """How a segment's objects are encrypted: with AES-256-GCM.

    Attributes:
        key_id: the id of the RSA key that encrypts the data key.
        data_key: the encrypted data key.
        aad: the additional authenticated data of all messages.
    """

    key_id: str
    data_key: bytes
    aad: bytes


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a manifest says of a segment.

    Attributes:
        chunks: where its chunks are.
        indexes: the position and the size of each index file in the object `indexes`, by its name in the
            manifest.
        is_compressed: whether the chunks are zstd frames.
        encryption: None: the objects are not encrypted.
        segment: the segment; None: the manifest does not describe it.
        finished_ms: when its copy began, in epoch ms.
    """

    chunks: ChunkIndex
    indexes: Mapping[str, tuple[int, int]]
    is_compressed: bool
    encryption: Encryption | None
    segment: RemoteSegment | None
    finished_ms: int


@dataclass(frozen=True, slots=True)
class ObjectPlace:
    """Where the objects of a segment were put when they were written.

    Attributes:
        prefix: the plugin's `key.prefix`; None: not recorded.
        key: the rest of their names, without the kind; None: not recorded.
    """

    prefix: str | None
    key: str | None


def parse_topic(name: str) -> tuple[str, str] | None:
    """Return topic and topic id in the name of a folder without the key prefix; None: no topic."""
    match = _TOPIC.fullmatch(name)
    return (match[1], match[2]) if match else None


def parse_partition(topic_folder: str, partition_folder: str) -> PartitionName | None:
    """Return the partition of a folder in a topic's folder; None if these are not the names of such."""
    topic = parse_topic(topic_folder)
    if topic is None or not _PARTITION.fullmatch(partition_folder):
        return None
    return PartitionName(topic[0], int(partition_folder), topic[1])


def parse_object(name: str) -> ObjectName | None:
    """Return the parts of an object's name; None if that is not the name of one."""
    match = _OBJECT.fullmatch(name)
    return ObjectName(int(match[1]), match[2], match[3]) if match else None


def object_key(partition: PartitionName, segment: RemoteSegment) -> str:
    """Return the name of a segment's objects, without the key prefix and the kind."""
    topic_folder = f"{partition.topic}-{partition.topic_id}"
    return f"{topic_folder}/{partition.partition}/{segment.span.start_offset:020}-{segment.id}"


def parse_custom_metadata(data: bytes) -> ObjectPlace:
    """Parse what the plugin adds to the metadata of a segment (SegmentCustomMetadataSerde).

    Raises MessageError.
    """
    fields = read_message(_CUSTOM_METADATA, 0, Buffer(data))
    return ObjectPlace(fields.get("prefix"), fields.get("key"))


def parse_manifest(data: bytes) -> Manifest:
    """Parse a manifest. Fields that are not known are passed over. Raises ManifestError."""
    try:
        fields = json.loads(data)
        if fields["version"] != "1":
            raise ManifestError(f"expected a manifest of version 1, found {fields['version']!r}")
        indexes = {
            name: (int(place["position"]), int(place["size"]))
            for name, place in fields["segmentIndexes"].items()
            if place is not None
        }
        if any(min(place) < 0 for place in indexes.values()):
            raise ManifestError(f"expected positions and sizes of indexes, found {indexes}")
        segment, finished_ms = _segment(fields.get("remoteLogSegmentMetadata"))
        return Manifest(
            _chunk_index(fields["chunkIndex"]),
            indexes,
            bool(fields["compression"]),
            _encryption(fields.get("encryption")),
            segment,
            finished_ms,
        )
    except ManifestError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, zstandard.ZstdError) as error:
        found = f"{type(error).__name__}: {error}"
        raise ManifestError(f"expected a manifest, found something else: {found}") from None


def _chunk_index(fields: dict[str, Any]) -> ChunkIndex:
    chunk_bytes, file_bytes = int(fields["originalChunkSize"]), int(fields["originalFileSize"])
    if chunk_bytes < 1 or not 0 <= file_bytes <= _MOST_FILE_BYTES:
        raise ManifestError(f"expected sizes of chunks and file, found {chunk_bytes} and {file_bytes}")
    count = -(-file_bytes // chunk_bytes)
    if count > _MOST_CHUNKS:
        raise ManifestError(f"expected at most {_MOST_CHUNKS} chunks, found {count}")
    if fields["type"] == "fixed":
        last = [int(fields["finalTransformedChunkSize"])] if count else []
        sizes = [int(fields["transformedChunkSize"])] * (count - len(last)) + last
    elif fields["type"] == "variable":
        sizes = parse_chunk_sizes(base64.b64decode(fields["transformedChunks"]))
    else:
        raise ManifestError(f"expected a chunk index of type fixed or variable, found {fields['type']!r}")
    if len(sizes) != count or min(sizes, default=0) < 0:
        raise ManifestError(f"expected the sizes of {count} chunks, found {len(sizes)}")
    return ChunkIndex(chunk_bytes, file_bytes, tuple(accumulate(sizes, initial=0)))


def parse_chunk_sizes(data: bytes) -> list[int]:
    """Return the sizes of transformed chunks (ChunkSizesBinaryCodec). Raises ValueError, ZstdError."""
    data = zstandard.ZstdDecompressor().decompress(data, max_output_size=_MOST_SIZES_BYTES)
    count = int.from_bytes(data[:4], "big", signed=True)
    if count <= 1:
        return [int.from_bytes(data[4:8], "big", signed=True)] * max(0, count)
    base, width = int.from_bytes(data[4:8], "big", signed=True), data[8]
    end = 9 + (count - 1) * width
    if len(data) != end + 4:
        raise ValueError(f"expected {end + 4} bytes with the sizes of {count} chunks, found {len(data)}")
    others = [data[9 + at * width : 9 + (at + 1) * width] for at in range(count - 1)]
    return [
        *(base + int.from_bytes(each, "big") for each in others),
        int.from_bytes(data[end:], "big", signed=True),
    ]


def _encryption(fields: dict[str, str] | None) -> Encryption | None:
    if fields is None:
        return None
    key_id, separator, data_key = fields["dataKey"].rpartition(":")
    if not separator:
        raise ManifestError("expected a data key with the id of its key, found none")
    return Encryption(key_id, base64.b64decode(data_key), base64.b64decode(fields["aad"]))


def _segment(fields: dict[str, Any] | None) -> tuple[RemoteSegment | None, int]:
    """Return the segment that a manifest describes, and when; None if it does not say all that is needed."""
    try:
        assert fields is not None
        epochs = sorted((int(epoch), int(start)) for epoch, start in fields["segmentLeaderEpochs"].items())
        segment = RemoteSegment(
            str(fields["remoteLogSegmentId"]["id"]),
            OffsetSpan(int(fields["startOffset"]), int(fields["endOffset"]) + 1),
            tuple(EpochEntry(*entry) for entry in epochs),
        )
        return segment, int(fields.get("eventTimestampMs", 0))
    except (AssertionError, KeyError, TypeError, AttributeError, ValueError):
        return None, 0
