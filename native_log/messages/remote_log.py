"""Records of __remote_log_metadata, up to Kafka 4.4 (Kafka: RemoteLogMetadataSerde)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from native_log.messages.reading import Buffer, MessageError, read_frame, read_message
from native_log.messages.schema import Message, Notation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_PARTITION = "topicIdPartition {name string, id uuid, partition int32}"
_SEGMENT = f"remoteLogSegmentId {{{_PARTITION}, id uuid}}"
_CONTENT = """startOffset int64, endOffset int64, brokerId int32, maxTimestampMs int64,
    eventTimestampMs int64, segmentLeaderEpochs []{leaderEpoch int32, offset int64}, segmentSizeInBytes int32,
    customMetadata bytes?, state int8, txnIdxEmpty bool tag 0"""
_TEXT = f"""
    RemoteLogSegmentMetadata 0 flexible 0+ {{{_SEGMENT}, {_CONTENT}}}
    RemoteLogSegmentMetadataUpdate 0 flexible 0+ {{{_SEGMENT}, brokerId int32, eventTimestampMs int64,
        customMetadata bytes?, state int8}}
    RemotePartitionDeleteMetadata 0 flexible 0+ {{{_PARTITION}, brokerId int32, eventTimestampMs int64,
        state int8}}
    RemoteLogSegmentMetadataSnapshot 0 flexible 0+ {{segmentId uuid, {_CONTENT}}}
"""

_SEGMENT_FIELDS = (
    *("remoteLogSegmentId", "startOffset", "endOffset", "brokerId", "maxTimestampMs", "eventTimestampMs"),
    *("segmentLeaderEpochs", "segmentSizeInBytes", "customMetadata", "state", "txnIdxEmpty"),
)
_FIELDS = {
    "RemoteLogSegmentMetadata": _SEGMENT_FIELDS,
    "RemoteLogSegmentMetadataUpdate": (
        *("remoteLogSegmentId", "customMetadata", "state", "eventTimestampMs", "brokerId"),
    ),
    "RemotePartitionDeleteMetadata": ("topicPartition", "state", "eventTimestampMs", "brokerId"),
    "RemoteLogSegmentMetadataSnapshot": (
        *("segmentId", "startOffset", "endOffset", "maxTimestampMs", "segmentLeaderEpochs"),
        *("segmentSizeInBytes", "customMetadata", "state", "txnIdxEmpty"),
    ),
}
"""The fields that kafka-dump-log prints, in its order (the classes' toString)."""

SEGMENT_STATES = (
    *("COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED", "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED"),
)
PARTITION_STATES = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")


def _parse_schemas() -> dict[int, Message]:
    notation = Notation(_TEXT)
    records: dict[int, Message] = {}
    while notation:
        records[len(records)] = notation.message(notation.next())
    return records


RECORDS = _parse_schemas()
"""The schemas of records by API key."""


def decode_remote_log_record(offset: int, key: bytes | None, value: bytes | None) -> tuple[None, str]:  # noqa: ARG001
    """Format the payload as kafka-dump-log --remote-log-metadata-decoder does. There are no keys."""
    try:
        name, data = read_remote_log_record(value or b"")
        return None, _format_fields(name, data, _FIELDS[name])
    except MessageError as error:
        return None, f"Error at offset {offset}, skipping. {error}"


def read_remote_log_record(value: bytes) -> tuple[str, dict[str, Any]]:
    """Return the name and the fields of a record of __remote_log_metadata.

    Raises:
        MessageError: the bytes are invalid, or the record or its version is unknown.
    """
    buffer = Buffer(value)
    api_key, version = read_frame(buffer)
    message = RECORDS.get(api_key)
    if message is None or version not in message.versions:
        raise MessageError(f"unknown remote log metadata record with id {api_key} of version {version}")
    return message.name, {"txnIdxEmpty": False, **read_message(message, version, buffer)}


def _format_fields(name: str, data: dict[str, Any], fields: Sequence[str]) -> str:
    states = PARTITION_STATES if name == "RemotePartitionDeleteMetadata" else SEGMENT_STATES
    if not 0 <= data["state"] < len(states):
        raise MessageError(f"unknown state {data['state']} of a {name}")
    texts: dict[str, Callable[[], str]] = {
        "remoteLogSegmentId": lambda: _format_segment(data["remoteLogSegmentId"]),
        "topicPartition": lambda: _format_partition(data["topicIdPartition"]),
        "segmentLeaderEpochs": lambda: _format_epochs(data["segmentLeaderEpochs"]),
        "customMetadata": lambda: _format_custom_metadata(data["customMetadata"]),
        "state": lambda: states[data["state"]],
        "txnIdxEmpty": lambda: "true" if data["txnIdxEmpty"] else "false",
    }
    values = (f"{field}={texts[field]() if field in texts else data[field]}" for field in fields)
    return f"{name}{{{', '.join(values)}}}"


def _format_segment(data: dict[str, Any]) -> str:
    partition = _format_partition(data["topicIdPartition"])
    return f"RemoteLogSegmentId{{topicIdPartition={partition}, id={data['id']}}}"


def _format_partition(data: dict[str, Any]) -> str:
    return f"{data['id']}:{data['name']}-{data['partition']}"


def _format_epochs(data: list[dict[str, int]]) -> str:
    offsets = {entry["leaderEpoch"]: entry["offset"] for entry in data}
    return f"{{{', '.join(f'{epoch}={offset}' for epoch, offset in sorted(offsets.items()))}}}"


def _format_custom_metadata(data: bytes | None) -> str:
    return "Optional.empty" if data is None else f"Optional[CustomMetadata{{{len(data)} bytes}}]"
