"""The segments in remote storage, from records of __remote_log_metadata (Kafka: RemoteLogMetadataCache)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from native_log.checkpoints.leader_epochs import EpochEntry
from native_log.log.offset_span import OffsetSpan
from native_log.log.tiers.remote_segment import RemotePartition, RemoteSegment
from native_log.messages.remote_log import SEGMENT_STATES, read_remote_log_record

_COPIED = SEGMENT_STATES.index("COPY_SEGMENT_FINISHED")
_DELETED = SEGMENT_STATES.index("DELETE_SEGMENT_FINISHED")


class RemoteSegments:
    """The segments in remote storage after a number of records.

    A segment can be read if its last record says that its copy was finished. Unfinished copies, and segments
    whose deletion has begun, cannot.
    """

    def __init__(self) -> None:
        self._partitions: dict[RemotePartition, _Segments] = {}

    def apply(self, value: bytes) -> None:
        """Take the next record. Raises MessageError."""
        name, data = read_remote_log_record(value)
        if name == "RemotePartitionDeleteMetadata":
            self._partitions.pop(_partition(data["topicIdPartition"]), None)
        elif name in ("RemoteLogSegmentMetadata", "RemoteLogSegmentMetadataUpdate"):
            segment_id = data["remoteLogSegmentId"]
            partition = _partition(segment_id["topicIdPartition"])
            self._partitions.setdefault(partition, _Segments()).apply(segment_id["id"], data)

    def knows(self, partition: RemotePartition) -> bool:
        """Return whether any record was about a segment of the partition, even if it was deleted since."""
        return partition in self._partitions

    def readable(self, partition: RemotePartition) -> list[RemoteSegment]:
        """Return the readable segments of a partition, in the order in which their copies were finished."""
        return self._partitions.get(partition, _Segments()).readable()

    def keys(self, partition: RemotePartition) -> set[tuple[int, str]]:
        """Return start offset and id of each segment of a partition that is not deleted, in any state."""
        return {segment.key for segment in self._partitions.get(partition, _Segments()).by_id.values()}

    def start_offsets(self) -> dict[RemotePartition, int]:
        """Return the first offset in remote storage of each partition that has a readable segment there."""
        readable = {partition: segments.readable() for partition, segments in self._partitions.items()}
        return {
            partition: min(segment.span.start_offset for segment in segments)
            for partition, segments in readable.items()
            if segments
        }


class _Segments:
    """The segments of one partition. Each partition has its own, because a broker also looks up ids in it."""

    def __init__(self) -> None:
        self.by_id: dict[str, RemoteSegment] = {}
        self._copied: dict[str, None] = {}
        """The segments whose last record says that their copy was finished, in the order of these records."""

    def apply(self, segment_id: str, data: dict[str, Any]) -> None:
        if "startOffset" in data:
            self.by_id[segment_id] = _segment(segment_id, data)
        elif data["customMetadata"] is not None and segment_id in self.by_id:
            changed = replace(self.by_id[segment_id], custom_metadata=data["customMetadata"])
            self.by_id[segment_id] = changed
        self._copied.pop(segment_id, None)
        if data["state"] == _COPIED:
            self._copied[segment_id] = None
        elif data["state"] == _DELETED:
            self.by_id.pop(segment_id, None)

    def readable(self) -> list[RemoteSegment]:
        return [self.by_id[segment_id] for segment_id in self._copied if segment_id in self.by_id]


def _segment(segment_id: str, data: dict[str, Any]) -> RemoteSegment:
    epochs = sorted((entry["leaderEpoch"], entry["offset"]) for entry in data["segmentLeaderEpochs"])
    span = OffsetSpan(data["startOffset"], data["endOffset"] + 1)
    return RemoteSegment(
        segment_id,
        span,
        tuple(EpochEntry(*entry) for entry in epochs),
        size_bytes=data["segmentSizeInBytes"],
        custom_metadata=data["customMetadata"],
    )


def _partition(data: dict[str, object]) -> RemotePartition:
    return RemotePartition(str(data["name"]), int(str(data["partition"])), str(data["id"]))
