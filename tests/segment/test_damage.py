"""Where a search behind damaged bytes ends, and what it reads."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from native_log.records import OffsetOrder
from native_log.segment import damage
from native_log.storage import DataFile
from tests.records.build import Rec, v2

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

FIELDS = struct.pack(">hiqqqhii", 0, 0, 0, 0, -1, -1, -1, 0)


def claiming(size: int, offset: int = 7) -> bytes:
    """A plausible header of a batch of `size` bytes with a wrong checksum."""
    return struct.pack(">qiibI", offset, size - 12, 0, 2, 1) + FIELDS


def test_reading_is_bounded_where_many_headers_claim_large_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(damage, "SEARCH_BYTES", 4096)
    small = v2([Rec()], 9)
    lies = b""
    while len(lies) < 128 << 10:
        lies += claiming((128 << 10) - len(lies))
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(lies + small)
    checked = []
    check = damage.valid_batch_at

    def counting(file, position, end, window, **how):
        checked.append(int.from_bytes(file.read(position + 8, 4), "big"))
        return check(file, position, end, window, **how)

    monkeypatch.setattr(damage, "valid_batch_at", counting)
    with DataFile(str(path)) as file:
        order = OffsetOrder(0, 2**63 - 1, file.fileno())
        found = damage.find_next_batch(file, 0, file.size_bytes, order, 1 << 20)
    assert found == len(lies)
    assert sum(checked) < 10 * len(lies)


def test_a_batch_larger_than_the_window_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(damage, "SEARCH_BYTES", 4096)
    garbage = claiming(50_000) * 3 + b"\xff" * 100
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(garbage + v2([Rec(None, b"v" * 20_000)], 9) + bytes(60_000))
    with DataFile(str(path)) as file:
        order = OffsetOrder(0, 2**63 - 1, file.fileno())
        assert damage.find_next_batch(file, 0, file.size_bytes, order, 1 << 20) == len(garbage)
