"""Inspect a copy: find damaged ranges and missing offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from native_log import PartitionLog
from native_log.checkpoints.partition_checkpoints import PartitionCheckpoints
from native_log.log.offset_span import OffsetSpan
from native_log.log.replicas.copies import inspect_copy
from native_log.segment.files import MAX_OFFSET, file_name
from tests.builders.copies import batches, damage, write_copy

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("rolls", [(), (18,), (27,), (18, 27)])
def test_offsets_that_no_batch_has_are_missing_if_the_topic_is_not_compacted(
    tmp_path: Path, rolls: tuple[int, ...]
) -> None:
    whole = batches(0, 20)
    directory = write_copy(tmp_path, [*whole[:5], *whole[9:12], *whole[13:]], rolls=rolls)
    log = PartitionLog.open(directory)
    expected = (OffsetSpan(15, 27), OffsetSpan(36, 39))
    inspected = inspect_copy(log.state, is_compacted=False)
    assert (inspected.missing, inspected.lost, inspected.damaged) == (expected, expected, ())
    assert inspect_copy(log.state).missing == ()


def test_a_missing_segment_is_missing_in_a_compacted_topic_too(tmp_path: Path) -> None:
    whole = batches(0, 20)
    directory = write_copy(tmp_path, [*whole[:2], *whole[4:]], rolls=[15, 30])
    (directory / file_name(15, "log")).unlink()
    for is_compacted, expected in ((True, [(15, 30)]), (False, [(6, 12), (15, 30)])):
        inspected = inspect_copy(PartitionLog.open(directory).state, is_compacted)
        assert inspected.missing == tuple(OffsetSpan(*offsets) for offsets in expected)


@pytest.mark.parametrize("is_compacted", [True, False])
def test_offsets_of_damaged_ranges_are_lost_but_not_missing(tmp_path: Path, is_compacted: bool) -> None:
    whole = batches(0, 20)
    directory = write_copy(tmp_path, whole, rolls=[30])
    for number in (0, 9, 12, 19):  # at the start and the end of a segment, within it, and at the end
        damage(directory, whole[number])
    log = PartitionLog.open(directory, checkpoints=PartitionCheckpoints(clean_shutdown=True))
    inspected = inspect_copy(log.state, is_compacted)
    lost = [OffsetSpan(0, 3), OffsetSpan(27, 30), OffsetSpan(36, 39), OffsetSpan(57, MAX_OFFSET)]
    assert [damaged.lost for damaged in inspected.damaged] == lost
    assert (inspected.missing, inspected.lost) == ((), tuple(lost))
