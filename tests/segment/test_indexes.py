"""The three indexes: parsing, lookups and health."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from native_log.segment.health import IndexHealth
from native_log.segment.offset_index import OffsetIndex
from native_log.segment.time_index import TimeIndex
from native_log.segment.transaction_index import AbortedTxn, TransactionIndex

if TYPE_CHECKING:
    from pathlib import Path

LOG_BYTES = 10_000


def offset_entries(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">ii", *entry) for entry in entries)


def time_entries(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">qi", *entry) for entry in entries)


VALID = offset_entries((9, 100), (19, 250), (40, 900))


@pytest.mark.parametrize(
    ("data", "health"),
    [
        (VALID, IndexHealth("ok", 3)),
        (b"", IndexHealth("empty", 0)),
        (None, IndexHealth("missing", 0)),
        (VALID + bytes(800), IndexHealth("zero-filled", 3)),
        (VALID + bytes(8), IndexHealth("zero-filled", 3)),
        (bytes(10485760), IndexHealth("zero-filled", 0)),
        (VALID + bytes(803), IndexHealth("zero-filled", 3)),
        (VALID[:-3], IndexHealth("torn", 2)),
        (VALID + b"\0\0\1", IndexHealth("torn", 3)),
        (offset_entries((9, 0)), IndexHealth("corrupt", 0)),  # the first batch never gets an entry
        (offset_entries((9, 100), (9, 200)), IndexHealth("corrupt", 1)),
        (offset_entries((9, 100), (10, 100)), IndexHealth("corrupt", 1)),
        (offset_entries((9, 100), (10, 99)), IndexHealth("corrupt", 1)),
        (offset_entries((9, 100), (10, LOG_BYTES)), IndexHealth("corrupt", 1)),
        (offset_entries((-1, 100)), IndexHealth("corrupt", 0)),
        (VALID + bytes(8) + VALID, IndexHealth("corrupt", 3)),
    ],
)
def test_offset_index_health(tmp_path: Path, data: bytes | None, health: IndexHealth) -> None:
    path = tmp_path / "0.index"
    if data is not None:
        path.write_bytes(data)
    assert OffsetIndex.load(str(path), 0).health(LOG_BYTES) == health


def test_an_index_without_a_name_is_missing() -> None:
    assert OffsetIndex.load(None, 0).health(LOG_BYTES).status == "missing"
    assert TimeIndex.load(None, 0).health().status == "missing"
    assert TransactionIndex.load(None, 0).health.status == "missing"


@pytest.mark.parametrize("tail", [b"", bytes(8), bytes(10485760 - len(VALID)), b"\0\0\0"])
def test_offset_index_lookup(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "0.index"
    path.write_bytes(VALID + tail)
    index = OffsetIndex.load(str(path), 2**53)
    assert [index.floor(2**53 + o) for o in (0, 8, 9, 10, 18, 19, 39, 40, 2**31)] == [
        -1,
        -1,
        0,
        0,
        0,
        1,
        1,
        2,
        2,
    ]
    assert [index.floor_of_position(p) for p in (0, 99, 100, 899, 900, 9999)] == [-1, -1, 0, 1, 2, 2]
    assert index.entry(1) == (2**53 + 19, 250)


TIMES = time_entries((0, 5), (1000, 5), (1500, 30))


@pytest.mark.parametrize(
    ("data", "health"),
    [
        (TIMES, IndexHealth("ok", 3)),
        (b"", IndexHealth("empty", 0)),
        (None, IndexHealth("missing", 0)),
        (TIMES + bytes(1200), IndexHealth("zero-filled", 3)),
        (bytes(10485756), IndexHealth("zero-filled", 0)),
        (TIMES[:-5], IndexHealth("torn", 2)),
        (time_entries((5, 9), (5, 10)), IndexHealth("corrupt", 1)),
        (time_entries((5, 9), (6, 8)), IndexHealth("corrupt", 1)),
        (time_entries((-2, 9)), IndexHealth("corrupt", 0)),
    ],
)
def test_time_index_health(tmp_path: Path, data: bytes | None, health: IndexHealth) -> None:
    path = tmp_path / "0.timeindex"
    if data is not None:
        path.write_bytes(data)
    assert TimeIndex.load(str(path), 0).health() == health


def test_time_index_lookup(tmp_path: Path) -> None:
    path = tmp_path / "0.timeindex"
    path.write_bytes(TIMES + bytes(120))
    index = TimeIndex.load(str(path), 100)
    assert [index.below(t) for t in (-1, 0, 1, 1000, 1001, 1500, 1501)] == [-1, -1, 0, 0, 1, 1, 2]
    assert index.entry(2) == (1500, 130)


# producer 7, from offset 10 to the marker at 42
ENTRY = bytes.fromhex("00000000000000000007000000000000000a000000000000002a000000000000002b")
NEXT = struct.pack(">hqqqq", 0, 8, 20, 50, 51)


@pytest.mark.parametrize(
    ("data", "health"),
    [
        (ENTRY, IndexHealth("ok", 1)),
        (ENTRY + NEXT, IndexHealth("ok", 2)),
        (b"", IndexHealth("empty", 0)),
        (ENTRY + NEXT[:-1], IndexHealth("torn", 1)),
        (NEXT + ENTRY, IndexHealth("corrupt", 1)),
        (b"\0\1" + ENTRY[2:], IndexHealth("corrupt", 0)),
    ],
)
def test_transaction_index(tmp_path: Path, data: bytes, health: IndexHealth) -> None:
    path = tmp_path / "0.txnindex"
    path.write_bytes(data)
    index = TransactionIndex.load(str(path), 0)
    assert index.health == health
    assert index.entries == (AbortedTxn(7, 10, 42, 43), AbortedTxn(8, 20, 50, 51))[: health.entries] or (
        data.startswith(NEXT) and index.entries == (AbortedTxn(8, 20, 50, 51),)
    )
