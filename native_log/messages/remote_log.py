"""Records of __remote_log_metadata, up to Kafka 4.1 (Kafka: RemoteLogMetadataSerde)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from native_log.messages.reading import Buffer, MessageError, framed, read_message
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

_SHOWN_OF_SEGMENT = (
    *("remoteLogSegmentId", "startOffset", "endOffset", "brokerId", "maxTimestampMs", "eventTimestampMs"),
    *("segmentLeaderEpochs", "segmentSizeInBytes", "customMetadata", "state", "txnIdxEmpty"),
)
_SHOWN = {
    "RemoteLogSegmentMetadata": _SHOWN_OF_SEGMENT,
    "RemoteLogSegmentMetadataUpdate": (
        *("remoteLogSegmentId", "customMetadata", "state", "eventTimestampMs", "brokerId"),
    ),
    "RemotePartitionDeleteMetadata": ("topicPartition", "state", "eventTimestampMs", "brokerId"),
    "RemoteLogSegmentMetadataSnapshot": (
        *("segmentId", "startOffset", "endOffset", "maxTimestampMs", "segmentLeaderEpochs"),
        *("segmentSizeInBytes", "customMetadata", "state", "txnIdxEmpty"),
    ),
}
"""What the tool prints of each, in its order: the classes' toString."""

SEGMENT_STATES = (
    *("COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED", "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED"),
)
PARTITION_STATES = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")


def _records() -> dict[int, Message]:
    notation = Notation(_TEXT)
    records: dict[int, Message] = {}
    while notation:
        records[len(records)] = notation.message(notation.next())
    return records


RECORDS = _records()
"""By api key."""


def decode_remote_log_record(offset: int, key: bytes | None, value: bytes | None) -> tuple[None, str]:
    """The payload as kafka-dump-log --remote-log-metadata-decoder prints it; there are no keys."""
    try:
        return None, _decoded(Buffer(value or b""))
    except MessageError as error:
        return None, f"Error at offset {offset}, skipping. {error}"


def _decoded(buffer: Buffer) -> str:
    api_key, version = framed(buffer)
    message = RECORDS.get(api_key)
    if message is None or version not in message.versions:
        raise MessageError(f"unknown remote log metadata record with id {api_key} of version {version}")
    data = {"txnIdxEmpty": False, **read_message(message, version, buffer)}
    return _shown(message.name, data, _SHOWN[message.name])


def _shown(name: str, data: dict[str, Any], fields: Sequence[str]) -> str:
    states = PARTITION_STATES if name == "RemotePartitionDeleteMetadata" else SEGMENT_STATES
    if not 0 <= data["state"] < len(states):
        raise MessageError(f"unknown state {data['state']} of a {name}")
    texts: dict[str, Callable[[], str]] = {
        "remoteLogSegmentId": lambda: _segment(data["remoteLogSegmentId"]),
        "topicPartition": lambda: _partition(data["topicIdPartition"]),
        "segmentLeaderEpochs": lambda: _epochs(data["segmentLeaderEpochs"]),
        "customMetadata": lambda: _custom(data["customMetadata"]),
        "state": lambda: states[data["state"]],
        "txnIdxEmpty": lambda: "true" if data["txnIdxEmpty"] else "false",
    }
    return f"{name}{{{', '.join(f'{one}={texts[one]() if one in texts else data[one]}' for one in fields)}}}"


def _segment(data: dict[str, Any]) -> str:
    return f"RemoteLogSegmentId{{topicIdPartition={_partition(data['topicIdPartition'])}, id={data['id']}}}"


def _partition(data: dict[str, Any]) -> str:
    return f"{data['id']}:{data['name']}-{data['partition']}"


def _epochs(data: list[dict[str, int]]) -> str:
    offsets = {one["leaderEpoch"]: one["offset"] for one in data}
    return f"{{{', '.join(f'{epoch}={offset}' for epoch, offset in sorted(offsets.items()))}}}"


def _custom(data: bytes | None) -> str:
    return "Optional.empty" if data is None else f"Optional[CustomMetadata{{{len(data)} bytes}}]"
