"""The search for the next batch after damaged bytes: where it ends, and how much it reads."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from native_log import LogDir
from native_log.records import Damage, OffsetOrder
from native_log.segment import damage, search
from native_log.segment.rebuild import read_all_batches
from native_log.segment.search import BatchSearch, ValidBatch
from native_log.storage import DataFile
from tests.builders.batches import Rec, v2
from tests.builders.legacy import message

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FIELDS = struct.pack(">hiqqqhii", 0, 0, 0, 0, -1, -1, -1, 0)


def claiming(size: int, offset: int = 7) -> bytes:
    """Return a plausible header of a batch of `size` bytes with a wrong CRC."""
    return struct.pack(">qiibI", offset, size - 12, 0, 2, 1) + FIELDS


class CountingFile(DataFile):
    """A file that counts the bytes that are read from it."""

    __slots__ = ("bytes_read",)

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.bytes_read = 0

    def read_into(self, buffer: memoryview, position: int) -> None:
        self.bytes_read += len(buffer)
        super().read_into(buffer, position)


def counting_file(directory: Path, data: bytes) -> CountingFile:
    path = directory / f"{0:020}.log"
    path.write_bytes(data)
    return CountingFile(str(path))


def search_in(file: CountingFile, max_batch_bytes: int = 1 << 20) -> BatchSearch:
    return BatchSearch(file, file.size_bytes, max_batch_bytes)


def any_order(file: DataFile) -> OffsetOrder:
    return OffsetOrder(0, 2**63 - 1, file.fileno())


def test_bytes_are_read_once_where_many_headers_claim_large_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "NEAR_BYTES", 1024)
    monkeypatch.setattr(search, "SEARCH_BYTES", 4096)
    headers = b""
    while len(headers) < 512 << 10:
        headers += claiming((512 << 10) - len(headers)) + b"\xff" * 2000
    with counting_file(tmp_path, headers + v2([Rec()], 9)) as file:
        found = search_in(file).find(0, any_order(file))
        assert found == ValidBatch(len(headers), len(v2([Rec()], 9)), 9)
        # The file twice, and some KiB for each claim.
        assert file.bytes_read < 2 * len(headers) + headers.count(FIELDS) * (20 << 10)


@pytest.mark.parametrize("kind", ["v2", "v1"])
def test_a_batch_larger_than_the_window_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(search, "NEAR_BYTES", 1024)
    monkeypatch.setattr(search, "SEARCH_BYTES", 4096)
    garbage = claiming(50_000) * 3 + b"\xff" * 100
    value = b"v" * 20_000
    batch = v2([Rec(None, value)], 9) if kind == "v2" else message(1, 9, value=value)
    with counting_file(tmp_path, garbage + batch + bytes(60_000)) as file:
        found = search_in(file).find(0, any_order(file))
    assert found == ValidBatch(len(garbage), len(batch), 9)


def test_wrappers_that_cannot_be_read_are_searched_once(tmp_path: Path) -> None:
    """Their CRCs are valid, so nothing within them is a batch of the log, and each byte is read once."""
    inner = b"\xff" * 100
    for _ in range(100):
        inner = message(1, 9, attributes=1, value=inner + b"\xff" * 500)
    with counting_file(tmp_path, inner + v2([Rec()], 9)) as file:
        found = search_in(file).find(0, any_order(file))
        assert found is not None
        assert found.position == len(inner)
        assert file.bytes_read < 10 * len(inner)


PAIRS = 300


def pairs(claims: Callable[[int], bytes]) -> bytes:
    """Return pairs of a valid batch and a claim. `claims` takes the bytes from a claim to the end."""
    size = PAIRS * (len(v2([Rec()])) + len(claims(1 << 20)))
    data = b""
    for offset in range(PAIRS):
        data += v2([Rec()], offset)
        data += claims(size - len(data))
    return data


@pytest.mark.parametrize(
    "claims",
    [
        lambda left: claiming(left, 2**30),
        lambda left: claiming(left // 2),
        lambda left: claiming(left + 1, 2**30),
        lambda left: claiming(max(61, left), 2**30) + b"\xff" * 300,
        lambda left: claiming(max(61, left), 2**30)[:21] + b"\0\1" + FIELDS[2:],
        lambda left: struct.pack(">qiIbbqii", 2**30, left - 12, 1, 1, 0, 0, -1, max(0, left - 34)),
        lambda left: struct.pack(">qiIbbqii", 2**30, left - 12, 1, 1, 1, 0, -1, max(0, left - 34)),
    ],
    ids=["to the end", "to the middle", "beyond the end", "apart", "compressed", "v1", "wrapper"],
)
def test_all_batches_between_claims_are_read(tmp_path: Path, claims: Callable[[int], bytes]) -> None:
    (tmp_path / "t-0").mkdir()
    data = pairs(claims)
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(data)
    with LogDir(tmp_path) as logs:
        log = logs.partition("t", 0)
        ranges: list[damage.DamagedRange] = []
        table = log.read(columns=["offset"], mode="dropMalformed", on_damage=ranges.append).read_all()
        assert log.log_end_offset == PAIRS
        parts = list(read_all_batches(log.segments[0]))
    assert table.column(0).to_pylist() == list(range(PAIRS))
    valid = [part.batches.num_rows for part in parts if not isinstance(part, damage.DamagedRange)]
    assert sum(valid) == PAIRS
    end = data.rindex(v2([Rec()], PAIRS - 1)) + len(v2([Rec()]))
    damaged = sum(each.end_position - each.position for each in ranges if each.position < end)
    assert damaged == end - PAIRS * len(v2([Rec()]))


def test_a_wrong_size_that_leads_to_a_later_batch(tmp_path: Path) -> None:
    """The batches before that one are not lost: their offsets are missing between the two."""
    batches = [v2([Rec()], offset) for offset in range(6)]
    size = len(batches[0])
    batches[2] = v2([Rec()], 2, size=3 * size - 12)
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(b"".join(batches))
    with LogDir(tmp_path) as logs:
        table = logs.partition("t", 0).read(columns=["offset"], mode="dropMalformed").read_all()
    assert table.column(0).to_pylist() == [0, 1, 3, 4, 5]


def test_unchecked_batches_have_a_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers may ignore a wrong CRC, but not of so many bytes that the time is out of proportion."""
    monkeypatch.setattr(search, "_UNCHECKED_FACTOR", 2)
    data = v2([Rec(None, b"v" * 70_000)], 1, crc=5)
    with counting_file(tmp_path, data) as file:
        claims = search_in(file)
        assert [claims.reject(0, check_crcs=False) for _ in range(2)] == [None, None]
        rejected = claims.reject(0, check_crcs=False)
        checked = claims.reject(0, check_crcs=True)
    assert rejected is not None
    assert "were not examined" in rejected.message
    assert checked is not None
    assert "examined" not in checked.message


