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
        self._segments: dict[RemotePartition, dict[str, RemoteSegment]] = {}
        self._states: dict[str, int] = {}
        self._finished: dict[str, int] = {}
        """The number of the record that finished the copy of each segment."""
        self._records = 0

    def apply(self, value: bytes) -> None:
        """Take the next record. Raises MessageError."""
        name, data = read_remote_log_record(value)
        self._records += 1
        if name == "RemotePartitionDeleteMetadata":
            self._remove_partition(_partition(data["topicIdPartition"]))
        elif name in ("RemoteLogSegmentMetadata", "RemoteLogSegmentMetadataUpdate"):
            segment = data["remoteLogSegmentId"]
            segment_id, segments = (
                segment["id"],
                self._segments.setdefault(_partition(segment["topicIdPartition"]), {}),
            )
            if "startOffset" in data:
                segments[segment_id] = _segment(segment_id, data)
            elif data["customMetadata"] is not None and segment_id in segments:
                changed = replace(segments[segment_id], custom_metadata=data["customMetadata"])
                segments[segment_id] = changed
            self._states[segment_id] = data["state"]
            if data["state"] == _COPIED:
                self._finished[segment_id] = self._records
            if data["state"] == _DELETED:
                self._states.pop(segment_id)
                self._finished.pop(segment_id, None)
                segments.pop(segment_id, None)

    def knows(self, partition: RemotePartition) -> bool:
        """Return whether any record was about a segment of the partition, be it deleted since."""
        return partition in self._segments

    def readable(self, partition: RemotePartition) -> list[RemoteSegment]:
        """Return the readable segments of a partition, in the order in which their copies were finished."""
        segments = self._segments.get(partition, {})
        copied = [segment for segment in segments if self._states[segment] == _COPIED]
        return [segments[segment] for segment in sorted(copied, key=self._finished.__getitem__)]

    def keys(self, partition: RemotePartition) -> set[tuple[int, str]]:
        """Return start offset and id of each segment of a partition that is not deleted, in any state."""
        return {segment.key for segment in self._segments.get(partition, {}).values()}

    def start_offsets(self) -> dict[RemotePartition, int]:
        """Return the first offset in remote storage of each partition that has a readable segment there."""
        readable = {partition: self.readable(partition) for partition in self._segments}
        return {
            partition: min(segment.span.start_offset for segment in segments)
            for partition, segments in readable.items()
            if segments
        }

    def _remove_partition(self, partition: RemotePartition) -> None:
        for segment_id in self._segments.pop(partition, {}):
            self._states.pop(segment_id, None)
            self._finished.pop(segment_id, None)


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
