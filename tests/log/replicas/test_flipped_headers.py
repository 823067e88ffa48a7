"""One changed bit in the header of a batch of one copy: intact copies win, or the damage is reported.

No checksum covers the base offset, the size and the leader epoch of a batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import native_log
from native_log import CorruptRecordError, LogDir
from native_log.segment.files import file_name
from tests.builders.copies import RECORDS, batches, rows, rows_of, write_copy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.builders.copies import Batch

WHOLE = batches(0, 4)
SIZE = len(WHOLE[0].data)
OFFSET_BITS = range(64)
"""The bits of a batch that are its base offset."""
HEADER_BITS = range(61 * 8)


def flipped(batch: int, bit: int) -> bytes:
    """Return the log with one changed bit, which is counted from the lowest one of the batch's first byte."""
    data = bytearray(b"".join(each.data for each in WHOLE))
    data[batch * SIZE + bit // 8] ^= 1 << bit % 8
    return bytes(data)


def raising_bits(batch: int) -> Iterator[int]:
    """Return the bits of a base offset that are not set, without the sign."""
    offset = WHOLE[batch].offset.to_bytes(8, "big")
    return (bit for bit in OFFSET_BITS if bit != 7 and not offset[bit // 8] >> bit % 8 & 1)


def read(directories: list[Path], mode: str = "failFast") -> list[tuple[int, bytes]]:
    return rows(LogDir(directories, replicas="merge").partition("t", 0).read(mode=mode))


@pytest.mark.parametrize("batch", range(len(WHOLE)))
def test_a_changed_bit_in_one_of_two_copies_is_repaired(batch: int, tmp_path: Path) -> None:
    log = write_copy(tmp_path / "a", WHOLE) / file_name(0, "log")
    write_copy(tmp_path / "b", WHOLE)
    for bit in HEADER_BITS:
        log.write_bytes(flipped(batch, bit))
        directories = [tmp_path / "a", tmp_path / "b"]
        assert read(directories) == rows_of(WHOLE), bit
        if bit in OFFSET_BITS:
            assert read(directories[::-1]) == rows_of(WHOLE), bit


@pytest.mark.parametrize("position", range(3))
def test_a_raised_last_offset_in_one_of_three_copies_is_repaired(position: int, tmp_path: Path) -> None:
    """The other copies are an intact one, and one that lacks the end."""
    log = write_copy(tmp_path / "a", WHOLE) / file_name(0, "log")
    directories = [write_copy(tmp_path / name, WHOLE[: 4 - lag]).parent for lag, name in enumerate("bc")]
    directories.insert(position, tmp_path / "a")
    for bit in raising_bits(3):
        log.write_bytes(flipped(3, bit))
        assert read(directories) == rows_of(WHOLE), bit
        assert LogDir(directories).partition("t", 0).path.parent == tmp_path / "b", bit


@pytest.mark.parametrize("missing", [1, 2, 3])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_raised_last_offset_is_reported_if_no_copy_has_the_batch(
    missing: int, is_first: bool, tmp_path: Path
) -> None:
    log = write_copy(tmp_path / "a", WHOLE) / file_name(0, "log")
    write_copy(tmp_path / "b", WHOLE[:-missing])
    directories = [tmp_path / "a", tmp_path / "b"][:: 1 if is_first else -1]
    for bit in raising_bits(3):
        log.write_bytes(flipped(3, bit))
        with pytest.raises(CorruptRecordError) as raised:
            read(directories)
        assert (raised.value.path, raised.value.position) == (str(log), 3 * SIZE), bit
        assert raised.value.offset == 3 * RECORDS
        assert read(directories, "dropMalformed") == rows_of(WHOLE[:3]), bit


def test_a_longer_copy_contributes_its_records(tmp_path: Path) -> None:
    """Those of a leader that failed before its followers had them."""
    write_copy(tmp_path / "a", WHOLE)
    write_copy(tmp_path / "b", WHOLE[:2])
    assert read([tmp_path / "b", tmp_path / "a"]) == rows_of(WHOLE)


AFTER_A_GAP = [*WHOLE[:2], WHOLE[3]]
"""The log of a follower that has copied a compacted log."""


@pytest.mark.parametrize(
    ("other", "high_watermark"),
    [(AFTER_A_GAP, None), (WHOLE, None), (WHOLE[:2], WHOLE[3].offset + RECORDS)],
    ids=["the same batch", "the same batch in a longer copy", "the high watermark"],
)
def test_a_batch_after_a_gap_is_believed_with_evidence(
    other: list[Batch], high_watermark: int | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_copy(tmp_path / "a", AFTER_A_GAP, high_watermark=high_watermark)
    write_copy(tmp_path / "b", other)
    for directories in ([tmp_path / "a", tmp_path / "b"], [tmp_path / "b", tmp_path / "a"]):
        assert read(directories)[-RECORDS:] == WHOLE[3].rows
    assert "counts as damaged" not in caplog.text


def test_a_batch_that_another_copy_has_elsewhere_is_not_believed(tmp_path: Path) -> None:
    """A broker that loaded the damaged log has written checkpoints with the wrong offset."""
    directory = write_copy(tmp_path / "a", WHOLE, high_watermark=5000)
    (directory / file_name(0, "log")).write_bytes(flipped(3, 6 * 8 + 4))  # 9 + 2^12
    write_copy(tmp_path / "b", WHOLE)
    for directories in ([tmp_path / "a", tmp_path / "b"], [tmp_path / "b", tmp_path / "a"]):
        assert read(directories) == rows_of(WHOLE)


def test_diff_reports_it_as_damage(tmp_path: Path) -> None:
    log = write_copy(tmp_path / "a", WHOLE) / file_name(0, "log")
    write_copy(tmp_path / "b", WHOLE)
    log.write_bytes(flipped(3, 6 * 8 + 4))
    found = native_log.diff(tmp_path / "a", tmp_path / "b").read_all().to_pylist()
    (damaged,) = (row for row in found if row["kind"] == "damaged")
    assert (damaged["path"], damaged["position"], damaged["firstOffset"]) == (str(log), 3 * SIZE, 9)
    assert {row["kind"] for row in found} == {"damaged", "log-end-offset"}
