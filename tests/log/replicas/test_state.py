"""Read what a copy contains, without reading its records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_log import PartitionLog
from native_log.checkpoints.leader_epochs import LEADER_EPOCH_CHECKPOINT, EpochEntry, write_leader_epochs
from native_log.checkpoints.partition_checkpoints import PartitionCheckpoints
from native_log.log.offset_span import OffsetSpan
from native_log.log.replicas.state import read_state
from native_log.segment.files import file_name
from tests.builders.copies import Batch, batches, damage, write_copy
from tests.builders.legacy import message
from tests.builders.logs import write_log

if TYPE_CHECKING:
    from pathlib import Path

    from native_log.log.replicas.plan import CopyState


def epochs(state: CopyState) -> list[tuple[int, int]]:
    return [(entry.epoch, entry.start_offset) for entry in state.history.entries]


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(0, 8), st.integers(0, 20))
def test_without_a_checkpoint_the_batches_show_the_epochs(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], first: int, roll: int
) -> None:
    tmp_path = tmp_path_factory.mktemp("copy")
    log: list[Batch] = []
    for number, length in enumerate(lengths):
        begin = first + len(log)
        log += batches(begin, begin + length, epoch=2 * number)
    directory = write_copy(tmp_path, log, rolls=[log[roll % len(log)].offset])
    expected = epochs(read_state(PartitionLog.open(directory).state))
    (directory / LEADER_EPOCH_CHECKPOINT).unlink()
    assert epochs(read_state(PartitionLog.open(directory).state)) == expected
    assert [epoch for epoch, _ in expected] == [2 * number for number in range(len(lengths))]


def test_epochs_that_an_older_checkpoint_lacks_are_found(tmp_path: Path) -> None:
    directory = write_copy(tmp_path, [*batches(0, 8), *batches(8, 11, epoch=3), *batches(11, 15, epoch=4)])
    write_leader_epochs(directory, [EpochEntry(0, 0)])
    assert epochs(read_state(PartitionLog.open(directory).state)) == [(0, 0), (3, 24), (4, 33)]


def test_batches_without_an_epoch(tmp_path: Path) -> None:
    data = [message(1, offset) for offset in range(6)]
    directory = write_log(tmp_path / "t-0", {0: [*data, *(b.data for b in batches(2, 9, epoch=5))]})
    write_leader_epochs(directory, [EpochEntry(5, 6)])
    assert epochs(read_state(PartitionLog.open(directory).state)) == [(-1, 0), (5, 6)]


@pytest.mark.parametrize("is_clean", [False, True])
@pytest.mark.parametrize("at", [8, 26, 70])  # the size, the last offset, a record
def test_the_end_follows_the_last_valid_batch(tmp_path: Path, at: int, is_clean: bool) -> None:
    whole = batches(0, 20)
    directory = write_copy(tmp_path, whole, rolls=[30])
    damage(directory, whole[19], at)
    log = PartitionLog.open(directory, checkpoints=PartitionCheckpoints(clean_shutdown=is_clean))
    assert read_state(log.state).end_offset == 57
    assert read_state(log.state, 40).end_offset == 40


def test_segments_with_only_an_index_are_missing(tmp_path: Path) -> None:
    directory = write_copy(tmp_path, batches(0, 20), rolls=[12, 15, 30, 45])
    for base_offset in (12, 15, 45):  # the last one is not between others
        (directory / file_name(base_offset, "log")).unlink()
    assert read_state(PartitionLog.open(directory).state).missing == (OffsetSpan(12, 30),)
