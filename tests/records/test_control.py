"""Markers that end transactions."""

from __future__ import annotations

from typing import Any

import pytest

from native_log.records import encode_marker
from tests.builders.batches import ABORT, COMMIT, T0, marker

HOW: dict[str, Any] = {
    "offset": 42,
    "producer_id": 7,
    "producer_epoch": 3,
    "coordinator_epoch": 5,
    "timestamp_ms": T0,
}
HEADER = "000000000000002a000000420000000002"
COMMITTED = (
    "f16784c100300000000000000174876e800000000174876e800000000000000000070003ffffffff00000001"
    "2000000008000000010c00000000000500"
)
ABORTED = (
    "0559528900300000000000000174876e800000000174876e800000000000000000070003ffffffff00000001"
    "2000000008000000000c00000000000500"
)


def test_known_markers() -> None:
    assert encode_marker(commit=True, leader_epoch=0, **HOW).hex() == HEADER + COMMITTED
    assert encode_marker(commit=False, leader_epoch=0, **HOW).hex() == HEADER + ABORTED


@pytest.mark.parametrize(("commit", "kind", "name"), [(True, COMMIT, 1), (False, ABORT, 0)])
def test_markers_are_read_as_such(impl, commit: bool, kind: int, name: int) -> None:
    data = encode_marker(commit=commit, leader_epoch=0, **HOW)
    assert data == marker(42, 7, kind, epoch=3)
    (row,) = impl.scan(data, check_crcs=True).batches.to_pylist()
    assert (row["isControl"], row["isTransactional"], row["controlType"], row["isValid"]) == (
        True,
        True,
        name,
        True,
    )
    assert (row["lastOffset"], row["producerId"], row["producerEpoch"], row["maxTimestamp"]) == (42, 7, 3, T0)


@pytest.mark.parametrize("name", ["offset", "producer_id", "producer_epoch", "timestamp_ms"])
def test_markers_out_of_range(name: str) -> None:
    with pytest.raises(ValueError, match=f"expected {name} from 0"):
        encode_marker(commit=True, **{**HOW, name: -1})
