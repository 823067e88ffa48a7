"""Logs with remote storage, read as one log."""

from __future__ import annotations

import pickle
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import native_log
from native_log import KafkaLogError, LogDir, OffsetOutOfRangeError, UnknownTopicOrPartitionError
from native_log.internal_topics.remote_segments import RemoteSegments
from tests.builders.golden_tiered import DANGLING, GOLDEN_TIERED, READABLE, TieredPartition, tiered
from tests.contents import COLUMNS, as_rows, offsets

if TYPE_CHECKING:
    from native_log.arguments import IsolationLevel
    from native_log.log import PartitionLog
    from native_log.log.tiers.remote_segment import RemotePartition, RemoteSegment

LEVELS: tuple[IsolationLevel, ...] = ("read_uncommitted", "read_committed")


def open_joined(partition: TieredPartition) -> PartitionLog:
    logs = LogDir(partition.folder / "data", **partition.remote)
    return logs.partition(*partition.key)


def open_alone(partition: TieredPartition, *, metadata: bool) -> PartitionLog:
    remote_metadata = partition.folder / "data" if metadata else None
    logs = LogDir(remote_metadata=remote_metadata, **partition.remote)
    return logs.partition(*partition.key)


@pytest.mark.parametrize("partition", READABLE, ids=str)
@pytest.mark.parametrize("level", LEVELS)
def test_the_rows_are_those_of_a_consumer(partition: TieredPartition, level: IsolationLevel) -> None:
    log = open_joined(partition)
    assert as_rows(log.read(columns=COLUMNS, isolation_level=level)) == partition.rows(level)


@pytest.mark.parametrize("partition", READABLE, ids=str)
def test_the_offsets_are_those_of_the_broker(partition: TieredPartition) -> None:
    log = open_joined(partition)
    expected = partition.expected
    start = expected.get("earliestInTier", expected["earliest"])
    assert (log.log_start_offset, log.local_log_start_offset) == (start, start)
    assert (log.log_end_offset, log.last_stable_offset) == (expected["latest"], expected["latestCommitted"])
    assert log.missing_start is None


@pytest.mark.parametrize("partition", READABLE, ids=str)
def test_times_are_found_in_the_tier(partition: TieredPartition) -> None:
    log = open_joined(partition)
    for timestamp_ms, answer in partition.expected["offsetsForTimes"]:
        offset = None if answer is None else answer["offset"]
        assert log.offset_for_timestamp(timestamp_ms) == offset


