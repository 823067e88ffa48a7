"""The search for the next batch after damaged bytes: where it ends, and how much it reads."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from native_log import LogDir
from native_log.records import Damage, OffsetOrder
from native_log.segment import damage
from native_log.storage import DataFile
from tests.records.build import Rec, v2

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

FIELDS = struct.pack(">hiqqqhii", 0, 0, 0, 0, -1, -1, -1, 0)


def claiming(size: int, offset: int = 7) -> bytes:
    """Return a plausible header of a batch of `size` bytes with a wrong CRC."""
    return struct.pack(">qiibI", offset, size - 12, 0, 2, 1) + FIELDS


def test_reading_is_bounded_where_many_headers_claim_large_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(damage, "NEAR_BYTES", 1024)
    monkeypatch.setattr(damage, "SEARCH_BYTES", 4096)
    small = v2([Rec()], 9)
    headers = b""
    while len(headers) < 128 << 10:
        headers += claiming((128 << 10) - len(headers))
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(headers + small)
    checked = []
    check = damage.valid_batch_at

    def counting(file, position, end, window, **how):
        checked.append(int.from_bytes(file.read(position + 8, 4), "big"))
        return check(file, position, end, window, **how)

    monkeypatch.setattr(damage, "valid_batch_at", counting)
    with DataFile(str(path)) as file:
        order = OffsetOrder(0, 2**63 - 1, file.fileno())
        next_batch = damage.find_next_batch(file, 0, file.size_bytes, order, 1 << 20)
    assert next_batch == len(headers)
    assert sum(checked) < 10 * len(headers)


def test_a_batch_larger_than_the_window_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(damage, "NEAR_BYTES", 1024)
    monkeypatch.setattr(damage, "SEARCH_BYTES", 4096)
    garbage = claiming(50_000) * 3 + b"\xff" * 100
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(garbage + v2([Rec(None, b"v" * 20_000)], 9) + bytes(60_000))
    with DataFile(str(path)) as file:
        order = OffsetOrder(0, 2**63 - 1, file.fileno())
        assert damage.find_next_batch(file, 0, file.size_bytes, order, 1 << 20) == len(garbage)


def nested(levels: int, inner: bytes) -> bytes:
    """Return a batch with a valid CRC that has, instead of records, another such batch, or `inner`."""
    for _ in range(levels):
        inner = v2([], 7, records=inner, record_count=1, last_offset_delta=0)
    return inner


def count_searched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list of the number of bytes that each later call of `find_batch` searches."""
    searched: list[int] = []
    search = damage.find_batch

    def counting(view, *args, **how):
        searched.append(len(view))
        return search(view, *args, **how)

    monkeypatch.setattr(damage, "find_batch", counting)
    return searched


def test_a_batch_with_a_valid_crc_is_not_searched_for_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker treats it as a batch, too: only its own CRC counts."""
    searched = count_searched(monkeypatch)
    outer = nested(50, v2([Rec()], 7))
    for gap in (b"", b"\xff" * 100):
        directory = tmp_path / f"t-{len(gap)}"
        directory.mkdir()
        (directory / f"{0:020}.log").write_bytes(v2([Rec()], 6) + outer + gap + v2([Rec()], 8))
        with LogDir(tmp_path) as logs:
            log = logs.partition("t", len(gap))
            ranges: list[damage.DamagedRange] = []
            table = log.read(columns=["offset"], mode="dropMalformed", on_damage=ranges.append).read_all()
        assert table.column(0).to_pylist() == [6, 8]
        begins = len(v2([Rec()], 6))
        damaged = [(each.position, each.end_position, each.kind) for each in ranges]
        assert damaged == [(begins, begins + len(outer) + len(gap), "records")]
    assert sum(searched) < 2 * len(outer)


def test_a_batch_with_a_wrong_crc_is_searched_for_batches(tmp_path: Path) -> None:
    """Its size may be wrong, so batches within may be batches of the log."""
    outer = bytearray(nested(1, v2([Rec()], 7)))
    outer[17] ^= 1
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(bytes(outer))
    with DataFile(str(path)) as file:
        order = OffsetOrder(0, 2**63 - 1, file.fileno())
        wrong = Damage("crc", 0, len(outer), 7, "a wrong checksum")
        assert damage.damaged_range(file, wrong, len(outer), order, 7, 1 << 20).end_position == 61


def test_a_log_with_much_damage_is_searched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each search ends at the next damage, and does not read as far as it may."""
    monkeypatch.setattr(damage, "NEAR_BYTES", 1024)
    searched = count_searched(monkeypatch)
    bad = v2([], 7, records=b"no record", record_count=1, last_offset_delta=0) + b"\xff" * 50
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(bad * 500)
    with DataFile(str(path)) as file:
        order, position, ranges = OffsetOrder(0, 2**63 - 1, file.fileno()), 0, 0
        while position < file.size_bytes:
            wrong = Damage("records", position, len(bad) - 50, 7, "no records")
            position = damage.damaged_range(file, wrong, file.size_bytes, order, 7, 1 << 20).end_position
            ranges += 1
    assert ranges == 500
    assert sum(searched) < 500 * 1024 + 1
