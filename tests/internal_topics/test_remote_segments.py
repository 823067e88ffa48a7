"""Which segments are in remote storage, from the records of __remote_log_metadata."""

from __future__ import annotations

import pytest

from native_log.internal_topics.remote_segments import RemotePartition, RemoteSegments
from native_log.messages.reading import MessageError
from native_log.messages.remote_log import RECORDS, SEGMENT_STATES
from tests.builders.messages import encode

TOPIC_ID, SEGMENT, OTHER = ("A" * 20 + tail for tail in ("Ag", "Aw", "BA"))
STARTED, COPIED, DELETING, DELETED = range(len(SEGMENT_STATES))
PARTITION = RemotePartition("t", 1, TOPIC_ID)
IDS = {"topicIdPartition": {"name": "t", "id": TOPIC_ID, "partition": 1}}


OTHER_PARTITION = RemotePartition("t", 2, TOPIC_ID)
OTHER_IDS = {"topicIdPartition": {"name": "t", "id": TOPIC_ID, "partition": 2}}


def record(kind: int, **values: object) -> bytes:
    return bytes([1, kind, 0]) + encode(RECORDS[kind], 0, values)


def copy(start: int, segment: str = SEGMENT) -> bytes:
    return record(0, remoteLogSegmentId={**IDS, "id": segment}, startOffset=start, state=STARTED)


def update(state: int, segment: str = SEGMENT) -> bytes:
    return record(1, remoteLogSegmentId={**IDS, "id": segment}, state=state)


def delete_partition(state: int) -> bytes:
    return record(2, **IDS, state=state)


@pytest.mark.parametrize(
    ("records", "start"),
    [
        ([], None),
        ([copy(5)], None),
        ([copy(5), update(COPIED)], 5),
        ([copy(5), update(COPIED), copy(0, OTHER)], 5),
        ([copy(5), update(COPIED), copy(0, OTHER), update(COPIED, OTHER)], 0),
        ([copy(5), update(COPIED), update(DELETING)], None),
        ([copy(5), update(COPIED), update(DELETING), update(DELETED)], None),
        ([copy(5), update(COPIED), update(DELETED), copy(9, OTHER), update(COPIED, OTHER)], 9),
        ([copy(5), update(COPIED), delete_partition(0)], None),
        ([update(COPIED)], None),
    ],
)
def test_the_first_offset_in_remote_storage(records: list[bytes], start: int | None) -> None:
    segments = RemoteSegments()
    for value in records:
        segments.apply(value)
    assert segments.start_offsets() == ({} if start is None else {PARTITION: start})


def test_an_update_whose_first_record_is_gone_is_ignored() -> None:
    segments = RemoteSegments()
    segments.apply(update(DELETED))
    segments.apply(update(COPIED))
    assert segments.start_offsets() == {}


def test_each_partition_has_its_own_segments() -> None:
    other = {"remoteLogSegmentId": {**OTHER_IDS, "id": SEGMENT}}
    segments = RemoteSegments()
    for value in (
        *(copy(5), update(COPIED)),
        *(record(0, **other, startOffset=7, state=STARTED), record(1, **other, state=COPIED)),
        update(DELETED),
    ):
        segments.apply(value)
    assert segments.start_offsets() == {OTHER_PARTITION: 7}


def test_an_unknown_record_is_an_error() -> None:
    with pytest.raises(MessageError, match="id 9 of version 0"):
        RemoteSegments().apply(bytes([1, 9, 0]))
