"""Local segments that are missing are read from remote storage, if it has them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from native_log import LogDir
from native_log.log.tiers.tier_of_segments import remote_segments
from tests.builders.golden_tiered import READABLE, TieredPartition, tiered
from tests.contents import COLUMNS, as_rows, offsets

if TYPE_CHECKING:
    from pathlib import Path

    from native_log.arguments import IsolationLevel
    from native_log.log import PartitionLog


def directory_of(partition: TieredPartition) -> Path:
    topic, number = partition.key
    return partition.folder / "data" / f"{topic}-{number}"


def open_log(partition: TieredPartition) -> PartitionLog:
    return LogDir(partition.folder / "data", **partition.remote).partition(*partition.key)


def middle_segments(partition: TieredPartition) -> list[str]:
    """Return the names, without a suffix, of local segments between others that the tier has, too."""
    local = sorted(path.stem for path in directory_of(partition).glob("*.log"))[1:-1]
    stored = {
        path.name[:20]
        for path in partition.objects()
        if path.suffix == ".log"
        and (partition.layout != "pinterest" or path.with_suffix(".index").exists())  # else it is unfinished
    }
    return [name for name in local if name in stored]


CASES = [(partition, name) for partition in READABLE for name in middle_segments(partition)]


def test_there_is_a_case_of_each_layout() -> None:
    assert {partition.layout for partition, _ in CASES} == {partition.layout for partition in READABLE}


@pytest.mark.parametrize("is_index_left", [True, False], ids=["index left", "nothing left"])
@pytest.mark.parametrize(("partition", "name"), CASES, ids=str)
def test_a_segment_that_the_tier_has(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    partition: TieredPartition,
    name: str,
    is_index_left: bool,
) -> None:
    partition = partition.copy_to(tmp_path / "copy")
    for file in directory_of(partition).glob(f"{name}.*"):
        if not is_index_left or file.suffix == ".log":
            file.unlink()
    if partition.layout == "pinterest" and not is_index_left:
        # Any topic can be uploaded, so compaction may have removed the records.
        assert len(offsets(open_log(partition).read(columns=["offset"]))) < len(partition.rows())
        assert "have no records, but" in caplog.text
        return
    for level in ("read_uncommitted", "read_committed"):
        log = open_log(partition)
        with caplog.at_level(logging.WARNING):
            assert as_rows(log.read(columns=COLUMNS, isolation_level=level)) == partition.rows(level)
        assert log.missing_segments is None
        in_tier = {int(path.name[:20]) for path in remote_segments(log.state.source)}
        assert (int(name) in in_tier) == is_index_left  # otherwise it is found where it is read
    assert ("are missing in the best copy" in caplog.text) != is_index_left


def test_a_segment_that_the_tier_lacks(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    partition = tiered("lts-txn", "ledger-2").copy_to(tmp_path / "copy")
    name = middle_segments(partition)[0]
    for folder in (directory_of(partition), partition.folder / "tier"):
        for file in folder.rglob(f"{name}*.log"):
            file.unlink()
    rows = open_log(partition).read(columns=COLUMNS, fail_on_data_loss=False)
    assert len(as_rows(rows)) < len(partition.rows())
    assert f"/{name}.index: the .log file of this index is missing" in caplog.text


@pytest.mark.parametrize("partition", [p for p in READABLE if middle_segments(p)], ids=str)
def test_a_segment_that_is_removed_while_the_log_is_read(tmp_path: Path, partition: TieredPartition) -> None:
    partition = partition.copy_to(tmp_path / "copy")
    name = middle_segments(partition)[-1]
    log = open_log(partition)
    batches = log.range().read(["offset"], max_rows=1, fail_on_data_loss=False)
    read: list[int] = []
    for batch in batches:
        read += batch.column("offset").to_pylist()
        if read[-1] == int(name) - 1:
            (directory_of(partition) / f"{name}.log").unlink()
    assert read == [row["offset"] for row in partition.rows()]


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_segments_that_move_to_the_tier_between_planning_and_reading(
    tmp_path: Path, level: IsolationLevel
) -> None:
    """Aborted transactions of the rest of the log are looked up after the log was joined again."""
    partition = tiered("lts-txn", "ledger-2").copy_to(tmp_path / "copy")
    log = open_log(partition)
    ranges = log.range(isolation_level=level).split(2000)
    for name in sorted(path.stem for path in directory_of(partition).glob("*.log"))[:-1]:
        for file in directory_of(partition).glob(f"{name}.*"):
            if file.suffix != ".snapshot":
                file.unlink()
    expected = [row["offset"] for row in partition.rows(level)]
    assert [offset for each in ranges for offset in offsets(each.read(["offset"]))] == expected
    assert offsets(log.read(columns=["offset"], isolation_level=level)) == expected


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("start", [17, 203])
def test_segments_that_are_deleted_everywhere_between_planning_and_reading(
    tmp_path: Path, start: int, level: IsolationLevel, caplog: pytest.LogCaptureFixture
) -> None:
    partition = tiered("lts-txn", "ledger-2").copy_to(tmp_path / "copy")
    planned = open_log(partition).range(isolation_level=level)
    partition.delete_objects(start)
    for file in directory_of(partition).glob("0*.*"):
        if int(file.name[:20]) < start:
            file.unlink()
    with pytest.raises(FileNotFoundError, match=f"offsets 0 to {start - 1} are gone"):
        offsets(planned.read(["offset"]))
    read = offsets(planned.read(["offset"], fail_on_data_loss=False))
    assert read == [row["offset"] for row in partition.rows(level) if row["offset"] >= start]
    assert f"offsets 0 to {start - 1} are gone" in caplog.text


@pytest.mark.parametrize("partition", READABLE, ids=str)
def test_counting_with_a_bound_within_a_batch(partition: TieredPartition) -> None:
    """Batches that a bound cuts are decoded. They must not be repaired twice."""
    log = open_log(partition)
    middle = (log.log_start_offset + log.log_end_offset) // 2
    for start in range(middle, middle + 5):
        scan = log.scan(columns=["offset"], filter=f"offset >= {start}")
        assert scan.count_rows() == scan.to_table().num_rows