@pytest.mark.parametrize("partition", READABLE, ids=str)
def test_a_log_is_read_in_parts(partition: TieredPartition) -> None:
    whole = pickle.loads(pickle.dumps(open_joined(partition).range()))
    expected = [row["offset"] for row in partition.rows()]
    for parts in (
        whole.split(3000),
        whole.split_at(range(whole.start_offset, whole.end_offset, 37)),
        [part for half in whole.split(9000) for part in half.split_at([whole.end_offset // 2])],
    ):
        for part in parts:
            own = [offset for offset in expected if part.start_offset <= offset < part.end_offset]
            assert offsets(part.read(["offset"])) == own


@pytest.mark.parametrize("partition", READABLE, ids=str)
@pytest.mark.parametrize("metadata", [True, False])
def test_a_tier_is_read_alone(partition: TieredPartition, metadata: bool) -> None:
    if partition.key[0] == "d-local":  # the tier has no segment of it any more
        with pytest.raises(UnknownTopicOrPartitionError):
            open_alone(partition, metadata=metadata)
        return
    log = open_alone(partition, metadata=metadata)
    tiered_end = partition.expected.get("latestTiered", log.log_end_offset - 1) + 1
    assert log.log_end_offset == tiered_end
    # The start of the log is known to the directory only.
    rows = [row for row in partition.rows() if row["offset"] < tiered_end]
    assert as_rows(log.read(log.log_end_offset if not rows else rows[0]["offset"], columns=COLUMNS)) == rows


def test_an_aborted_transaction_is_known_by_a_marker_elsewhere() -> None:
    partition = tiered("lts-txn", "ledger")
    log = open_joined(partition)
    rows = partition.rows("read_committed")
    aborted = {row["offset"] for row in partition.rows()} - {row["offset"] for row in rows}
    in_tier = [offset for offset in aborted if offset < partition.expected["earliestLocal"]]
    assert in_tier
    for offset in range(0, log.log_end_offset, 20):
        part = log.range(offset, min(offset + 20, log.log_end_offset), isolation_level="read_committed")
        own = [row["offset"] for row in rows if offset <= row["offset"] < offset + 20]
        assert offsets(part.read(["offset"])) == own


def test_a_segment_without_an_index_is_a_hole(caplog: pytest.LogCaptureFixture) -> None:
    log = open_joined(DANGLING)
    with pytest.raises(OffsetOutOfRangeError, match="offset 47: expected offsets 47 to 101 in a segment"):
        list(log.read())
    rows = [row for row in DANGLING.rows() if not 47 <= row["offset"] <= 101]
    assert as_rows(log.read(columns=COLUMNS, fail_on_data_loss=False)) == rows
    assert "offsets 47 to 101" in caplog.text
    assert offsets(log.read(102, columns=["offset"])) == [
        row["offset"] for row in rows if row["offset"] > 101
    ]
    assert offsets(log.range(0, 47).read(["offset"])) == list(range(47))


@pytest.fixture
def fixture_copy(tmp_path: Path) -> Path:
    return shutil.copytree(GOLDEN_TIERED / "lts-overlap", tmp_path / "copy")


def test_a_missing_object_is_a_hole(fixture_copy: Path, caplog: pytest.LogCaptureFixture) -> None:
    (lost,) = fixture_copy.glob("tier/*/overlap-mid-*/*0163-*.log")
    lost.unlink()
    log = LogDir(fixture_copy / "data", remote=fixture_copy / "tier").partition("overlap-mid", 0)
    assert (
        "expected a complete copy of segment rEGvs2vtQpe1nd7NtHwx4A, with offsets 163 to 222" in caplog.text
    )
    with pytest.raises(OffsetOutOfRangeError, match="offsets 163 to 222"):
        list(log.read())
    read = offsets(log.read(columns=["offset"], fail_on_data_loss=False))
    assert read == [*range(163), *range(223, 456)]


def test_a_first_segment_without_its_log_is_a_hole(fixture_copy: Path) -> None:
    (lost,) = fixture_copy.glob("tier/*/overlap-mid-*/*0000-*.log")
    lost.unlink()
    log = LogDir(fixture_copy / "data", remote=fixture_copy / "tier").partition("overlap-mid", 0)
    assert (log.log_start_offset, log.local_log_start_offset) == (0, 0)
    with pytest.raises(OffsetOutOfRangeError, match="offset 0: expected offsets 0 to 78 in a segment"):
        list(log.read())
    assert offsets(log.read(columns=["offset"], fail_on_data_loss=False)) == list(range(79, 456))


def test_segments_of_which_only_damaged_ones_are_left_are_a_hole(tmp_path: Path) -> None:
    partition = tiered("aiven-zstd-aes")
    copy = partition.copy_to(tmp_path / "copy")
    for manifest in copy.folder.glob(f"tier/**/{copy.key[1]}/*.rsm-manifest"):
        manifest.unlink()
    start, end = partition.expected["onlyInTier"]
    log = open_joined(copy)
    with pytest.raises(OffsetOutOfRangeError, match=f"offset {start}: expected offsets {start} to {end - 1}"):
        list(log.read())
    rows = [row for row in partition.rows() if row["offset"] >= end]
    assert as_rows(log.read(columns=COLUMNS, fail_on_data_loss=False)) == rows
    alone = open_alone(copy, metadata=True)
    assert (alone.log_start_offset, alone.log_end_offset) == (start, partition.expected["latestTiered"] + 1)
    assert list(alone.read(fail_on_data_loss=False)) == []


def test_a_segment_that_is_being_deleted_is_no_hole(
    fixture_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker writes that the deletion has begun before it deletes the first object."""
    (lost,) = fixture_copy.glob("tier/*/overlap-mid-*/*0000-*.log")
    readable, calls = RemoteSegments.readable, 0

    def delete_after_first_look(self: RemoteSegments, partition: RemotePartition) -> list[RemoteSegment]:
        nonlocal calls
        calls += 1
        lost.unlink(missing_ok=True)
        segments = readable(self, partition)
        return segments if calls == 1 else [each for each in segments if each.id not in lost.name]

    monkeypatch.setattr(RemoteSegments, "readable", delete_after_first_look)
    log = LogDir(fixture_copy / "data", remote=fixture_copy / "tier").partition("overlap-mid", 0)
    assert offsets(log.read(columns=["offset"])) == list(range(79, 456))


def test_a_missing_start_is_reported_as_one(fixture_copy: Path) -> None:
    """Retention may have deleted the segment since the metadata was copied."""
    for lost in fixture_copy.glob("tier/*/overlap-mid-*/*0000-*"):
        lost.unlink()
    log = LogDir(fixture_copy / "data", remote=fixture_copy / "tier").partition("overlap-mid", 0)
    assert (log.log_start_offset, log.local_log_start_offset) == (0, 79)
    assert offsets(log.read(columns=["offset"])) == list(range(79, 456))


def test_damage_in_a_local_segment_is_replaced_from_the_tier(tmp_path: Path) -> None:
    partition = tiered("lts-txn", "ledger-2")
    folder = shutil.copytree(partition.folder, tmp_path / "copy")
    start, _ = partition.expected["inBoth"]
    file = folder / partition.expected["dir"] / f"{start:020}.log"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    log = LogDir(folder / "data", remote=folder / "tier").partition(*partition.key)
    assert as_rows(log.read(columns=COLUMNS)) == partition.rows()


def test_without_remote_storage_the_log_is_local() -> None:
    partition = tiered("lts-overlap")
    log = LogDir(partition.folder / "data").partition(*partition.key)
    assert log.local_log_start_offset == partition.expected["earliestLocal"]


def test_a_log_with_remote_storage_cannot_be_changed() -> None:
    partition = tiered("lts-overlap")
    logs = LogDir(partition.folder / "data", remote=partition.folder / "tier")
    with pytest.raises(KafkaLogError, match="remote storage"):
        logs.partition(*partition.key).append([])


def test_a_folder_without_partitions_is_no_tier(tmp_path: Path) -> None:
    with pytest.raises(
        KafkaLogError, match="expected partitions in remote storage of layout auto, found none"
    ):
        LogDir(remote=tmp_path)


def test_invalid_arguments(tmp_path: Path) -> None:
    tier = GOLDEN_TIERED / "lts-overlap" / "tier"
    with pytest.raises(ValueError, match=r"remote_layout: expected one of auto, local, .*, found 's3'"):
        LogDir(remote=tier, remote_layout="s3")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="remote_metadata: expected remote storage in `remote`, found none"):
        LogDir(GOLDEN_TIERED / "lts-overlap" / "data", remote_metadata=tmp_path)


def test_a_directory_that_ends_before_its_remote_segments(
    fixture_copy: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (active,) = fixture_copy.glob("data/overlap-mid-0/*0428.log")
    earlier = fixture_copy / "data" / "overlap-mid-0" / "00000000000000000363.log"
    (remote,) = fixture_copy.glob("tier/*/overlap-mid-*/*0363-*.log")
    shutil.copy(remote, earlier)
    active.unlink()
    log = LogDir(fixture_copy / "data", remote=fixture_copy / "tier").partition("overlap-mid", 0)
    assert log.log_end_offset == 400
    assert "the log ends at offset 400 here, but in remote storage at 428" in caplog.text


def overlapping(tmp_path: Path) -> TieredPartition:
    """Return a copy of a fixture whose local segments are in the tier, too."""
    partition = tiered("lts-overlap", "overlap-mid")
    shutil.copytree(partition.folder, tmp_path / "copy")
    return replace(partition, copy=tmp_path / "copy")


def test_local_segments_that_are_deleted_after_the_plan_are_read_from_the_tier(tmp_path: Path) -> None:
    partition = overlapping(tmp_path)
    log = open_joined(partition)
    planned = pickle.loads(pickle.dumps(log.range()))
    reader = planned.read(["offset"])
    found = offsets([next(reader)])
    directory = partition.folder / "data" / "overlap-mid-0"
    for file in sorted(directory.glob("*.log"))[:-1]:
        for each in directory.glob(f"{file.stem}.*"):
            each.unlink()
    assert found + offsets(reader) == [row["offset"] for row in partition.rows()]


def test_remote_segments_that_are_deleted_after_the_plan(tmp_path: Path) -> None:
    partition = overlapping(tmp_path)
    log = open_joined(partition)
    first = next(iter(log.range().slices)).segment
    planned = [log.range() for _ in range(2)]
    first.path.unlink()
    with pytest.raises(FileNotFoundError, match=r"offsets 0 to \d+ are gone"):
        list(planned[0].read(["offset"]))
    left = offsets(planned[1].read(["offset"], fail_on_data_loss=False))
    assert left == [row["offset"] for row in partition.rows() if row["offset"] >= first.end_offset]


def remote_problems(partition: TieredPartition) -> list[tuple[str, str, int]]:
    rows = native_log.verify(partition.folder / "data", partition.key[0], **partition.remote).to_pylist()
    return [(row["kind"], Path(row["path"]).name, row["offset"]) for row in rows]


@pytest.mark.parametrize("partition", [each for each in READABLE if each.layout != "pinterest"], ids=str)
def test_tiers_of_brokers_agree_with_their_metadata(partition: TieredPartition) -> None:
    kinds = {kind for kind, _, _ in remote_problems(partition)}
    assert "missing-object" not in kinds


def test_objects_without_metadata_and_metadata_without_objects(tmp_path: Path) -> None:
    partition = overlapping(tmp_path)
    segments = [
        each.segment for each in open_joined(partition).range().slices if "tier" in each.segment.directory
    ]
    first = segments[0].path
    orphan = first.with_name(first.name.replace(first.name[21:43], "AAAAAAAAAAAAAAAAAAAAAA"))
    for file in first.parent.glob(f"{first.name[:43]}*"):
        shutil.copy(file, orphan.with_name(file.name.replace(first.name[21:43], "AAAAAAAAAAAAAAAAAAAAAA")))
    segments[1].path.unlink()
    found = remote_problems(partition)
    assert ("orphan-object", orphan.name, 0) in found
    assert ("missing-object", first.parent.name, segments[1].base_offset) in found


def test_a_key_prefix_without_objects_is_reported(tmp_path: Path) -> None:
    folder = tiered("aiven-zstd-aes").folder
    with pytest.raises(
        KafkaLogError, match=r"found none; check the path, remote\.layout, and remote\.prefix"
    ):
        LogDir(folder / "data", remote=folder / "tier", remote_prefix="other/")


def with_new_prefix(partition: TieredPartition, path: Path) -> TieredPartition:
    """Return a copy whose tier has only the last segment below a new `key.prefix`, `other/`."""
    copy = replace(partition, prefix="other/", copy=shutil.copytree(partition.folder, path / "copy"))
    tier = copy.folder / "tier"
    *_, last = sorted(tier.glob(f"pre/fix-{copy.key[0]}-*/{copy.key[1]}/*.log"))
    folder = tier / "other" / last.parent.parent.name.removeprefix("fix-") / last.parent.name
    folder.mkdir(parents=True)
    for file in last.parent.glob(f"{last.stem}.*"):
        file.rename(folder / file.name)
    return copy


def test_segments_from_before_a_change_of_the_key_prefix_are_found(tmp_path: Path) -> None:
    partition = with_new_prefix(tiered("aiven-zstd-aes"), tmp_path)
    assert as_rows(open_joined(partition).read(columns=COLUMNS)) == partition.rows()
    assert not [kind for kind, *_ in remote_problems(partition) if kind == "missing-object"]


def test_without_metadata_only_the_given_key_prefix_is_read(tmp_path: Path) -> None:
    partition = with_new_prefix(tiered("aiven-zstd-aes"), tmp_path)
    log = open_alone(partition, metadata=False)
    assert len({each.segment.log for each in log.range().slices}) == 1
