"""Format control records as kafka-dump-log does (Kafka: ControlRecordType, EndTransactionMarker)."""

from __future__ import annotations

import struct

from native_log.messages.java_text import json_text
from native_log.messages.reading import Buffer, MessageError, read_message
from native_log.messages.schema import Notation

_MARKERS = {0: "ABORT", 1: "COMMIT"}
_NAMES = {
    2: "LEADER_CHANGE",
    3: "SNAPSHOT_HEADER",
    4: "SNAPSHOT_FOOTER",
    5: "KRAFT_VERSION",
    6: "KRAFT_VOTERS",
}
MESSAGES = {
    kind: (label, Notation(text).message(label))
    for kind, label, text in (
        (2, "LeaderChange:", """0-1 flexible 0+ {version int16, leaderId int32,
            voters []{voterId int32, voterDirectoryId uuid 1+},
            grantingVoters []{voterId int32, voterDirectoryId uuid 1+}}"""),
        (3, "SnapshotHeader", "0 flexible 0+ {version int16, lastContainedLogTimestamp int64}"),
        (4, "SnapshotFooter", "0 flexible 0+ {version int16}"),
        (5, "KRaftVersion", "0 flexible 0+ {version int16, kRaftVersion int16}"),
        (6, "KRaftVoters", """0 flexible 0+ {version int16, voters []{voterId int32, voterDirectoryId uuid,
            endpoints []{name string, host string, port uint16},
            kRaftVersionFeature {minSupportedVersion int16, maxSupportedVersion int16}}}"""),
    )
}  # fmt: skip
"""Control records of the Raft quorum by type: the label that is printed before the record, and its schema."""


def format_control_record(key: bytes | None, value: bytes | None) -> str:
    """Format a control record, for example as `endTxnMarker: COMMIT coordinatorEpoch: 0`."""
    (kind,) = struct.unpack_from(">h", key or b"", 2) if len(key or b"") >= 4 else (-1,)
    if kind in _MARKERS and value is not None and len(value) >= 6:
        (epoch,) = struct.unpack_from(">i", value, 2)
        return f"endTxnMarker: {_MARKERS[kind]} coordinatorEpoch: {epoch}"
    if kind in MESSAGES and value is not None:
        label, message = MESSAGES[kind]
        try:
            # The first field is the version. Read an unknown newer version as the newest known one.
            version = min(Buffer(value).number("int16"), message.versions.last or 0)
            return f"{label} {json_text(read_message(message, version, Buffer(value)))}"
        except MessageError:
            pass
    return f"controlType: {_NAMES.get(kind, 'UNKNOWN')}({kind})"