def nested(levels: int, inner: bytes) -> bytes:
    """Return a batch with a valid CRC that has, instead of records, another such batch, or `inner`."""
    for _ in range(levels):
        inner = v2([], 7, records=inner, record_count=1, last_offset_delta=0)
    return inner


def count_searched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list of the number of bytes that each later call of `find_batch` searches."""
    searched: list[int] = []
    find = search.find_batch

    def counting(view, *args, **how):
        searched.append(len(view))
        return find(view, *args, **how)

    monkeypatch.setattr(search, "find_batch", counting)
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
    with counting_file(tmp_path, bytes(outer)) as file:
        wrong = Damage("crc", 0, len(outer), 7, "a wrong checksum")
        assert damage.damaged_range(search_in(file), wrong, any_order(file), 7).end_position == 61


def test_a_log_with_much_damage_is_searched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each search ends at the next damage, and does not read as far as it may."""
    monkeypatch.setattr(search, "NEAR_BYTES", 1024)
    bad = v2([], 7, records=b"no record", record_count=1, last_offset_delta=0) + b"\xff" * 50
    with counting_file(tmp_path, bad * 500) as file:
        claims, position, ranges = search_in(file), 0, 0
        while position < file.size_bytes:
            wrong = Damage("records", position, len(bad) - 50, 7, "no records")
            position = damage.damaged_range(claims, wrong, any_order(file), 7).end_position
            ranges += 1
        assert ranges == 500
        assert file.bytes_read < 500 * 1024
