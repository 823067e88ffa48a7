"""What control records say, as kafka-dump-log prints it (Kafka: ControlRecordType, EndTransactionMarker)."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_MARKERS = {0: "ABORT", 1: "COMMIT"}
_NAMES = {
    2: "LEADER_CHANGE",
    3: "SNAPSHOT_HEADER",
    4: "SNAPSHOT_FOOTER",
    5: "KRAFT_VERSION",
    6: "KRAFT_VOTERS",
}


def control_text(key: bytes | None, value: bytes | None) -> str:
    """`endTxnMarker: COMMIT coordinatorEpoch: 0`, or what the Raft quorum notes in its log."""
    (kind,) = struct.unpack_from(">h", key or b"", 2) if len(key or b"") >= 4 else (-1,)
    if kind in _MARKERS and value is not None and len(value) >= 6:
        (epoch,) = struct.unpack_from(">i", value, 2)
        return f"endTxnMarker: {_MARKERS[kind]} coordinatorEpoch: {epoch}"
    if kind in _MESSAGES and value is not None and value[:2] == b"\0\0":  # version 0 is what is known
        name, parse = _MESSAGES[kind]
        return f"{name} {json.dumps(parse(value), separators=(',', ':'))}"
    return f"controlType: {_NAMES.get(kind, 'UNKNOWN')}({kind})"


def _leader_change(value: bytes) -> dict[str, Any]:
    version, leader_id = struct.unpack_from(">hi", value)
    voters, at = _voters(value, 6)
    granting, _ = _voters(value, at)
    return {"version": version, "leaderId": leader_id, "voters": voters, "grantingVoters": granting}


def _voters(value: bytes, at: int) -> tuple[list[dict[str, int]], int]:
    """A compact array: its length + 1, then a voter's id and its tagged fields (none in version 0)."""
    count = value[at] - 1
    ids = [struct.unpack_from(">i", value, at + 1 + 5 * i)[0] for i in range(count)]
    return [{"voterId": one} for one in ids], at + 1 + 5 * count


def _snapshot_header(value: bytes) -> dict[str, Any]:
    version, time_ms = struct.unpack_from(">hq", value)
    return {"version": version, "lastContainedLogTimestamp": time_ms}


def _snapshot_footer(value: bytes) -> dict[str, Any]:
    return {"version": struct.unpack_from(">h", value)[0]}


def _kraft_version(value: bytes) -> dict[str, Any]:
    version, level = struct.unpack_from(">hh", value)
    return {"version": version, "kRaftVersion": level}


_MESSAGES: dict[int, tuple[str, Callable[[bytes], dict[str, Any]]]] = {
    2: ("LeaderChange:", _leader_change),
    3: ("SnapshotHeader", _snapshot_header),
    4: ("SnapshotFooter", _snapshot_footer),
    5: ("KRaftVersion", _kraft_version),
}
