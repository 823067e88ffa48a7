"""Select the files of a log, also after a crash. See also compact-crash-* in test_golden, left by brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from native_log.errors import KafkaLogError
from native_log.log import PartitionLog
from native_log.log.log_files import loadable_files, select_files, swap_logs
from native_log.log.replacing.interrupted import finish_interrupted
from native_log.segment.files import file_name
from tests.builders.batches import batch
from tests.builders.logs import write_log
from tests.contents import offsets

if TYPE_CHECKING:
    from pathlib import Path


def names(*specs: str) -> list[str]:
    """ "0 log swap" -> 00000000000000000000.log.swap"""
    return [file_name(int(number), *rest) for number, *rest in (spec.split() for spec in specs)]


def logs(directory: list[str], replaced: tuple[int, int] | None = None) -> list[str]:
    return [segment.log for segment in select_files(loadable_files(directory), replaced).segments]


def test_segments_in_order_of_their_offsets_not_names() -> None:
    directory = ["5.log", "00000000000000000010.log", "0000000000000000000009.log"]
    assert logs(directory) == ["5.log", "0000000000000000000009.log", "00000000000000000010.log"]


def test_cleaned_and_deleted_are_ignored() -> None:
    assert logs(names("0 log", "0 log cleaned", "0 index cleaned", "7 log", "3 log deleted")) == names(
        "0 log", "7 log"
    )


def test_orphan_indexes_are_ignored() -> None:
    (segment,) = select_files(
        loadable_files(names("0 log", "0 timeindex", "5 index", "5 timeindex")), None
    ).segments
    assert (segment.index, segment.time_index) == (None, file_name(0, "timeindex"))


def test_a_swap_file_replaces_the_segments_that_it_covers() -> None:
    directory = names(
        "0 log", "0 index", "40 log", "80 log", "0 log swap", "0 index swap", "40 snapshot", "80 snapshot"
    )
    files = loadable_files(directory)
    assert [file.name for file in swap_logs(files)] == names("0 log swap")
    chosen = select_files(files, (0, 80))
    assert [s.log for s in chosen.segments] == names("0 log swap", "80 log")
    assert chosen.segments[0].index == file_name(0, "index", "swap")
    assert chosen.snapshots == ((80, file_name(80, "snapshot")),)


def test_a_swap_file_without_an_index_does_not_use_the_old_index() -> None:
    (segment,) = select_files(loadable_files(names("0 log", "0 index", "0 log swap")), (0, 10)).segments
    assert (segment.log, segment.index) == (file_name(0, "log", "swap"), None)


def test_an_interrupted_series_of_renames_is_ignored() -> None:
    # A segment was split into 0, 50 and 90, which are renamed from the highest: 0 is not renamed yet.
    directory = names("0 log", "0 log cleaned", "50 log swap", "90 log swap", "120 log")
    assert logs(directory) == names("0 log", "120 log")
    # A series of renames below the lowest .cleaned file was complete.
    directory = names("0 log swap", "0 log", "120 log", "120 log cleaned", "120 index swap")
    assert swap_logs(loadable_files(directory)) != []
    assert logs(directory, (0, 100)) == names("0 log swap", "120 log")


def test_the_log_file_is_renamed_and_the_index_is_not() -> None:
    (segment,) = select_files(
        loadable_files(names("0 log", "0 index", "0 index swap", "0 timeindex swap")), None
    ).segments
    assert (segment.log, segment.index) == (file_name(0, "log"), file_name(0, "index", "swap"))
    assert segment.time_index == file_name(0, "timeindex", "swap")


def test_an_empty_swap_replaces_nothing(tmp_path: Path) -> None:
    """Its range [base, base) is empty: after such a crash the originals are used, as by a broker."""
    write_log(tmp_path, {0: [batch(0)], 3: [batch(3)], 6: [batch(6)]})
    (tmp_path / file_name(0, "log", "swap")).write_bytes(b"")
    assert offsets(PartitionLog.open(tmp_path).read(columns=["offset"])) == list(range(3, 9))


def test_a_swap_file_extends_to_its_last_record(tmp_path: Path) -> None:
    write_log(tmp_path, {0: [batch(0)], 3: [batch(3)], 6: [batch(6)]})
    (tmp_path / file_name(0, "log", "swap")).write_bytes(batch(0, 1, last_offset_delta=0) + batch(4, 2))
    log = PartitionLog.open(tmp_path)
    assert [segment.log for segment in log.segments] == names("0 log swap", "6 log")
    assert offsets(log.read(columns=["offset"])) == [0, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("is_finished", [False, True])
def test_a_segment_after_damage_in_a_swap_file_is_kept(tmp_path: Path, is_finished: bool) -> None:
    """As in a broker, the .swap file covers the offsets up to its first damage."""
    whole = [batch(offset) for offset in range(0, 12, 3)]
    write_log(tmp_path, {0: whole[:2], 6: whole[2:]})
    damaged = b"".join([whole[0], b"\xff" * len(whole[1]), *whole[2:]])
    (tmp_path / file_name(0, "log", "swap")).write_bytes(damaged)
    if is_finished:
        finish_interrupted(tmp_path, 2**20)
    log = PartitionLog.open(tmp_path)
    suffix = "" if is_finished else " swap"
    assert [segment.log for segment in log.segments] == names(f"0 log{suffix}", "6 log")
    read = log.read(columns=["offset"], mode="dropMalformed")
    assert offsets(read) == [0, 1, 2, *range(6, 12)]


def test_base_offsets_beyond_2_53(tmp_path: Path) -> None:
    first = 2**53 + 1
    write_log(tmp_path, {first: [batch(first)], first + 2**40: [batch(first + 2**40)]})
    log = PartitionLog.open(tmp_path)
    assert (log.log_start_offset, log.log_end_offset) == (first, first + 2**40 + 3)
    assert offsets(log.read(first + 2, first + 2**40 + 1, ["offset"])) == [first + 2, first + 2**40]


def test_no_segment(tmp_path: Path) -> None:
    log = PartitionLog.open(tmp_path)
    assert (log.log_start_offset, log.log_end_offset, log.last_stable_offset) == (0, 0, 0)
    assert list(log.read()) == []
    assert log.offset_for_timestamp(0) is None


def test_empty_segments(tmp_path: Path) -> None:
    """Such segments occur in the middle after compaction, and at the end after a roll."""
    write_log(tmp_path, {0: [], 10: [batch(12)], 20: [], 30: [batch(30)], 40: [], 50: []})
    log = PartitionLog.open(tmp_path)
    assert (log.log_start_offset, log.log_end_offset) == (0, 50)
    assert offsets(log.read(columns=["offset"])) == [12, 13, 14, 30, 31, 32]
    for start in range(51):
        expected = [o for o in (12, 13, 14, 30, 31, 32) if o >= start]
        assert offsets(log.read(start, columns=["offset"])) == expected
        assert offsets(log.read(None, start, ["offset"])) == [
            o for o in (12, 13, 14, 30, 31, 32) if o < start
        ]


def test_a_segment_that_is_too_large_is_rejected(tmp_path: Path) -> None:
    write_log(tmp_path, {0: [batch(0)]})
    with open(tmp_path / file_name(3, "log"), "wb") as out:
        out.truncate(2**31)
    with pytest.raises(KafkaLogError, match=r"less than 2\^31 bytes.*found 2147483648") as raised:
        PartitionLog.open(tmp_path)
    assert raised.value.path == str(tmp_path / file_name(3, "log"))


def test_other_files_and_directories_are_ignored(tmp_path: Path) -> None:
    write_log(tmp_path, {0: [batch(0)]})
    (tmp_path / ".staging-1").mkdir()
    (tmp_path / file_name(3, "index")).mkdir()
    (tmp_path / "notes.txt").write_text("")
    assert len(PartitionLog.open(tmp_path).segments) == 1


def test_a_directory_in_the_place_of_a_log_file_is_an_error(tmp_path: Path) -> None:
    write_log(tmp_path, {0: [batch(0)]})
    (tmp_path / file_name(3, "log")).mkdir()
    with pytest.raises(OSError, match="expected a regular file, found a directory; move it away") as raised:
        PartitionLog.open(tmp_path)
    assert raised.value.filename == str(tmp_path / file_name(3, "log"))


def test_directories_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        PartitionLog.open(tmp_path / "nothing-0")
    (tmp_path / "file-0").write_text("")
    with pytest.raises(NotADirectoryError):
        PartitionLog.open(tmp_path / "file-0")


@pytest.mark.parametrize(
    ("directory", "topic", "partition"),
    [
        ("orders-12", "orders", 12),
        ("a-b-7", "a-b", 7),
        ("x.y-delete-0", "x.y-delete", 0),
        ("a.b.c-3.0123456789abcdef0123456789abcdef-delete", "a.b.c", 3),
        ("t-0.0123456789abcdef0123456789abcdef-stray", "t", 0),
        ("copied", "copied", 0),
    ],
)
def test_name_of_the_directory(tmp_path: Path, directory: str, topic: str, partition: int) -> None:
    log = PartitionLog.open(write_log(tmp_path / directory, {0: [batch(0)]}))
    assert (log.topic, log.partition) == (topic, partition)
