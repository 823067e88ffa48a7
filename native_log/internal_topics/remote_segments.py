"""The segments in remote storage, from records of __remote_log_metadata (Kafka: RemoteLogMetadataCache)."""

from __future__ import annotations

from typing import NamedTuple

from native_log.messages.remote_log import SEGMENT_STATES, read_remote_log_record

_COPIED = SEGMENT_STATES.index("COPY_SEGMENT_FINISHED")
_DELETED = SEGMENT_STATES.index("DELETE_SEGMENT_FINISHED")


class RemotePartition(NamedTuple):
    """A partition with remote storage. The topic id is 22 characters of base64url."""

    topic: str
    partition: int
    topic_id: str


class RemoteSegments:
    """The segments in remote storage after a number of records.

    A segment can be read if its last record says that its copy was finished. Unfinished copies, and segments
    whose deletion has begun, cannot.
    """

    def __init__(self) -> None:
        self._starts: dict[RemotePartition, dict[str, int]] = {}
        self._states: dict[str, int] = {}

    def apply(self, value: bytes) -> None:
        """Take the next record. Raises MessageError."""
        name, data = read_remote_log_record(value)
        if name == "RemotePartitionDeleteMetadata":
            self._remove_partition(_partition(data["topicIdPartition"]))
        elif name in ("RemoteLogSegmentMetadata", "RemoteLogSegmentMetadataUpdate"):
            segment = data["remoteLogSegmentId"]
            segment_id, starts = (
                segment["id"],
                self._starts.setdefault(_partition(segment["topicIdPartition"]), {}),
            )
            if "startOffset" in data:
                starts[segment_id] = data["startOffset"]
            self._states[segment_id] = data["state"]
            if data["state"] == _DELETED:
                self._states.pop(segment_id)
                starts.pop(segment_id, None)

    def start_offsets(self) -> dict[RemotePartition, int]:
        """Return the first offset in remote storage of each partition that has a readable segment there."""
        readable = {
            partition: [start for segment, start in starts.items() if self._states[segment] == _COPIED]
            for partition, starts in self._starts.items()
        }
        return {partition: min(starts) for partition, starts in readable.items() if starts}

    def _remove_partition(self, partition: RemotePartition) -> None:
        for segment_id in self._starts.pop(partition, {}):
            self._states.pop(segment_id, None)


def _partition(data: dict[str, object]) -> RemotePartition:
    return RemotePartition(str(data["name"]), int(str(data["partition"])), str(data["id"]))
